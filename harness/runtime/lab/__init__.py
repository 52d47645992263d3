"""The rootless runtime: every node in its own network namespace, without a container engine."""
