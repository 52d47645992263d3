"""Appends with acks=all while too few replicas are in sync: the leader must refuse them.

The leader of a partition logs which replicas are in sync, and the version of the partition's state that has them. From
a line with fewer than `min.insync.replicas` until more are in sync again it may acknowledge no append.

"appends-need-replicas"
  acknowledged-with-too-few   an append was sent after such a line, and acknowledged a second before the next one

More replicas may be in sync without a line, when the leader learns of it by the metadata. So a time is judged only
where the kept log of states has no version in it that has enough replicas. The second is there because a leader takes a
change up before it logs it.

Source: Kafka's documentation, `min.insync.replicas`; Partition.appendRecordsToLeader (NOT_ENOUGH_REPLICAS) and
Partition.checkEnoughReplicasReachOffset (NOT_ENOUGH_REPLICAS_AFTER_APPEND).
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from fencepost.checkers.brokers.in_sync_changes import Kept, replicas_in
from fencepost.checkers.facts.evidence import rows
from fencepost.checkers.findings.finding import Finding
from fencepost.checkers.findings.ladder import Findings
from fencepost.checkers.findings.rules import rule
from fencepost.checkers.findings.words import seconds
from fencepost.harness.history import History, LogEvent, Logged, Operation, Outcome
from fencepost.harness.verdict import Facts, Verdict

CHECKER: Final = "brokers"
NEED: Final = "appends-need-replicas"
TOO_FEW: Final = "acknowledged-with-too-few"
_LACKS: Final = "nothing was appended at a leader that logged too few in-sync replicas"
_SLACK_NS: Final = 1_000_000_000
_TOPIC: Final = "log"


class _Short(msgspec.Struct, frozen=True, kw_only=True):
    """By its line `since` a leader had too few replicas in sync; it had enough at `until_ns` at the earliest."""

    since: LogEvent
    until_ns: int

    @property
    def operation_key(self) -> str:
        """The partition as operations name it."""
        return f"p{(self.since.key or '').rpartition('-')[2]}"

    def holds(self, append: Operation) -> bool:
        """Whether this append was sent to that leader in that time, and ended in it or never."""
        return (
            append.node == self.since.node
            and append.key == self.operation_key
            and append.invoked_ns > self.since.time_ns
            and (append.ended_ns or self.until_ns) <= self.until_ns
        )


def judge(history: History, facts: Facts, kept: Kept) -> list[Verdict]:
    """Judge the appends of one history; nothing is said where none asks for all replicas, or one is enough."""
    appends = [o for o in history.operations if o.f == "append"]
    least = int(facts.options.get("min_isr", 2))
    if not appends or facts.options.get("acks", "all") != "all" or least < 2:
        return []
    asked = [(short, append) for short in _shorts(history, least, kept) for append in appends if short.holds(append)]
    took = [(short, append) for short, append in asked if append.type is Outcome.OK]
    findings = Findings(
        checker=CHECKER,
        guarantee=NEED,
        findings=[_finding(short, append, least) for short, append in took],
        exposed=rows(append for _, append in asked),
        exposure_of=f"appends asked of a leader that had fewer than {least} replicas in sync",
        untested=_LACKS,
        rules=(rule(TOO_FEW, len(asked), _LACKS),),
        kept=f"{len(asked)} appends at leaders with fewer than {least} replicas in sync were not acknowledged",
        counted={"refused": rows(append for _, append in asked if append.type is Outcome.FAIL)},
    )
    return [findings.verdict(facts)]


def _shorts(history: History, least: int, kept: Kept) -> list[_Short]:
    """The times with too few replicas, by the leaders' logs and the kept states."""
    lines: dict[str, list[LogEvent]] = {}
    for event in history.of(LogEvent):
        if event.change is Logged.IN_SYNC and event.key is not None and event.key.startswith(f"{_TOPIC}-"):
            lines.setdefault(event.key, []).append(event)
    shorts = []
    for own in lines.values():
        for at, line in enumerate(own):
            following = own[at + 1] if at + 1 < len(own) else None
            if line.position is None or len(replicas_in(line)) >= least:
                continue
            to_version = None if following is None else following.position
            if _enough_between(kept.versions(line), line.position, to_version, least):
                continue
            until_ns = history.end_ns if following is None else following.asked_ns
            shorts.append(_Short(since=line, until_ns=until_ns - _SLACK_NS))
    return shorts


def _enough_between(
    versions: Iterable[tuple[int, Sequence[frozenset[int]]]], since: int, until: int | None, least: int
) -> bool:
    """Whether some version in between has enough replicas, or none is known, so that nothing can be said."""
    known = False
    for version, states in versions:
        known = known or version == since
        between = since < version and (until is None or version < until)
        if between and any(len(replicas) >= least for replicas in states):
            return True
    return not known


def _finding(short: _Short, append: Operation, least: int) -> Finding:
    line = short.since
    steps = (
        f"At {seconds(line.time_ns)} {line.node}'s log says that of {line.key} only {line.detail} are in sync, and"
        f" min.insync.replicas is {least}.",
        f"It acknowledged {append.value}, which was sent at {seconds(append.invoked_ns)}, all the same.",
    )
    return Finding(anomaly=TOO_FEW, operations=(append,), events=(line.index,), steps=steps)
