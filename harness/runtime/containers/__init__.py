"""The container runtime: the same nodes, links and proofs inside Docker or Podman."""
