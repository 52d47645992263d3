"""What judges only Kafka's runs."""
