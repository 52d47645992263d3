"""What only the pages of Kafka's runs show."""
