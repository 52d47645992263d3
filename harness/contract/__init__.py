"""What a system declares: how it starts, what it promises, its parts."""
