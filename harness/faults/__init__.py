"""What every fault shares: the kind, the schedule, the conductor, triggers, quorum. Knows no single kind."""
