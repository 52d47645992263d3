"""CQL's binary protocol on the wire: frames, one connection, and which error means what."""
