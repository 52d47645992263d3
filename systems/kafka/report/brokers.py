"""Brokers and in-sync replicas over time, by what the logs of Kafka's controllers and partition leaders tell.

Each broker has a lane: online, fenced, or in its controlled shutdown. Below stand the topic partitions whose in-sync
replicas changed, those that lost replicas first.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from markupsafe import Markup

from fencepost.harness.history import LogEvent, Logged
from fencepost.harness.report.section import AddedSection, ReportCase
from fencepost.harness.report.svg import (
    LANE,
    LEFT,
    RIGHT,
    LanesPicture,
    TimeAxis,
    box,
    element,
    label,
    title,
)
from fencepost.harness.report.words import clock, count, text

#: The most partitions drawn.
_DRAWN_MAX: Final = 12
_STATES: Final = {
    Logged.REGISTERED: "fenced",
    Logged.FENCED: "fenced",
    Logged.UNFENCED: "online",
    Logged.STOPPING: "stopping",
}
#: The classes of what is as it should be, and of what is not.
_WHOLE: Final = "silent"
_REDUCED: Final = "proven"
#: Width of a letter of a label.
_LETTER: Final = 6
_BODY: Final = Markup(
    '<p class="intro">{}</p>\n<figure>\n{}\n<figcaption>By the logs of the controllers (brokers: online, fenced, or '
    "stopping in a controlled shutdown) and of the partitions' leaders (the in-sync replicas). Filled: fewer than "
    "before or after, or not online.</figcaption>\n</figure>"
)


class Stay(msgspec.Struct, frozen=True, kw_only=True):
    """`what` held from `from_ns` to `to_ns`, as one line of a log began it."""

    what: str
    whole: bool
    from_ns: int
    to_ns: int
    event: int


class Brokers(msgspec.Struct, frozen=True, kw_only=True):
    """The picture, and a sentence on what it leaves out."""

    picture: Markup
    folded: str


def brokers(case: ReportCase) -> Brokers | None:
    """Draw brokers and in-sync replicas; None where no log tells of either."""
    bound = case.facts.sessions
    lines = [e for e in case.history.events if type(e) is LogEvent and e.source is not None]
    if bound is None or not lines:
        return None
    end_ns = case.history.end_ns
    states = {node: own for node in bound.nodes if (own := broker_states(lines, node, end_ns))}
    names = {str(number): node for node, number in bound.nodes.items()}
    partitions = {key: own for key, own in in_sync(lines, names, end_ns).items() if len(own) > 1}
    drawn = dict(sorted(partitions.items(), key=lambda item: (all(s.whole for s in item[1]), item[0]))[:_DRAWN_MAX])
    if not states and not drawn:
        return None
    return Brokers(
        picture=_picture(case, {**states, **drawn}),
        folded=f"Topic partitions whose in-sync replicas changed in the course of the run: {count(len(partitions))}; "
        f"drawn are {count(len(drawn))}.",
    )


def _section(case: ReportCase) -> Markup | None:
    pictured = brokers(case)
    return None if pictured is None else _BODY.format(pictured.folded, pictured.picture)


SECTION: Final = AddedSection(heading="Brokers and in-sync replicas", after="partitions", make=_section)


def broker_states(lines: Sequence[LogEvent], node: str, end_ns: int) -> list[Stay]:
    """The states of one broker, by the first controller's log that tells of each change."""
    changes: list[LogEvent] = []
    for line in lines:
        state = _STATES.get(line.change) if line.node == node else None
        if state is not None and (not changes or _STATES[changes[-1].change] != state):
            changes.append(line)
    return _stays([(line, _STATES[line.change], line.change is Logged.UNFENCED) for line in changes], end_ns)


def in_sync(lines: Sequence[LogEvent], names: Mapping[str, str], end_ns: int) -> dict[str, list[Stay]]:
    """The in-sync replicas of each topic partition, as its leaders' logs have them."""
    of: dict[str, list[tuple[LogEvent, frozenset[str]]]] = {}
    for line in lines:
        if line.change is Logged.IN_SYNC and line.key is not None:
            replicas = frozenset((line.detail or "").split(","))
            own = of.setdefault(line.key, [])
            if not own or own[-1][1] != replicas:
                own.append((line, replicas))
    stays = {}
    for key, own in of.items():
        most = len(frozenset[str]().union(*(replicas for _, replicas in own)))
        stays[key] = _stays(
            [
                (line, ", ".join(sorted(names.get(r, r) for r in replicas)), len(replicas) == most)
                for line, replicas in own
            ],
            end_ns,
        )
    return stays


def _stays(begun: Sequence[tuple[LogEvent, str, bool]], end_ns: int) -> list[Stay]:
    ends = [*(line.time_ns for line, _, _ in begun[1:]), end_ns][: len(begun)]
    return [
        Stay(what=what, whole=whole, from_ns=line.time_ns, to_ns=to_ns, event=line.index)
        for (line, what, whole), to_ns in zip(begun, ends, strict=True)
    ]


def _picture(case: ReportCase, lanes: Mapping[str, Sequence[Stay]]) -> Markup:
    made = LanesPicture(case.history, len(lanes))
    for number, (name, stays) in enumerate(lanes.items()):
        y = made.first + number * LANE
        made.parts.append(label(LEFT - 8, y + 21, text(name, 12), "lane-text", "end"))
        made.parts.append(element("line", x1=LEFT, x2=RIGHT, y1=y - 1, y2=y - 1, class_="lane-line"))
        made.parts += [part for stay in stays for part in _bar(stay, made.axis, y)]
    described = [f"{name}: {stay.what} from {clock(stay.from_ns)}" for name, own in lanes.items() for stay in own]
    return made.drawn("Brokers and in-sync replicas", described[:40], "brokers-lanes")


def _bar(stay: Stay, axis: TimeAxis, y: float) -> list[Markup]:
    x0, x1 = axis.x(stay.from_ns), axis.x(stay.to_ns)
    about = title(f"{stay.what}, {clock(stay.from_ns)} to {clock(stay.to_ns)} (row {stay.event})")
    bar = box(x0, x1, y + 5, LANE - 12, _WHOLE if stay.whole else _REDUCED, about, least=2)
    fits = len(stay.what) * _LETTER + 8 < x1 - x0
    return [bar, label(x0 + 4, y + 20, stay.what, "lane-text")] if fits else [bar]
