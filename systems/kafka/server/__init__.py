"""Kafka's servers: releases, start-up, settings, storage, what their logs say."""
