"""Generators in parts: `contract` (values and the protocol), `offering`, `pacing`, `sharing` (the combinators).

Import the names from `harness.generator`.
"""
