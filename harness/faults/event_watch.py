"""Watches for the event of a trigger: what has happened since the watch began.

Who leads, and which phase a migration is in, is what the nemesis believes now (`View`, `Cluster.phases`). A claim, an
election or a way to catch up is in the log of a server: it is known within milliseconds, long before the next question.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from fencepost.harness.contract.logs import BecameLeader, LogReader, TookOver
from fencepost.harness.faults.fault_options import LEADER, LOGGED, TRIGGERS, Seen, Trigger, triggers_of
from fencepost.harness.faults.kind import Cluster
from fencepost.harness.runtime.server_log import LogFollower

#: A trigger's delay counts from the moment when its event is seen, so looks for events are closer together than others.
_LOOK_S: Final = 0.005


@dataclass(frozen=True, slots=True)
class _Happened:
    """An event that has happened, in words, with the node that it is about."""

    text: str
    node: str | None = None
    epoch: int | None = None


class EventWatch:
    """Watches for one trigger's event, from its making on.

    Args:
        zero_ns: the beginning of the main phase, by the recorder's clock.
    """

    def __init__(self, trigger: Trigger, cluster: Cluster, *, zero_ns: int) -> None:
        self.trigger, self._cluster, self._zero_ns = trigger, cluster, zero_ns
        self._from_ns = cluster.records.now_ns()
        self._before = cluster.view()
        nodes = cluster.runtime.nodes
        self._starts = {name: node.incarnation for name, node in nodes.items()}
        table = cluster.system.logs if trigger.what in LOGGED else None
        self._logs = {
            name: (LogFollower(node.log, from_end=True), LogReader(table)) for name, node in nodes.items() if table
        }

    async def wait(self, until_ns: int, stop: asyncio.Event) -> Seen:
        """Wait for the event, at most until this time or until `stop` is set; the trigger's delay comes after it."""
        now_ns = self._cluster.records.now_ns
        while (happened := self._look()) is None:
            if self._is_over() or now_ns() >= until_ns or not await paused(_LOOK_S, stop):
                return Seen(trigger=self.trigger.text, met=False, waited_ns=now_ns() - self._from_ns)
        at_ns = now_ns()
        return Seen(
            trigger=self.trigger.text,
            met=True,
            waited_ns=at_ns - self._from_ns,
            seen=happened.text,
            node=happened.node,
            epoch=happened.epoch,
            seen_at_ns=at_ns - self._zero_ns,
        )

    def _look(self) -> _Happened | None:
        """The event if it has happened, else None."""
        what, phases, now = self.trigger.what, self._cluster.phases, self._cluster.view()
        if what not in TRIGGERS:
            if (bool(phases) and phases[-1] == what) is self.trigger.leaves:
                return None
            return _Happened(f"the migration {'has left' if self.trigger.leaves else 'is in'} its phase {what}")
        if what in LOGGED:
            return self._logged(what)
        if what == LEADER:
            if now.leader is None or (now.leader, now.epoch) == (self._before.leader, self._before.epoch):
                return None
            if not self._counts(now.leader):
                return None
            return _Happened(f"{now.leader} leads in epoch {now.epoch}", now.leader, now.epoch)
        for name, node in self._cluster.runtime.nodes.items():
            if self._counts(name) and node.incarnation > self._starts[name]:
                return _Happened(f"{name} was started again", name)
        return None

    def _is_over(self) -> bool:
        """Whether the phase of a fault that acts only in this phase has come and gone."""
        phases = self._cluster.phases
        return self.trigger.during and self.trigger.what in phases and phases[-1] != self.trigger.what

    def _counts(self, node: str) -> bool:
        """Whether an event of this node is one that the trigger waits for."""
        return self.trigger.node in ("", node)

    def _logged(self, what: str) -> _Happened | None:
        for name, (log, reader) in self._logs.items():
            for event in (event for line in log.lines() for event in reader.read(line)):
                if what not in triggers_of(event) or not self._counts(name):
                    continue
                if isinstance(event, BecameLeader | TookOver):
                    return _Happened(f"{name} logged that it leads in epoch {event.epoch}", name, event.epoch)
                return _Happened(LOGGED[triggers_of(event)[0]].replace("a server", name), name)
        return None


async def awaited(trigger: Trigger, cluster: Cluster, *, zero_ns: int, stop: asyncio.Event) -> Seen:
    """Wait for the event of `when=`, at most for its `within=`, and then for the delay; `stop` ends both."""
    now_ns = cluster.records.now_ns
    seen = await EventWatch(trigger, cluster, zero_ns=zero_ns).wait(now_ns() + trigger.within_ns, stop)
    if seen.met:
        await paused(trigger.delay_ns / 1e9, stop)
    return seen


async def paused(for_s: float, stop: asyncio.Event) -> bool:
    """Wait this long; returns early, and False, when `stop` is set."""
    if for_s > 0 and not stop.is_set():
        try:
            await asyncio.wait_for(stop.wait(), for_s)
        except TimeoutError:
            return True
    return not stop.is_set()
