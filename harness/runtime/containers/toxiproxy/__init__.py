"""Faults of byte streams, by a Toxiproxy server in each node's network namespace."""
