"""Drawings of witnesses: what they show, and how a terminal draws it; the report draws the same scenes as SVG."""
