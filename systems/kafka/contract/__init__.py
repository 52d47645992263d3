"""What Kafka's systems declare to its own faults and measurements, beside what `harness.contract` asks of all."""
