"""Nouns to one self-contained page that a person can read. No network, no script."""
