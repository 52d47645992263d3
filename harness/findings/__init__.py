"""What many runs show together: how often an anomaly shows, whether it is new, gone or back, and who knows of it."""
