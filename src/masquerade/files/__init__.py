"""Array files in, array files out, and writing that is all or nothing."""
