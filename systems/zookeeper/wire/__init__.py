"""ZooKeeper's protocol in Jute encoding, and one session on it."""
