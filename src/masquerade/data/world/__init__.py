"""The parts of Stage: bodies, motion, places, pictures and signals of people who never lived."""
