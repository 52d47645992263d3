"""`fencepost check` for every kind of input: runs, files of other tools, tables."""
