"""Transactions: Adya's anomalies by cycles of dependencies."""
