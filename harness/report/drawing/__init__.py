"""Witnesses as pictures: what is to be drawn, and how a terminal shows it; the report draws the same as SVG."""
