"""From a run's folder or a file to its verdict: which checkers, which facts, what decides."""
