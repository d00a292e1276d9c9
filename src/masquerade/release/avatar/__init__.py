"""Replace people by avatars who do the same, and say which pixels are drawn."""
