"""A night: a campaign's cells run within a budget, registered, classed, and told on one page and in one exit code."""
