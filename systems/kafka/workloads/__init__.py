"""What only Kafka can be asked: one file, one guarantee; each workload names its checkers by registry key."""
