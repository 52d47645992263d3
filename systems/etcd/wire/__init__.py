"""etcd's gRPC over HTTP/2. Knows nothing of the system that speaks it."""
