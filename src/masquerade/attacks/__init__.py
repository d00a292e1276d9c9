"""Try to break what was published: one attack a file, each between a ceiling and a floor."""
