"""From findings to a verdict: the one ladder, and its words."""
