"""Sentences that tell what happened, made from the checkers' figures."""
