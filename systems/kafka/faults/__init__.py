"""What only Kafka can suffer: one file, one kind of fault."""
