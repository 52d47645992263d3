"""Faults of links: partition, flapping, slow and lossy links, toxics."""
