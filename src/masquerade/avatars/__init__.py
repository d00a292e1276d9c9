"""Avatars: people leave a film, and figures who never lived do what they did."""
