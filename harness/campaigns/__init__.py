"""Many runs: replay, shrink, failover."""
