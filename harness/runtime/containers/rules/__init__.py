"""Packet rules inside a container's namespace: set from this machine, or by a side-car."""
