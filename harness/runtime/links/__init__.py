"""Who can reach whom: the rules in force, the probes that prove them, resets of connections."""
