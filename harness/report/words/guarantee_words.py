"""Descriptions of guarantees for a history without a system, which would otherwise say what it promises."""

from typing import Final

_WORDS: Final = {
    "linearizable": "Each operation seems to happen at one instant between its invocation and its completion.",
    "no-lost-acknowledged-writes": "Later reads return every acknowledged write, and nothing else.",
    "ordered-sequential": "Writes are linearizable in one order; each session sees the states of the store in that "
    "order, and after a sync everything that was acknowledged before it.",
    "strict-serializable": "Transactions behave as in one order, in which a completed transaction comes before every "
    "transaction that was invoked later.",
}


def guarantee_words(name: str) -> str:
    """Return one sentence on a guarantee; empty for an unknown name."""
    return _WORDS.get(name, "")
