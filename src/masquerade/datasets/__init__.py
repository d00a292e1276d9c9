"""Where recordings come from: Stage, the embedded world, and one file per public data set."""
