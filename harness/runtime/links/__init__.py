"""Links between nodes: the rules in force, the probes that prove them, and resets of connections."""
