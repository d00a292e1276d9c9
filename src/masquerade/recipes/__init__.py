"""The papers' experiments, and the demo, as functions that put doors and rooms together."""
