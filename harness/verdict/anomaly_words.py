"""Anomalies counted in plain words: "1 stale read", "2 lost writes", "view went back 3 times".

An anomaly keeps its name (`stale-read`) in verdict.json, in fingerprints and beside each witness. Sentences use these
words.
"""

import functools
import re
from collections.abc import Mapping
from typing import Final

from fencepost.harness.base import offers

#: Names whose words are not a phrase yet; leaves bring those of their own anomalies.
_PHRASES: Final = {
    "answers-out-of-order": "pipeline whose answers came out of order",
    "batch-broken": "broken batch",
    "child-of-ephemeral": "ephemeral with a child",
    "ended-member-came-back": "ended member that came back",
    "listener-stuck": "listener that stopped hearing",
    "member-not-seen": "member that a list lacks",
    "orphan-child": "orphan",
    "read-before-own-write": "read that missed an own write",
    "session-order": "violation of the session order",
    "version-skew": "wrong version count",
    "watch-before-answer": "answer that overtook a watch event",
    "append-order": "violation of the append order",
    "inconsistent-offsets": "pair of inconsistent offsets",
    "internal": "internal contradiction",
    "lost-after-seen": "write lost after it was seen",
    "non-linearizable": "history that no order explains",
    "read-uncommitted": "uncommitted read",
    "same-term-twice": "term given twice",
    "stale-after-sync": "stale read after a sync",
    "self-fencing-failed": "failure of self-fencing",
    "stale-answer-by-superseded-leader": "stale answer by a superseded leader",
    "token-order": "violation of the token order",
    "trail-against-positions": "trail that contradicts the positions",
    "two-believers": "pair of believers",
    "two-holders": "pair of holders",
    "two-values": "pair of contradicting values",
    "write-order": "violation of the write order",
}
#: Names with one of these are a clause: it happened so many times.
_CLAUSE_WORDS: Final = frozenset(
    {"accepted", "acted", "contradict", "contradicts", "differ", "revoked", "took", "went"}
)
#: The noun of a phrase stands before the first of these.
_AFTER_NOUN: Final = frozenset(
    {"after", "at", "by", "from", "given", "in", "lost", "of", "on", "that", "whose", "with", "without"}
)
#: Adya's names of phenomena: G0, G1c, G2-item, G-single-realtime.
_PHENOMENON: Final = re.compile(r"G[-\d]\S*")
_SIBILANT: Final = ("ss", "x", "tch", "sh")


def anomaly_count(count: int, anomaly: str, number: str = "") -> str:
    """Say how often an anomaly happened.

    Args:
        count: violations of this name.
        anomaly: its name in the verdict.
        number: the count as it is written; by default its digits.

    Returns:
        A noun phrase ("8 stale reads") or, where the name is a clause, the clause with its number ("view went back
        once").
    """
    number = number or str(count)
    if _is_clause(anomaly):
        return f"{anomaly_noun(count, anomaly)} {'once' if count == 1 else f'{number} times'}"
    return f"{number} {anomaly_noun(count, anomaly)}"


def anomaly_noun(count: int, anomaly: str) -> str:
    """Name an anomaly in words, as a plural unless `count` is 1."""
    if _PHENOMENON.fullmatch(anomaly):
        return f"{anomaly} {'anomaly' if count == 1 else 'anomalies'}"
    parts = _phrases().get(anomaly, anomaly.replace("-", " ")).split()
    if count != 1 and not _is_clause(anomaly):
        noun = next((i for i, part in enumerate(parts) if i and part in _AFTER_NOUN), len(parts)) - 1
        parts[noun] = _plural(parts[noun])
    return " ".join(parts)


@functools.cache
def _phrases() -> Mapping[str, str]:
    return {**offers.targets("anomaly_words"), **_PHRASES}


def _is_clause(anomaly: str) -> bool:
    return anomaly not in _phrases() and not _CLAUSE_WORDS.isdisjoint(anomaly.split("-"))


def _plural(noun: str) -> str:
    if noun == "cas" or (noun.endswith("s") and not noun.endswith("ss")):
        return noun
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(_SIBILANT) else f"{noun}s"
