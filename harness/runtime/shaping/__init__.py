"""Slow and lossy links: packets are held, delayed, doubled and dropped on their way."""
