"""Doing a recorded run again: `replay` as it was, `shrink` with less and less of it."""
