"""Compares the time that servers report with the time that their clocks were set to show."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fencepost.harness.contract.system import ReportedTime, System
from fencepost.harness.faults.skew_shape import pairs
from fencepost.harness.history import Clock
from fencepost.harness.runtime.clocks.setting import ClockSetting, Settings
from fencepost.harness.runtime.node import Node, Place

_ANSWER_S: Final = 1.5


@dataclass(frozen=True, slots=True)
class ClockAnswer:
    """How far a server's clock was ahead of true time (negative: behind), and the largest error of that figure."""

    incarnation: int
    ahead_ns: int
    error_ns: int
    source: str


#: The answers by node and clock; servers that did not answer are left out.
Answers = Mapping[tuple[str, Clock], ClockAnswer]


class FirstAnswers:
    """What each server reported before its clock was changed for the first time."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, Clock], ClockAnswer] = {}

    async def ask_first(self, system: System, nodes: Sequence[Node], clocks: Sequence[Clock]) -> Answers:
        """Ask before a clock is changed, and remember each server's first answer."""
        answers = await ask_all(system, nodes, clocks)
        self._first = {**answers, **self._first}
        return answers

    def contradictions_left(self, settings: Mapping[str, Settings], after: Answers) -> list[str]:
        """Return the servers whose time, after healing, is neither true nor off by what was left on purpose."""
        wrong = []
        for name, of_node in settings.items():
            for clock, setting in pairs(of_node):
                first, second = self._first.get((name, clock)), after.get((name, clock))
                if first is None or second is None or setting.extra_rate or setting.period_ns:
                    continue
                if first.incarnation != second.incarnation and clock is Clock.MONOTONIC:
                    continue
                off_ns = second.ahead_ns - first.ahead_ns - setting.offset_ns
                if abs(off_ns) > first.error_ns + second.error_ns:
                    wrong.append(f"{name} still reports a clock {off_ns / 1e9:+.3f} s off, by {second.source}")
        return wrong


async def ask_all(system: System, nodes: Sequence[Node], clocks: Sequence[Clock]) -> Answers:
    """Ask each server for each clock; those that do not answer are left out."""
    ask = system.reported_time
    if ask is None:
        return {}
    keys = [(node, clock) for node in nodes for clock in clocks]
    answers = await asyncio.gather(*(_ask(ask, node, clock) for node, clock in keys))
    return {
        (node.name, clock): answer for (node, clock), answer in zip(keys, answers, strict=True) if answer is not None
    }


def compare(
    name: str, settings: Settings, earlier: Settings, before: Answers, after: Answers, *, passed_ns: int
) -> tuple[list[str], list[str]]:
    """Compare what one server reports before and after its clocks were set.

    Args:
        settings: the settings that its clocks got `passed_ns` ago.
        earlier: the settings that were in force before.
        before, after: the answers of all servers at both times.

    Returns:
        What the server reports, and which of that its settings cannot produce; one sentence each.
    """
    texts: list[str] = []
    wrong: list[str] = []
    for clock, setting in pairs(settings):
        first, second = before.get((name, clock)), after.get((name, clock))
        if first is None or second is None:
            continue
        if first.incarnation != second.incarnation and clock is Clock.MONOTONIC:
            continue
        moved_ns = second.ahead_ns - first.ahead_ns
        earlier_ns = dict(pairs(earlier))[clock].offset_ns
        text = f"{name} itself reports {moved_ns / 1e9:+.3f} s by {second.source}"
        texts.append(text)
        if not is_possible(setting, moved_ns + earlier_ns, first.error_ns + second.error_ns, passed_ns):
            wrong.append(f"{text}, which its {clock.value} clock cannot show")
    return texts, wrong


async def _ask(
    ask: Callable[[Place, Clock], Awaitable[ReportedTime | None]], node: Node, clock: Clock
) -> ClockAnswer | None:
    incarnation = node.incarnation
    began_ns, began = time.time_ns(), time.monotonic_ns()
    try:
        async with asyncio.timeout(_ANSWER_S):
            shown = await ask(node.place, clock)
    except Exception:
        # A server that is cut off, paused or dead does not answer, and clients report that by many kinds of errors.
        return None
    if shown is None or node.incarnation != incarnation:
        return None
    took_ns = time.monotonic_ns() - began
    true_ns = began_ns if clock is Clock.WALL else began
    # The server read its clock somewhere in between; the reported time is rounded down.
    return ClockAnswer(
        incarnation,
        shown.shown_ns + shown.resolution_ns // 2 - true_ns - took_ns // 2,
        shown.resolution_ns // 2 + took_ns // 2 + 1,
        shown.source,
    )


def is_possible(setting: ClockSetting, moved_ns: int, error_ns: int, passed_ns: int) -> bool:
    """Decide whether a clock with this setting can have moved by `moved_ns`, `passed_ns` after it was set."""
    drift_ns = setting.extra_rate * passed_ns >> 32
    low = setting.offset_ns + min(drift_ns, 0) + min(setting.delta_ns, 0)
    high = setting.offset_ns + max(drift_ns, 0) + max(setting.delta_ns, 0)
    return low - error_ns <= moved_ns <= high + error_ns
