"""What a node runs: a leaf for each system, with its client, its error table, its promises and all that only it has."""
