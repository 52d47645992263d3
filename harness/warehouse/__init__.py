"""Runs through Spark: facts over histories of any number and size."""
