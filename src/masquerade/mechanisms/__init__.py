"""Publish recordings: one mechanism a file. A room never imports a room."""
