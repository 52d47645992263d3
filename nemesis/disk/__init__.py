"""Faults of disks: slow, failing or full ones, lost writes, power loss, damage."""
