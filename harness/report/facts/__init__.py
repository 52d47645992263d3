"""What a report reads: the case, lanes of the timeline, figures of the checkers."""
