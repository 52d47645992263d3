"""Appends with acks=all while too few replicas are in sync: the leader must refuse them.

The leader of a partition logs which replicas are in sync, and the version of the partition's state that has them. When
it learns of a change by the metadata first, it logs nothing; then its first refusal (NOT_ENOUGH_REPLICAS) tells that it
knows. From there on until a later line it may acknowledge no append, if every version in between has too few replicas.

"appends-need-replicas"
  acknowledged-with-too-few   an append was sent after that, and acknowledged a second before the next line

The versions are those of the kept log of states; where more replicas were in sync once in between, nothing is said.
Appends in the last second before the next line are left out, because a leader takes a change up before it logs it.

Source: Kafka's documentation, `min.insync.replicas`; Partition.appendRecordsToLeader (NOT_ENOUGH_REPLICAS) and
Partition.checkEnoughReplicasReachOffset (NOT_ENOUGH_REPLICAS_AFTER_APPEND).
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from fencepost.checkers.derived.evidence import number_of, row, rows
from fencepost.checkers.rules import Rule, verdict
from fencepost.checkers.violations.finding import Finding, seconds
from fencepost.harness.history import History, LogEvent, Logged, Operation, Outcome
from fencepost.harness.history.operation import NOT_ENOUGH_REPLICAS
from fencepost.harness.verdict import Facts, Verdict
from fencepost.systems.kafka.checkers.brokers.in_sync_changes import KeptInSync
from fencepost.systems.kafka.names import LOG_TOPIC

TOO_FEW: Final = Rule(
    guarantee="appends-need-replicas",
    anomaly="acknowledged-with-too-few",
    tested="appends asked of a leader that had too few replicas in sync",
    lacks="nothing was appended at a leader that is known to have had too few in-sync replicas",
)
#: How long before its line a leader may have taken a change up.
_SLACK_NS: Final = 1_000_000_000


class _Short(msgspec.Struct, frozen=True, kw_only=True):
    """A leader that knew of too few replicas in sync from `from_ns` on, and had enough at `until_ns` at the earliest.

    `event` is the row that tells it: a line of its log, or the answer to an append that it refused.
    """

    node: str
    key: str
    event: int
    from_ns: int
    until_ns: int

    def holds(self, append: Operation) -> bool:
        """Whether this append to that leader and partition was sent in that time, and ended in it or never."""
        return append.invoked_ns > self.from_ns and (append.ended_ns or self.until_ns) <= self.until_ns


class _Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """The time between two lines with versions about one partition; `since` is None before the first one."""

    partition: int
    since: LogEvent | None
    ends_ns: int
    #: When a leader began, by lines without a version: what one refused before says nothing of it then.
    leaders_ns: tuple[int, ...]
    states: list[set[frozenset[int]]]

    def until_ns(self, from_ns: int) -> int:
        """Until when a leader is the one that it was at `from_ns`, and no later state is known."""
        return min([self.ends_ns, *(at_ns for at_ns in self.leaders_ns if at_ns > from_ns)]) - _SLACK_NS

    def ends_short(self, least: int) -> bool:
        """Whether the versions in it end with too few replicas, and none has enough after one that has not."""
        short = [all(len(replicas) < least for replicas in states) for states in self.states]
        return bool(short) and short[-1] and short == sorted(short)

    def is_short(self, least: int) -> bool:
        return self.ends_short(least) and all(len(replicas) < least for replicas in self.states[0])


def judge(history: History, facts: Facts, kept: KeptInSync) -> list[Verdict]:
    """Judge the appends of one history; nothing is said where none asks for all replicas, or one is enough."""
    appends = [o for o in history.operations if o.f == "append"]
    least = int(facts.options.get("min_isr", 2))
    if not appends or facts.options.get("acks", "all") != "all" or least < 2:
        return []
    at: defaultdict[tuple[str, str | None], list[Operation]] = defaultdict(list)
    for append in appends:
        at[append.node, append.key].append(append)
    shorts = _shorts(history, appends, least, kept)
    requests = [(short, append) for short in shorts for append in at[short.node, short.key] if short.holds(append)]
    took = [(short, append) for short, append in requests if append.type is Outcome.OK]
    return [
        verdict(
            facts,
            TOO_FEW.here(tested=f"appends asked of a leader that had fewer than {least} replicas in sync").tally(
                [_finding(short, append, least) for short, append in took], rows(append for _, append in requests)
            ),
            kept=f"{len(requests)} appends at leaders with fewer than {least} replicas in sync were not acknowledged",
            figures={"refused": number_of(append for _, append in requests if append.type is Outcome.FAIL)},
        )
    ]


def _shorts(history: History, appends: Sequence[Operation], least: int, kept: KeptInSync) -> list[_Short]:
    """The times with too few replicas, by the leaders' lines and refusals and the kept states."""
    refused = sorted((o for o in appends if o.error == NOT_ENOUGH_REPLICAS), key=lambda o: o.ended_ns or 0)
    shorts = []
    for stretch in _stretches(history, kept):
        since, key = stretch.since, f"p{stretch.partition}"
        if since is not None and stretch.is_short(least):
            until_ns = stretch.until_ns(since.time_ns)
            shorts.append(_Short(node=since.node, key=key, event=since.index, from_ns=since.time_ns, until_ns=until_ns))
        elif stretch.ends_short(least):
            from_ns = 0 if since is None else since.time_ns
            inside = [
                o for o in refused if o.key == key and from_ns < o.invoked_ns and (o.ended_ns or 0) < stretch.ends_ns
            ]
            first = {o.node: o for o in reversed(inside)}
            for node, o in first.items():
                told_ns = o.ended_ns or 0
                until_ns = stretch.until_ns(o.invoked_ns)
                shorts.append(_Short(node=node, key=key, event=row(o), from_ns=told_ns, until_ns=until_ns))
    return shorts


def _stretches(history: History, kept: KeptInSync) -> Iterator[_Stretch]:
    lines: dict[int, list[LogEvent]] = {}
    leaders_ns: dict[int, list[int]] = {}
    for event in history.of(LogEvent):
        topic, _, number = (event.key or "").rpartition("-")
        if event.change is not Logged.IN_SYNC or topic != LOG_TOPIC:
            continue
        if event.position is None:
            leaders_ns.setdefault(int(number), []).append(event.asked_ns)
        else:
            lines.setdefault(int(number), []).append(event)
    for partition, own in lines.items():
        for since, following in pairwise([None, *own, None]):
            yield _Stretch(
                partition=partition,
                since=since,
                ends_ns=history.end_ns if following is None else following.asked_ns,
                leaders_ns=tuple(leaders_ns.get(partition, ())),
                states=kept.between(
                    LOG_TOPIC,
                    partition,
                    0 if since is None or since.position is None else since.position,
                    None if following is None else following.position,
                ),
            )


def _finding(short: _Short, append: Operation, least: int) -> Finding:
    steps = (
        f"From {seconds(short.from_ns)} on, by its log or by a refusal, {short.node} knew that fewer than {least}"
        f" replicas of {short.key} were in sync, and until {seconds(short.until_ns)} no version of its state has more.",
        f"It acknowledged {append.value}, which was sent at {seconds(append.invoked_ns)}, all the same.",
    )
    return TOO_FEW.finding(append, events=(short.event,), steps=steps)
