"""Sequential objects beyond registers, judged for linearizability: locks, counters, sets, queues, logs, banks."""
