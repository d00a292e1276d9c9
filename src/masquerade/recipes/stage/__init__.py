"""Stage, our embedded world, in the docs: its pictures, how hard it is, and a gallery of it."""
