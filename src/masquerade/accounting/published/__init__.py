"""What the five papers print, and what holds: one file a paper, defaults as in the paper."""
