"""Kafka asked as a client: one broker at a time, without hidden retries."""
