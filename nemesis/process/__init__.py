"""Faults of server processes: kill, pause, gray."""
