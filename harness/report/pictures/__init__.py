"""Witnesses, timelines and latencies drawn as SVG."""
