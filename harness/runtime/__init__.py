"""Where a node lives: the rootless lab; who can talk to whom; where server binaries come from."""
