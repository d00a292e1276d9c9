"""Films of Stage before and after their people were replaced: made once, kept, and shown."""
