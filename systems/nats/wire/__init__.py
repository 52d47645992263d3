"""The client protocol of NATS on the wire: frames, one connection, and which answer means what."""
