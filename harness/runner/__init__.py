"""The child process of a run: cluster up, load and faults, everything down. Knows neither judging nor reports."""
