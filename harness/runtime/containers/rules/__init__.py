"""Packet rules inside a container's network namespace, set by a side-car."""
