"""What only Cassandra promises, judged."""
