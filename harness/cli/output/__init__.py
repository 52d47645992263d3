"""What commands share: the session of their runs, progress, outcome, verdict."""
