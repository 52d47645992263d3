"""Checks through Spark: registers and transactions in tables that are too large for one machine."""
