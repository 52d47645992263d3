"""Kafka's protocol: messages, records, one connection. Knows nothing of the servers."""
