"""Packet rules inside a container's network namespace, set from this machine or by a side-car."""
