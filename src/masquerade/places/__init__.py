"""Places: noise where a film shows where it was made."""
