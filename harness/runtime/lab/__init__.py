"""The rootless runtime: every node in a network namespace of its own, no container engine."""
