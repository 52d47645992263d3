"""Links that are slow, lossy, narrow or disordered, or whose connections are reset; proven by datagrams of our own.

Figures combine: `link:leader:latency=50ms:jitter=10ms:loss=5%`. `links=` and `direction=` choose as in a partition,
seen from the chosen nodes. Several faults of one link merge, and what a partition cuts stays cut.

The proof: the kernel tells which links it hands over, and numbered datagrams over each affected directed link, before
and after, must have experienced what was asked for: the one-way time, the share that was lost, came twice or was
overtaken (within what chance allows), the rate. Under `reset=yes` idle connections of ours must have ended by an error
at both ends. What was measured stands in the proof; what does not agree with the figures is indeterminate.
"""

import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from fencepost.harness.base.durations import format_duration, parse_duration_ns
from fencepost.harness.base.errors import Refusal, UsageError
from fencepost.harness.faults.kind import Cluster, FaultKind, FaultSpec, Proof, Resolved, Skip, View
from fencepost.harness.faults.targets import NODE_TARGETS, choose_nodes
from fencepost.harness.history import Effects, FaultOutcome
from fencepost.harness.runtime.node import CLIENT, Effect, Handled, Link, NodeState, Passage, Shape, Shapes
from fencepost.harness.runtime.provider import Links, Setting
from fencepost.nemesis.network.partition import prove_links

_LATENCY: Final = "50ms"
_REORDER_BY_NS: Final = 10_000_000
#: A measurement waits for what it measures, and the nemesis gives an injection ten seconds.
_LONGEST_NS: Final = 2_000_000_000
_SHARE_MIN, _SHARE_MAX = 0.01, 0.9
_REORDER_MAX: Final = 0.5
_RATE_MIN, _RATE_MAX = 16_000, 4_000_000
_UNITS: Final = {"KB/s": 10**3, "MB/s": 10**6}
#: A timer may fire this much early by the other's clock, as a share of what was asked.
_NEARLY: Final = 0.98
#: Over this a measured rate is not the one that was asked for; what we send is twice as fast.
_RATE_OVER: Final = 1.25
#: A share that chance would explain less often than so is another one.
_CHANCE: Final = 1e-6
#: Of a link that is free again: enough to tell it from a slow one.
_COUNT_HEALED: Final = 20
_COUNT_BEFORE: Final = 20
#: What does what it should is felt at once, unless the processes that hold and measure packets were put off just then.
_TRIES: Final = 2
_ENDED_S: Final = 1.0
_FIGURES: Final = ("latency", "jitter", "loss", "rate", "duplicate", "reorder")
_LINKS_SHOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaped(Resolved):
    """A target made concrete, and what befalls each of its links; under `reset=yes` they are severed instead."""

    shapes: Mapping[Link, Shape]


