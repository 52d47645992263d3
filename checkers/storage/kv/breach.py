"""Why no order explains a history, and how it is said: each operation with its answer, then what cannot be."""

from typing import NamedTuple

from fencepost.checkers.findings.words import describe, shown
from fencepost.checkers.storage.kv.acts import Act, Kind


class Breach(NamedTuple):
    """Why no order explains the history: `acts` show it, the last of them is at fault."""

    anomaly: str
    acts: tuple[Act, ...]
    steps: tuple[str, ...]


def breach_of(anomaly: str, acts: tuple[Act, ...], *steps: str) -> Breach:
    """Make a breach whose steps begin with the acts and their answers, the one at fault first."""
    # What is named first is what a drawing marks.
    lead = tuple(f"{_sentence(act)}." for act in (acts[-1], *acts[:-1]))
    return Breach(anomaly, acts, (*lead, *steps))


def _sentence(act: Act) -> str:
    """An operation and its answer, in words."""
    request = describe(act.op)
    if act.done is None:
        return f"{request} has no known outcome"
    if act.writes:
        return f"{request} was acknowledged at {shown(act.at)}"
    if act.kind is Kind.SYNC:
        return f"{request} was answered"
    stands = "" if act.at is None else f", from {shown(act.at)}"
    made = "nothing" if act.made is None else f"what {shown(act.made)} made"
    return f"{request} was answered with {made}{stands}"


def reached_words(act: Act, number: str) -> str:
    return f"The {act.op.f} of event {act.invoked} had been answered with {number} {shown(act.reached)}"


def named(key: str | None) -> str:
    return "the key" if key is None else str(key)
