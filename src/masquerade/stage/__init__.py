"""Bodies, skeletons, looks, raster and camera: figures that Stage and avatars both draw.

The parts of Stage: bodies, motion, places, pictures and signals of people who never lived.
"""
