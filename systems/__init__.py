"""What a node runs: one folder per system, each with its client, its error table and its promises."""
