"""One plan run several times by one command: what is said of all its runs."""
