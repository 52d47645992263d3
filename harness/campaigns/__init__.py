"""Many runs: replay, shrink, nights, gates, failover, the tables of KIP-30 and KIP-273."""
