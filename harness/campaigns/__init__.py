"""Many runs: replay, shrink, failover, nights."""
