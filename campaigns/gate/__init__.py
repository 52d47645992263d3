"""A gate: whether a candidate meets a policy, decided from the runs of one night and told on one page."""
