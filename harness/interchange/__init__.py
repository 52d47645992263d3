"""Histories and opinions of other tools."""
