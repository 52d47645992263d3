"""Anomalies counted in plain words: "1 stale read", "2 lost writes", "view went back 3 times".

An anomaly keeps its name (`stale-read`) in verdict.json, in fingerprints and beside each witness. Sentences use these
words.
"""

import re
from typing import Final

#: Names whose words are not a phrase yet.
_PHRASES: Final = {
    "answers-out-of-order": "pipeline whose answers came out of order",
    "batch-broken": "broken batch",
    "change-not-heard": "change that a listener was not told of",
    "committed-entry-withdrawn": "withdrawal of a committed entry",
    "child-of-ephemeral": "ephemeral with a child",
    "dropped-topic-is-back": "dropped topic that came back",
    "dropped-eligible": "eligible replica that was dropped",
    "ended-member-came-back": "ended member that came back",
    "epoch-skipped": "skipped epoch",
    "kraft-epoch-fell": "fall of KRaft's epoch",
    "lost-in-roll-back": "topic lost in the roll-back",
    "left-behind": "change that did not arrive",
    "listener-differs-from-disk": "contradiction between a listener and a disk",
    "listener-epoch-fell": "fall of a listener's epoch",
    "listener-missed-offset": "gap in what a listener was told",
    "listener-stuck": "listener that stopped hearing",
    "member-not-seen": "member that a list lacks",
    "migration-state-overwritten": "overwritten state of the migration",
    "fenced-commit": "commit of a fenced producer",
    "missing-transform": "input that was not transformed",
    "orphan-child": "orphan",
    "repeated-transform": "input that was transformed again",
    "uncounted-transform": "transformed input beyond the committed offset",
    "read-before-own-write": "read that missed an own write",
    "reused-producer-token": "producer whose token is no later one",
    "session-order": "violation of the session order",
    "stale-generation-committed": "commit of an earlier generation",
    "two-owners-of-a-share": "pair of owners of one share",
    "version-skew": "wrong version count",
    "unlogged-in-sync-change": "acknowledged change of in-sync replicas that no log has",
    "watch-before-answer": "answer that overtook a watch event",
    "partition-state-after-claim": "state of a topic partition after a claim",
    "write-after-claim": "write after a claim",
    "append-order": "violation of the append order",
    "broker-not-fenced": "silent broker that was not fenced",
    "ended-without-leave": "shutdown that no controller allowed",
    "fenced-broker-elected": "election of a fenced broker",
    "fenced-broker-in-sync": "fenced broker that counts as in sync",
    "left-as-leader": "broker that still led when it was let go",
    "served-without-controller": "broker that served without a controller",
    "committed-overwritten": "overwritten commit",
    "denied-taken-name": "denial of a taken name",
    "inconsistent-offsets": "pair of inconsistent offsets",
    "internal": "internal contradiction",
    "lost-after-seen": "write lost after it was seen",
    "name-taken-twice": "name given twice",
    "non-linearizable": "history that no order explains",
    "read-uncommitted": "uncommitted read",
    "same-term-twice": "term given twice",
    "snapshot-contradicts-log": "object of a snapshot that contradicts the log",
    "snapshot-not-loaded": "start from the whole log",
    "stale-after-sync": "stale read after a sync",
    "self-fencing-failed": "failure of self-fencing",
    "stale-answer-by-superseded-leader": "stale answer by a superseded leader",
    "stale-broker-not-fenced": "stale broker that was not fenced",
    "token-order": "violation of the token order",
    "trail-against-positions": "trail that contradicts the positions",
    "two-believers": "pair of believers",
    "two-leaders-of-one-epoch": "pair of leaders of one epoch",
    "two-holders": "pair of holders",
    "two-values": "pair of contradicting values",
    "two-views-of-one-offset": "pair of views of one offset",
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
    parts = _PHRASES.get(anomaly, anomaly.replace("-", " ")).split()
    if count != 1 and not _is_clause(anomaly):
        noun = next((i for i, part in enumerate(parts) if i and part in _AFTER_NOUN), len(parts)) - 1
        parts[noun] = _plural(parts[noun])
    return " ".join(parts)


def _is_clause(anomaly: str) -> bool:
    return anomaly not in _PHRASES and not _CLAUSE_WORDS.isdisjoint(anomaly.split("-"))


def _plural(noun: str) -> str:
    if noun == "cas" or (noun.endswith("s") and not noun.endswith("ss")):
        return noun
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(_SIBILANT) else f"{noun}s"
