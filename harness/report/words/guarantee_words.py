"""Guarantees in words, for a history that stands alone: there is no system that would say what it promises."""

from typing import Final

_WORDS: Final = {
    "linearizable": "Each operation seems to happen at one instant between its invocation and its completion.",
    "no-lost-acknowledged-writes": "What was acknowledged is there when it is read later, and nothing else is.",
    "ordered-sequential": "Writes are linearizable in the order of their zxids; each session sees the states of the "
    "store in that order, and behind a sync everything that was acknowledged before it.",
    "strict-serializable": "Transactions behave as in some one order, in which a transaction that was completed stands "
    "before every one that was invoked after that.",
}


def guarantee_words(name: str) -> str:
    """One sentence; empty where there is none."""
    return _WORDS.get(name, "")
