"""What happened, told in sentences from the checkers' figures."""
