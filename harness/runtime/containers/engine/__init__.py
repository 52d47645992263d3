"""The container engine: found, called with a deadline, its events, its network, what belongs to us."""
