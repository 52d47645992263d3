"""A migration on the time axis: a band for each phase, and one lane that says who was the controller at each moment."""

from markupsafe import Markup

from fencepost.harness.history import History, MigrationEvent
from fencepost.harness.report.facts.lanes import Lanes, Stretch
from fencepost.harness.report.pictures.svg import (
    FAULT_ROW,
    LANE,
    LEFT,
    LETTER,
    RIGHT,
    Axis,
    box,
    element,
    epoch_class,
    fitting,
    label,
    title,
)
from fencepost.harness.report.words.wording import clock


def migration_bands(history: History, axis: Axis, y: float) -> list[Markup]:
    """Draw each phase of a migration from its beginning to that of the next one; nothing without a migration."""
    events = history.of(MigrationEvent)
    if not events:
        return []
    ends = [event.time_ns for event in events[1:]] + [history.end_ns]
    out = [label(LEFT - 8, y + 12, "migration", "lane-name", "end")]
    for number, (event, end_ns) in enumerate(zip(events, ends, strict=True)):
        x0, x1 = axis.x(event.time_ns), axis.x(end_ns)
        about = title(f"{event.phase} from {clock(event.time_ns)} to {clock(end_ns)}: {event.text}")
        out.append(box(x0, x1, y + 1, FAULT_ROW - 3, f"migration m{number % 2}", about, least=2))
        if len(event.phase) * LETTER + 4 <= x1 - x0:
            out.append(label(x0 + 3, y + 12, event.phase, "phase"))
    return out


def who_controls(lanes: Lanes, axis: Axis, y: float) -> list[Markup]:
    """Draw who claimed to lead, of all nodes in one lane, with the epochs of both layers; a later claim lies above."""
    out = [label(LEFT - 8, y + 21, lanes.subject, "lane-name", "end")]
    for claim in lanes.claims():
        below = _below(claim, lanes)
        epochs = [f"{lanes.subject} epoch {claim.epoch_text}"] if claim.epoch is not None else []
        epochs += [f"{subject} epoch {epoch}" for subject, epoch in below]
        x0, x1 = axis.x(claim.from_ns), axis.x(claim.to_ns)
        about = title(", ".join([f"{claim.node} leads", *epochs, f"{clock(claim.from_ns)} to {clock(claim.to_ns)}"]))
        epochs_text = " / ".join([claim.epoch_text or "-", *(f"{subject} {epoch}" for subject, epoch in below)])
        colour = epoch_class(claim.epoch, lanes.epochs)
        out.append(box(x0, x1, y + 6, 22, f"leader {colour}", about, least=3))
        out.append(box(x0, x1, y + 6, 22, f"texture t-{colour}", about, least=3))
        out.append(fitting(x0 + 2, x1, y + 21, f"{claim.node}: {epochs_text}", "on-leader", claim.node))
    return [*out, element("line", x1=LEFT, x2=RIGHT, y1=y + LANE - 1, y2=y + LANE - 1, class_="lane-line")]


def _below(claim: Stretch, lanes: Lanes) -> list[tuple[str, str]]:
    """The epochs that this node led meanwhile in the layers below, with the layers' names."""
    return [
        (other.subject, ", ".join(epochs))
        for other in lanes.others
        if (
            epochs := list(
                dict.fromkeys(
                    own.epoch_text
                    for own in other.claims()
                    if own.node == claim.node and own.from_ns <= claim.to_ns and own.to_ns >= claim.from_ns
                )
            )
        )
    ]
