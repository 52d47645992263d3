"""What a system declares: the `System` protocol, its optional abilities, its server settings."""
