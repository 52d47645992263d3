"""Faults of server processes: kill, pause, gray, staggered stops of several nodes."""
