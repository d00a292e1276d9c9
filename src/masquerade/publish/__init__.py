"""The application layer: everything that leaves takes one way, whether file, folder or model."""
