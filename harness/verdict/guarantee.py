"""Guarantees: what a system is held to, on what condition, and which issue is known to break it.

A promise holds under conditions: a store that answers before its disks have a write promises nothing to those who lose
all disks. Conditions are about effects of faults on disks, over the whole run; `harness.judging.judge` evaluates
them. Conditions on settings and options are there before a run (`harness.contract.guarantees`).

Anomalies are counted in plain words: "1 stale read", "2 lost writes", "view went back 3 times". An anomaly keeps its
name (`stale-read`) in verdict.json, in fingerprints and beside each witness. Sentences use these words.

Beside its guarantees a system names its mechanisms: what its runs may meet, and how a history shows it.
"""

import functools
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from fencepost.harness.base import offers
from fencepost.harness.history import DiskEffect, Effects


class Standing(StrEnum):
    """Who stands behind a guarantee.

    `PROMISED`: the maker, in the named source. `RELIED_UPON`: users build on it, the maker disclaims it. `MEASURED`:
    nobody; it is a figure.
    """

    PROMISED = "promised"
    RELIED_UPON = "relied-upon"
    MEASURED = "measured"


class Choice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An option of the system (`-O`), or a setting of its servers (`--set`), with one of these values."""

    name: str
    values: tuple[str, ...]
    setting: bool = False

    @property
    def text(self) -> str:
        return f"{'--set' if self.setting else '-O'} {self.name}={' or '.join(self.values)}"


_LOSSES: Final = {
    DiskEffect.UNSYNCED: "lose what they had not synced",
    DiskEffect.DAMAGED: "have damaged disks",
}


class Condition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A limit on what the faults of a whole run leave on disks: how many nodes may end up worse than before.

    `loss` is the least that counts: a node whose disk was damaged has lost what it had not synced, too.
    `role` names the nodes that are counted; None: those that vote, each electorate for itself.
    `most` is how many of them may lose it; None: a minority. `copies` is the option that says how many nodes have a
    copy, where not all have one: the minority is one of that number then. `unless` lifts the condition.
    """

    loss: DiskEffect
    role: str | None = None
    most: int | None = None
    copies: str | None = None
    unless: Choice | None = None

    @property
    def text(self) -> str:
        """The condition as a clause: "at most a minority of the voters have damaged disks"."""
        most = "a minority" if self.most is None else str(self.most)
        copies = f", as -O {self.copies} counts them," if self.copies and self.most is None else ""
        return f"at most {most} of the {self.role or 'voter'}s{copies} {_LOSSES[self.loss]}"

    @property
    def rule(self) -> str:
        """The condition with the choice that lifts it."""
        return self.text + (f" (with {self.unless.text} it does not matter)" if self.unless else "")


#: No store promises anything where the disks of a majority return something else than was written.
MINORITY_DAMAGED: Final = Condition(loss=DiskEffect.DAMAGED)


class Unmet(msgspec.Struct, frozen=True, kw_only=True):
    """A condition that a run did not keep to: the faults that broke it (their ids and events), and their nodes.

    `standing` is the one that the guarantee has where its conditions are met. `text` says all that in one sentence.
    """

    condition: str
    standing: Standing
    nodes: tuple[str, ...]
    faults: tuple[int, ...]
    events: tuple[int, ...]
    text: str


class KnownIssue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An issue that is known to break a guarantee, and when: only there does it explain a finding.

    `before` are the first releases without it, one for each line of releases ("3.4.25", "3.5.8"); empty: every release
    has it. `since` is the first release that has it. `unless` is the choice under which it does not show. `needs` are
    the effects that some fault of the run must have had, at least.
    """

    text: str
    since: str = ""
    before: tuple[str, ...] = ()
    unless: Choice | None = None
    needs: Effects | None = None


class Guarantee(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a system is held to: `name` as `--require` takes it, with its standing and the source.

    The standing is in force while all `conditions` are met. `unmet` is the first that this run did not keep to; nobody
    stands behind the guarantee then. `known_issue` is one that always holds, or of which it was found that it holds
    here; `issues` are those of which that is to be found out.
    """

    name: str
    standing: Standing
    text: str
    source: str
    known_issue: str | None = None
    issues: tuple[KnownIssue, ...] = ()
    conditions: tuple[Condition, ...] = (MINORITY_DAMAGED,)
    unmet: Unmet | None = None


#: Names whose words are not a phrase yet; leaves bring those of their own anomalies.
_PHRASES: Final = {
    "acknowledged-while-superseded": "acknowledgement by a superseded leader",
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


#: In `Mechanism.where`: any value but null, zero and false.
ANY: Final = "*"


class Mechanism(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One mechanism that the runs of a system can meet.

    `of` is where it shows: the kind of an event, `operation` (one that did not end `ok`), `fault` (one that took hold),
    a fact table, or a derivation of `checkers.derived.derive`. Of these count those whose fields are as `where` says;
    an error counts by its code. `needs` is the part or the interface that a system needs for it, or `leaders`.
    """

    name: str
    text: str
    of: str
    where: Mapping[str, Any] = {}
    needs: str = ""
