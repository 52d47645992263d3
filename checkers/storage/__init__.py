"""Registers, sets, sessions: what key-value stores promise."""
