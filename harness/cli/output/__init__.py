"""What every command prints: progress, outcome, verdict."""
