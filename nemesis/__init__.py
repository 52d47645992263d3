"""Disturbs: one file, one kind of fault; each fault proves that it took hold."""