class LinkFault(FaultKind):
    name = "link"
    about = "links that are slow, lossy, narrow, disordered, or reset"
    targets: Mapping[str, str] = {**NODE_TARGETS, "all": "every node"}
    options: Mapping[str, tuple[str, ...]] = {
        **dict.fromkeys(_FIGURES, ()),
        "reset": ("no", "yes"),
        "direction": ("both", "in", "out"),
        "links": ("node", "client", "all"),
        "for": (),
    }
    meanings: Mapping[str, str] = {
        "loss": "a share of the packets, such as 10%",
        "rate": "what the line carries, such as 64KB/s",
        "duplicate": "a share of the packets, such as 10%",
        "reorder": "a share of the packets, such as 10%",
    }
    default_duration_ns = 5_000_000_000
    for_all = (
        "link:leader:latency=50ms:jitter=20ms",
        "link:leader:latency=200ms:direction=out",
        "link:one:loss=10%:links=all",
        "link:follower:rate=64KB/s",
        "link:one:duplicate=10%:reorder=10%",
        "link:leader:reset=yes",
    )

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(cuts=True) if spec.options.get("reset") == "yes" else Effects(delays=True)

    def refuse(self, spec: FaultSpec, setting: Setting) -> Refusal | None:
        try:
            _shape(spec.options)
        except UsageError as error:
            return Refusal(error.message, error.hint)
        if spec.options.get("links", "node") == "node" and setting.nodes < 2:
            return Refusal("one node has no links to others", "choose links=client")
        return _refuse_links(setting.links)

    def unavailable(self, setting: Setting) -> Refusal | None:
        refused = _refuse_links(setting.links)
        if refused is not None:
            return refused
        from fencepost.harness.runtime.lab.doctor import why_no_shaped_links

        return Refusal.of_text(why_no_shaped_links(in_containers=setting.runtime == "containers"))

    def resolve(self, spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip:
        seed = draw.getrandbits(32)
        chosen = choose_nodes(spec.target, view, draw)
        if isinstance(chosen, Skip):
            return chosen
        ends: list[str] = []
        if spec.options.get("links", "node") in ("node", "all"):
            ends += view.nodes
        if spec.options.get("links", "node") in ("client", "all"):
            ends.append(CLIENT)
        # A link between two chosen nodes counts as well, so that `link:all` means the whole cluster.
        out = {Link(node, end) for node in chosen for end in ends if node != end}
        back = {Link(end, node) for node, end in out}
        links = sorted({"both": out | back, "out": out, "in": back}[spec.options.get("direction", "both")])
        shape = _shape(spec.options)
        if shape is None:
            return Shaped(nodes=chosen, links=dict.fromkeys(links, Effect.RESET), shapes={}, details={"reset": True})
        details = {**_details(shape), "draws_seed": seed, "links": " ".join(map(str, links))}
        shapes = {link: _seeded(shape, seed + at) for at, link in enumerate(links)}
        return Shaped(nodes=chosen, shapes=shapes, details=details)

    async def inject(self, fault_id: int, resolved: Resolved, cluster: Cluster) -> Proof:
        shapes = _shapes(cluster)
        if resolved.links:
            return await _reset(fault_id, resolved.links, cluster, shapes)
        wanted = _asked(resolved)
        if not wanted:
            return Proof(FaultOutcome.INDETERMINATE, "there was no link to act on")
        network = cluster.runtime.network
        await shapes.prepare()
        # Links that another fault held meanwhile are no measure of how they were; nor are those that lost something,
        # since a cut may have come and gone.
        held = {*shapes.in_force, *network.blocked}
        count = 0 if _is_rated(wanted) else _COUNT_BEFORE
        before = dict(await shapes.measure(wanted, count))
        # A machine that was busy for a moment makes a link look narrow; one that is so stays so.
        busy = {
            link: shape
            for link, shape in wanted.items()
            if link in before and link not in held and _was_so(shape, before[link])
        }
        if busy:
            before |= await shapes.measure(busy, count)
        held |= network.blocked.keys()
        before = {link: passage for link, passage in before.items() if link not in held and _is_whole(passage)}
        await shapes.apply(fault_id, wanted)
        handed = await shapes.read_back()
        absent = [link for link in wanted if link not in handed]
        if absent:
            return Proof(FaultOutcome.INDETERMINATE, f"the kernel does not hand over {_names(absent)}")
        gone = network.blocked.keys() | _ends_dead(wanted, cluster)
        # Another fault may shape the same links: what is felt is both.
        merged = {link: shapes.in_force[link] for link in wanted if link not in network.blocked}
        after: dict[Link, Passage] = {}
        judged = unfelt = merged
        for _ in range(_TRIES):
            after |= await shapes.measure(unfelt)
            cut = gone | network.blocked.keys() | _ends_dead(wanted, cluster)
            # In the lab a dead node's links carry datagrams all the same; in containers its namespace has lost its
            # device.
            silent = {link for link in merged if link not in after or not after[link].arrived}
            judged = {
                link: shape
                for link, shape in merged.items()
                if link not in network.blocked and not (link in cut and link in silent)
            }
            unfelt = {
                link: shape for link, shape in judged.items() if why_not_felt(shape, before.get(link), after.get(link))
            }
            if not unfelt:
                break
        return _judge(judged, len(wanted), before, after, await shapes.handled())

    async def heal(self, fault_id: int, resolved: Resolved, cluster: Cluster) -> Proof:
        shapes, network = _shapes(cluster), cluster.runtime.network
        if resolved.links:
            await network.withdraw(fault_id)
            return await _opened(fault_id, resolved.links, cluster, shapes)
        wanted = _asked(resolved)
        counted = await shapes.handled()
        await shapes.withdraw(fault_id)
        proof = await _opened(fault_id, wanted, cluster, shapes)
        figures = _totals([counted[link] for link in wanted if link in counted])
        return Proof(proof.outcome, f"{proof.text}; meanwhile {figures}" if figures else proof.text)


async def _reset(fault_id: int, links: Mapping[Link, Effect], cluster: Cluster, shapes: Shapes) -> Proof:
    """Refuse every packet by a reset, and end the connections that are open."""
    witness = await shapes.open_witness(links)
    try:
        await cluster.runtime.network.apply(fault_id, links)
        try:
            broken = f"{await shapes.break_connections(links)} open connections reset"
        except OSError as error:
            # Each still ends, at its next packet; an idle one of ours will say so.
            broken = f"open connections are reset at their next packet only: {error}"
        ended = await witness.ended(_ENDED_S)
    finally:
        witness.close()
    proof = await prove_links(links, cluster.runtime, lambda: cluster.disturbed(fault_id))
    alive = sorted("-".join(sorted(pair)) for pair, gone in ended.items() if not gone)
    words = f"{len(ended) - len(alive)} of {len(ended)} idle connections of ours ended by an error at both ends"
    text = f"{proof.text}; {broken}; {words}"
    if alive or not ended:
        return Proof(FaultOutcome.INDETERMINATE, f"{text}; alive: {', '.join(alive) or 'none was made'}")
    return Proof(proof.outcome, text)


async def _opened(fault_id: int, links: Iterable[Link], cluster: Cluster, shapes: Shapes) -> Proof:
    """Every link that no other fault holds is quick and whole again; of others nothing can be said."""
    network = cluster.runtime.network
    asked = list(links)
    disturbed = cluster.disturbed(fault_id)
    handed = await shapes.read_back()
    free = {link: Shape() for link in asked if link not in network.blocked and link not in shapes.in_force}
    kept = sorted(str(link) for link in free if link in handed)
    if kept:
        return Proof(FaultOutcome.INDETERMINATE, f"the kernel still hands over {', '.join(kept)}")
    found = await shapes.measure(free, _COUNT_HEALED)
    disturbed |= cluster.disturbed(fault_id)
    wrong, good = [], []
    for link in free:
        passage = found.get(link)
        if passage is not None and _is_whole(passage):
            good.append(link)
        elif link not in network.blocked and link not in shapes.in_force and not disturbed & {*link}:
            wrong.append(f"{link}: {_words(passage)}")
    if wrong:
        return Proof(FaultOutcome.INDETERMINATE, f"not as before after healing: {'; '.join(wrong)}")
    example = f", such as {good[0]}: {_words(found[good[0]])}" if good else ""
    return Proof(FaultOutcome.HEALED, f"{len(good)} of {len(asked)} links free again{example}")


def _is_whole(passage: Passage) -> bool:
    return passage.arrived == passage.sent and not passage.doubled and not passage.overtaken


def _ends_dead(links: Iterable[Link], cluster: Cluster) -> set[Link]:
    dead = {name for name, node in cluster.runtime.nodes.items() if node.state is NodeState.DEAD}
    return {link for link in links if dead & {*link}}


def _judge(
    shapes: Mapping[Link, Shape],
    asked: int,
    before: Mapping[Link, Passage],
    after: Mapping[Link, Passage],
    counted: Mapping[Link, Handled],
) -> Proof:
    """Compare what each link's datagrams experienced with what its shape does."""
    if not shapes:
        return Proof(FaultOutcome.INDETERMINATE, "every link was cut, or its node dead, so nothing could be measured")
    wrong = {
        link: why for link, shape in shapes.items() if (why := why_not_felt(shape, before.get(link), after.get(link)))
    }
    shown = list(wrong)[:_LINKS_SHOWN] or list(shapes)[:_LINKS_SHOWN]
    figures = "; ".join(
        f"{link}{f' ({wrong[link]})' if link in wrong else ''}: {_words(before.get(link), shapes[link])} before, "
        f"{_words(after.get(link), shapes[link])} with it"
        for link in shown
    )
    totals = _totals(counted[link] for link in shapes if link in counted)
    said = f"{figures}; {totals}" if totals else figures
    if wrong:
        return Proof(FaultOutcome.INDETERMINATE, f"not felt on {_names(wrong)}: {said}")
    others = ", the others cut or their nodes dead" if len(shapes) < asked else ""
    return Proof(FaultOutcome.INSTALLED, f"felt on {len(shapes)} of {asked} links{others}: {said}")


def why_not_felt(shape: Shape, before: Passage | None, after: Passage | None) -> str | None:
    """What of the shape the datagrams did not experience; None when all of it was.

    `before` is None where another fault shaped the link already: then nothing can be compared.
    """
    if after is None:
        return "an end is gone, so nothing was measured"
    if after.least_ms is None or after.most_ms is None:
        return "no datagram arrived"
    least_ms = _least_ms(shape)
    if after.least_ms < least_ms * _NEARLY:
        return f"the quickest came before {least_ms:g} ms"
    if before and _was_as_slow(shape, before):
        return "it was as slow before"
    if shape.jitter_ns and after.most_ms - after.least_ms < shape.jitter_ns / 1e7:
        return "times differ too little for the jitter"
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


def _least_ms(shape: Shape) -> float:
    return (shape.delay_ns - shape.jitter_ns) / 1e6


def _was_as_slow(shape: Shape, before: Passage) -> bool:
    return bool(before.median_ms and shape.delay_ns > 0 and _least_ms(shape) <= before.median_ms)


def _was_as_narrow(shape: Shape, before: Passage) -> bool:
    return before.rate_bytes_s <= shape.rate_bytes_s * _RATE_OVER


def _was_so(shape: Shape, before: Passage) -> bool:
    """Whether the link was already what the shape is to make it, so that nothing could be compared."""
    return _was_as_slow(shape, before) or (shape.rate_bytes_s > 0 and _was_as_narrow(shape, before))


def is_by_chance(hits: int, tries: int, share: float) -> bool:
    """Whether at least one, and neither so few nor so many hits, may come of independent draws with this share."""
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


def _shape(options: Mapping[str, str]) -> Shape | None:
    """What the options ask for; None for a reset. Raises UsageError where they make no sense."""
    given = [name for name in _FIGURES if name in options]
    if options.get("reset") == "yes":
        if given:
            raise UsageError(f"reset=yes leaves nothing that passes: {given[0]}= makes no sense with it")
        return None
    delay_ns = parse_duration_ns(options.get("latency", "0s" if given else _LATENCY), what="latency=")
    jitter_ns = parse_duration_ns(options.get("jitter", "0s"), what="jitter=")
    if jitter_ns > delay_ns:
        raise UsageError("jitter= is how much later or earlier than latency=", hint="give at most the latency")
    if delay_ns + jitter_ns > _LONGEST_NS:
        raise UsageError(f"{format_duration(delay_ns + jitter_ns)} is too long to be proven", hint="give 2s at most")
    if given in (["latency"], ["jitter"], ["latency", "jitter"]) and not delay_ns:
        raise UsageError("latency=0s does nothing", hint=f"such as latency={_LATENCY}")
    reorder = _share("reorder", options, _REORDER_MAX)
    return Shape(
        delay_ns=delay_ns,
        jitter_ns=jitter_ns,
        loss=_share("loss", options, _SHARE_MAX),
        duplicate=_share("duplicate", options, _SHARE_MAX),
        reorder=reorder,
        reorder_by_ns=_REORDER_BY_NS if reorder else 0,
        rate_bytes_s=_rate_of(options["rate"]) if "rate" in options else 0,
    )


def _share(name: str, options: Mapping[str, str], most: float) -> float:
    text = options.get(name)
    if text is None:
        return 0.0
    try:
        share = float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        share = 0.0
    if not _SHARE_MIN <= share <= most:
        raise UsageError(f"{name}={text} is no share of packets", hint=f"give 1% to {most:.0%}, such as {name}=10%")
    return share


def _rate_of(text: str) -> int:
    unit = next((unit for unit in _UNITS if text.endswith(unit)), "")
    digits = text.removesuffix(unit)
    rate = int(digits) * _UNITS[unit] if unit and digits.isascii() and digits.isdecimal() else 0
    if not _RATE_MIN <= rate <= _RATE_MAX:
        raise UsageError(f"rate={text} is no rate that can be proven", hint="give 16KB/s to 4MB/s, such as rate=64KB/s")
    return rate


def _refuse_links(links: Links) -> Refusal | None:
    if links is Links.TOXIPROXY:
        return Refusal("a proxy sees streams, not packets", "use toxic:...:kind=latency, bandwidth or reset there")
    if links is Links.SIDECAR:
        return Refusal(
            "a side-car cuts links but holds no packets",
            "use --links rules (as root, with an engine on this kernel), the fault toxic with --links toxiproxy, or "
            "--runtime lab",
        )
    return None


def _seeded(shape: Shape, seed: int) -> Shape:
    """Each link has its own draws."""
    return Shape(**{**{name: getattr(shape, name) for name in Shape.__slots__}, "seed": seed})


def _details(shape: Shape) -> dict[str, str | int | float | bool]:
    figures = {
        "latency_ms": shape.delay_ns / 1e6,
        "jitter_ms": shape.jitter_ns / 1e6,
        "loss": shape.loss,
        "duplicate": shape.duplicate,
        "reorder": shape.reorder,
        "reorder_by_ms": shape.reorder_by_ns / 1e6,
        "rate_bytes_s": shape.rate_bytes_s,
    }
    return {name: value for name, value in figures.items() if value}


def _shapes(cluster: Cluster) -> Shapes:
    shapes = cluster.runtime.network.shapes
    assert shapes is not None, "refused before the run"
    return shapes


def _asked(resolved: Resolved) -> Mapping[Link, Shape]:
    assert isinstance(resolved, Shaped), "made by resolve"
    return resolved.shapes


def _is_rated(shapes: Mapping[Link, Shape]) -> bool:
    return any(shape.rate_bytes_s for shape in shapes.values())


def _words(passage: Passage | None, shape: Shape | None = None) -> str:
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


def _totals(counted: Iterable[Handled]) -> str:
    """What befell packets in all, those of the servers too."""
    every = list(counted)
    words = {"seen": "packets went through the queue"}
    words |= {name: name.replace("_", " ") for name in ("lost", "doubled", "overtaken", "crowded_out")}
    sums = {name: sum(getattr(one, name) for one in every) for name in words}
    return ", ".join(f"{number} {words[name]}" for name, number in sums.items() if number or name == "seen") * bool(
        every
    )


def _names(links: Iterable[Link]) -> str:
    return ", ".join(sorted(map(str, links)))
