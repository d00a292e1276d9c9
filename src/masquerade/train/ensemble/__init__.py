"""Teachers that vote, and a student that learns from their noisy labels."""
