"""Decides whether the datagrams sent over a link show what the link was set to do to them."""

import math
from collections.abc import Iterable, Mapping
from typing import Final

from fencepost.harness.faults.kind import Proof
from fencepost.harness.history import FaultOutcome
from fencepost.harness.runtime.network import Handled, Link, PacketShape, Passage

#: A timer may fire early by another clock: the least share of a delay that must be measured.
_NEARLY: Final = 0.98
#: A measured rate above this share of the planned one is too fast; datagrams are sent at twice the planned rate.
_RATE_OVER: Final = 1.25
#: Measured and planned share differ when chance explains the difference with less than this probability.
_CHANCE: Final = 1e-6
_LINKS_SHOWN: Final = 3


def is_whole(passage: Passage) -> bool:
    return passage.arrived == passage.sent and not passage.doubled and not passage.overtaken


def judge_passages(
    shapes: Mapping[Link, PacketShape],
    link_count: int,
    before: Mapping[Link, Passage],
    after: Mapping[Link, Passage],
    counted: Mapping[Link, Handled],
) -> Proof:
    """Compare what each link's datagrams show with the link's shape.

    Args:
        shapes: the links that could be measured, with what each does to packets.
        link_count: how many links the fault was to act on, those that could not be measured included.
        before, after: the datagrams of each link without and with the shape; a link is missing from `before` where
            another fault had changed it already.
        counted: the kernel's counters of all packets of each link.

    Returns:
        INSTALLED with the figures of some links; INDETERMINATE with the links that do not show their shape.
    """
    if not shapes:
        return Proof(FaultOutcome.INDETERMINATE, "every link was cut or its node dead, so nothing could be measured")
    wrong = {
        link: why for link, shape in shapes.items() if (why := why_not_felt(shape, before.get(link), after.get(link)))
    }
    shown = list(wrong)[:_LINKS_SHOWN] or list(shapes)[:_LINKS_SHOWN]
    figures = "; ".join(
        f"{link}{f' ({wrong[link]})' if link in wrong else ''}: {passage_text(before.get(link), shapes[link])} before, "
        f"{passage_text(after.get(link), shapes[link])} with it"
        for link in shown
    )
    totals = totals_text(counted[link] for link in shapes if link in counted)
    evidence = f"{figures}; {totals}" if totals else figures
    if wrong:
        return Proof(FaultOutcome.INDETERMINATE, f"not felt on {link_names(wrong)}: {evidence}")
    others = ", the others cut or their nodes dead" if len(shapes) < link_count else ""
    return Proof(FaultOutcome.INSTALLED, f"felt on {len(shapes)} of {link_count} links{others}: {evidence}")


def why_not_felt(shape: PacketShape, before: Passage | None, after: Passage | None) -> str | None:
    """Return which part of the shape the datagrams do not show; None when they show all of it.

    `before` is None where another fault had shaped the link already: then nothing can be compared.
    """
    if after is None:
        return "one end is gone, so nothing was measured"
    if after.least_ms is None or after.most_ms is None:
        return "no datagram arrived"
    least_ms = _least_ms(shape)
    if after.least_ms < least_ms * _NEARLY:
        return f"the fastest took less than {least_ms:g} ms"
    if before and _was_as_slow(shape, before):
        return "it was as slow before"
    if shape.jitter_ns and after.most_ms - after.least_ms < shape.jitter_ns / 1e7:
        return "the times differ too little for this jitter"
    shares = (
        ("lost", shape.loss, after.sent - after.arrived, after.sent),
        ("doubled", shape.duplicate, after.doubled, after.arrived),
        ("overtaken", shape.reorder, after.overtaken, after.arrived),
    )
    for what, share, hits, tries in shares:
        if share and not is_by_chance(hits, tries, share):
            return f"{hits} of {tries} {what} is not {share:.0%}"
    if shape.rate_bytes_s:
        if before and _was_as_narrow(shape, before):
            return "it was as narrow before"
        if not 0 < after.rate_bytes_s <= shape.rate_bytes_s * _RATE_OVER:
            return f"more than {_rate(shape.rate_bytes_s)} came through"
    return None


def _least_ms(shape: PacketShape) -> float:
    return (shape.delay_ns - shape.jitter_ns) / 1e6


def _was_as_slow(shape: PacketShape, before: Passage) -> bool:
    return bool(before.median_ms and shape.delay_ns > 0 and _least_ms(shape) <= before.median_ms)


def _was_as_narrow(shape: PacketShape, before: Passage) -> bool:
    return before.rate_bytes_s <= shape.rate_bytes_s * _RATE_OVER


def was_so_before(shape: PacketShape, before: Passage) -> bool:
    """Decide whether the link was already as slow or narrow as the shape makes it, so that nothing can be compared."""
    return _was_as_slow(shape, before) or (shape.rate_bytes_s > 0 and _was_as_narrow(shape, before))


def is_by_chance(hits: int, tries: int, share: float) -> bool:
    """Decide whether chance explains the number of hits: at least one, neither too few nor too many.

    Args:
        hits: how many of the `tries` datagrams were lost, doubled or overtaken.
        share: the planned probability of each, between 0 and 1.

    Source: the binomial distribution; each tail must have a probability of at least `_CHANCE`.
    """
    if not 0 < hits <= tries:
        return False
    weights = [
        math.exp(
            math.lgamma(tries + 1)
            - math.lgamma(k + 1)
            - math.lgamma(tries - k + 1)
            + k * math.log(share)
            + (tries - k) * math.log1p(-share)
        )
        for k in range(tries + 1)
    ]
    return sum(weights[: hits + 1]) >= _CHANCE and sum(weights[hits:]) >= _CHANCE


def passage_text(passage: Passage | None, shape: PacketShape | None = None) -> str:
    if passage is None:
        return "not measured"
    parts = []
    if passage.least_ms is not None and passage.median_ms is not None:
        parts.append(f"one way {passage.least_ms:.2f} ms (median {passage.median_ms:.2f})")
    parts.append(f"{passage.arrived} of {passage.sent} arrived")
    if passage.doubled:
        parts.append(f"{passage.doubled} twice")
    if passage.overtaken:
        parts.append(f"{passage.overtaken} overtaken")
    if shape and shape.rate_bytes_s:
        parts.append(_rate(passage.rate_bytes_s))
    return ", ".join(parts)


def _rate(bytes_s: float) -> str:
    return f"{bytes_s / 1e3:.4g} KB/s"


def totals_text(counted: Iterable[Handled]) -> str:
    """Return what happened to all packets of these links, those of the servers included."""
    every = list(counted)
    labels = {"seen": "packets went through the queue"}
    labels |= {name: name.replace("_", " ") for name in ("lost", "doubled", "overtaken", "crowded_out")}
    sums = {name: sum(getattr(one, name) for one in every) for name in labels}
    return ", ".join(f"{number} {labels[name]}" for name, number in sums.items() if number or name == "seen") * bool(
        every
    )


def link_names(links: Iterable[Link]) -> str:
    return ", ".join(sorted(map(str, links)))
