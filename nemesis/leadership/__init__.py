"""Leaders moved and deposed."""
