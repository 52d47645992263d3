"""A rule with its chances: what could have broken a guarantee in this run, and what was lacking where nothing could."""

from fencepost.harness.verdict import Rule


def rule(name: str, chances: int, lacks: str) -> Rule:
    """`lacks` is said only where there was no chance."""
    return Rule(name=name, chances=chances, lacks="" if chances else lacks)
