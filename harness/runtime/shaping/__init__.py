"""Slow and lossy links: packets held, delayed and dropped on their way."""
