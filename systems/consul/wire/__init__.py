"""Consul's HTTP interface: its messages, and the table from its errors to outcomes."""
