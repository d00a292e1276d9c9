"""Bodies, skeletons, looks, raster and camera: figures that Stage and avatars both draw."""
