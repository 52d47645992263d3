"""What only Kafka's checkers and pages take from a history."""
