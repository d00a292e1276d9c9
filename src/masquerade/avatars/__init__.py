"""Avatars: people leave a film, and figures who never lived do what they did."""

MASKS = ".masks.npz"  # what is published beside a film: which pixels are drawn
