"""Links that are slow, lossy, narrow or disordered, or whose connections are reset.

Figures combine: `link:leader:latency=50ms:jitter=10ms:loss=5%`. `links=` and `direction=` choose links as in a
partition, seen from the chosen nodes. Several faults on one link add up; what a partition cuts stays cut.

The proof: the kernel lists the links whose packets it hands over. Numbered datagrams, sent over each affected directed
link before and after, must show the figures: the one-way time, the share that was lost, doubled or overtaken (within
what chance allows), the rate. With `reset=yes`, idle connections of ours must have ended with an error at both ends.
The proof states what was measured; a measurement that does not agree is indeterminate.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Final

from msgspec import UNSET, UnsetType

from fencepost.harness.base.errors import HarnessError, Refusal
from fencepost.harness.base.options import Duration, about
from fencepost.harness.base.quantities import ByteRate, Share, format_duration
from fencepost.harness.faults.kind import NODE_TARGETS, Act, Cluster, FaultKind, FaultSpec, Proof, Resolved, View
from fencepost.harness.faults.link_choice import LinkChoice
from fencepost.harness.faults.link_proof import (
    is_whole,
    judge_passages,
    link_names,
    passage_text,
    totals_text,
    was_so_before,
    why_not_felt,
)
from fencepost.harness.history import Effects, FaultOutcome
from fencepost.harness.runtime.network import Effect, Link, PacketShape, Passage, Shapes
from fencepost.harness.runtime.node import NodeState
from fencepost.harness.runtime.provider import Need, Placement
from fencepost.nemesis.network.partition import prove_links

_LATENCY_NS: Final = 50_000_000
_REORDER_BY_NS: Final = 10_000_000
#: A measurement lasts as long as the delay that it measures, and an injection may take ten seconds.
_LONGEST_NS: Final = 2_000_000_000
#: Datagrams over a healed link: enough to tell it from a slow one.
_COUNT_HEALED: Final = 20
_COUNT_BEFORE: Final = 20
#: A fault in force shows at once, unless the processes that hold and measure packets lost the processor just then.
_TRIES: Final = 2
_ENDED_S: Final = 1.0
_FIGURES: Final = ("latency", "jitter", "loss", "rate", "duplicate", "reorder")


class LinkOptions(LinkChoice, frozen=True, kw_only=True):
    """Figures combine with each other, but not with a reset. The bounds exclude what cannot be measured."""

    latency: Annotated[Duration | UnsetType, about("one-way delay; 50ms when no figure is given at all")] = UNSET
    jitter: Annotated[Duration | UnsetType, about("largest deviation from latency=, earlier or later")] = UNSET
    loss: Annotated[Share | UnsetType, about("share of the packets that are lost", least=0.01, most=0.9)] = UNSET
    rate: Annotated[
        ByteRate | UnsetType, about("bytes per second that the link carries", least=16_000, most=4_000_000)
    ] = UNSET
    duplicate: Annotated[Share | UnsetType, about("share of the packets that arrive twice", least=0.01, most=0.9)] = (
        UNSET
    )
    reorder: Annotated[
        Share | UnsetType, about("share of the packets that later ones overtake", least=0.01, most=0.5)
    ] = UNSET
    reset: Annotated[bool, about("whether connections are reset; goes with no other figure")] = False

    @property
    def figures(self) -> list[str]:
        """The names of the figures that are given."""
        return [name for name in _FIGURES if getattr(self, name) is not UNSET]

    @property
    def shape(self) -> PacketShape:
        reorder = float(self.reorder or 0)
        return PacketShape(
            delay_ns=int(self.latency or 0) if self.figures else _LATENCY_NS,
            jitter_ns=int(self.jitter or 0),
            loss=float(self.loss or 0),
            duplicate=float(self.duplicate or 0),
            reorder=reorder,
            reorder_by_ns=_REORDER_BY_NS if reorder else 0,
            rate_bytes_s=int(self.rate or 0),
        )


class LinkFault(FaultKind):
    name = "link"
    about = "links are slow, lossy, narrow or disordered, or their connections are reset"
    targets: Mapping[str, str] = {**NODE_TARGETS, "all": "every node"}
    options = LinkOptions()
    any_length = True
    draws = True
    for_all = (
        "link:leader:latency=50ms:jitter=20ms",
        "link:leader:latency=200ms:direction=out",
        "link:one:loss=10%:links=all",
        "link:follower:rate=64KB/s",
        "link:one:duplicate=10%:reorder=10%",
        "link:leader:reset=yes",
    )

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(cuts=True) if spec.own(LinkOptions).reset else Effects(delays=True)

    def refuse(self, spec: FaultSpec, placement: Placement) -> Refusal | None:
        options = spec.own(LinkOptions)
        senseless = _refuse_figures(options)
        if senseless:
            return senseless
        if options.links == "node" and placement.nodes < 2:
            return Refusal("one node has no links to others", "choose links=client")
        return None

    def unavailable(self, placement: Placement) -> Refusal | None:
        return placement.why_not(Need.SHAPE)

    def aim(self, spec: FaultSpec, nodes: tuple[str, ...], view: View, seed: int) -> Resolved:
        options = spec.own(LinkOptions)
        # A link between two chosen nodes counts as well, so that `link:all` means the whole cluster.
        links = options.between(nodes, view.nodes)
        if options.reset:
            return Resolved(nodes=nodes, links=dict.fromkeys(links, Effect.RESET), details={"reset": True})
        shape = options.shape
        details = {**_details(shape), "draws_seed": seed, "links": " ".join(map(str, links))}
        # Each link has its own draws.
        shapes = {link: replace(shape, seed=seed + at) for at, link in enumerate(links)}
        return Resolved(nodes=nodes, means=shapes, details=details)

    async def inject(self, act: Act) -> Proof:
        cluster, shapes = act.cluster, _shapes(act.cluster)
        if act.resolved.links:
            return await _reset(act, shapes)
        wanted: dict[Link, PacketShape] = act.means(dict)
        if not wanted:
            return Proof(FaultOutcome.INDETERMINATE, "there was no link to act on")
        network = cluster.runtime.network
        await shapes.prepare()
        # A link that another fault held meanwhile does not show how it was before; nor does one that lost datagrams,
        # since a cut may have come and gone.
        held = {*shapes.in_force, *network.blocked}
        count = 0 if _is_rated(wanted) else _COUNT_BEFORE
        before = dict(await shapes.measure(wanted, count))
        # A link looks narrow when the machine was busy for a moment; a link that is narrow still is.
        busy = {
            link: shape
            for link, shape in wanted.items()
            if link in before and link not in held and was_so_before(shape, before[link])
        }
        if busy:
            before |= await shapes.measure(busy, count)
        held |= network.blocked.keys()
        before = {link: passage for link, passage in before.items() if link not in held and is_whole(passage)}
        await shapes.apply(act.fault_id, wanted)
        handed = await shapes.read_back()
        absent = [link for link in wanted if link not in handed]
        if absent:
            return Proof(
                FaultOutcome.INDETERMINATE, f"the kernel does not hand over the packets of {link_names(absent)}"
            )
        gone = network.blocked.keys() | _ends_dead(wanted, cluster)
        # Another fault may shape the same links: what is felt is both.
        merged = {link: shapes.in_force[link] for link in wanted if link not in network.blocked}
        after: dict[Link, Passage] = {}
        judged = unfelt = merged
        for _ in range(_TRIES):
            after |= await shapes.measure(unfelt)
            cut = gone | network.blocked.keys() | _ends_dead(wanted, cluster)
            # A dead node's links carry datagrams all the same.
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
        return judge_passages(judged, len(wanted), before, after, await shapes.handled())

    async def heal(self, act: Act) -> Proof:
        shapes = _shapes(act.cluster)
        if act.resolved.links:
            await act.cluster.runtime.network.withdraw(act.fault_id)
            return await _opened(act.resolved.links, act, shapes)
        wanted: dict[Link, PacketShape] = act.means(dict)
        counted = await shapes.handled()
        await shapes.withdraw(act.fault_id)
        proof = await _opened(wanted, act, shapes)
        figures = totals_text([counted[link] for link in wanted if link in counted])
        return Proof(proof.outcome, f"{proof.text}; meanwhile {figures}" if figures else proof.text)


async def _reset(act: Act, shapes: Shapes) -> Proof:
    """Answer every packet with a reset, and end the open connections."""
    links = act.resolved.links
    witness = await shapes.open_witness(links)
    try:
        await act.cluster.runtime.network.apply(act.fault_id, links)
        try:
            broken = f"{await shapes.break_connections(links)} open connections reset"
        except (OSError, HarnessError) as error:
            # Each of them still ends at its next packet; an idle one of ours shows it.
            broken = f"open connections are reset at their next packet only: {error}"
        ended = await witness.ended(_ENDED_S)
    finally:
        await witness.close()
    proof = await prove_links(act)
    alive = sorted("-".join(sorted(pair)) for pair, gone in ended.items() if not gone)
    ended_text = f"{len(ended) - len(alive)} of {len(ended)} idle connections of ours ended by an error at both ends"
    text = f"{proof.text}; {broken}; {ended_text}"
    if alive or not ended:
        return Proof(FaultOutcome.INDETERMINATE, f"{text}; alive: {', '.join(alive) or 'none was made'}")
    return Proof(proof.outcome, text)


async def _opened(links: Iterable[Link], act: Act, shapes: Shapes) -> Proof:
    """Prove that every link that no other fault holds is fast and complete again."""
    network = act.cluster.runtime.network
    affected = list(links)
    disturbed = act.disturbed()
    handed = await shapes.read_back()
    free = {link: PacketShape() for link in affected if link not in network.blocked and link not in shapes.in_force}
    kept = sorted(str(link) for link in free if link in handed)
    if kept:
        return Proof(FaultOutcome.INDETERMINATE, f"the kernel still hands over the packets of {', '.join(kept)}")
    passages = await shapes.measure(free, _COUNT_HEALED)
    disturbed |= act.disturbed()
    wrong, good = [], []
    for link in free:
        passage = passages.get(link)
        if passage is not None and is_whole(passage):
            good.append(link)
        elif link not in network.blocked and link not in shapes.in_force and not disturbed & {*link}:
            wrong.append(f"{link}: {passage_text(passage)}")
    if wrong:
        return Proof(FaultOutcome.INDETERMINATE, f"not healed: {'; '.join(wrong)}")
    example = f", such as {good[0]}: {passage_text(passages[good[0]])}" if good else ""
    return Proof(FaultOutcome.HEALED, f"{len(good)} of {len(affected)} links free again{example}")


def _ends_dead(links: Iterable[Link], cluster: Cluster) -> set[Link]:
    dead = {name for name, node in cluster.runtime.nodes.items() if node.state is NodeState.DEAD}
    return {link for link in links if dead & {*link}}


def _refuse_figures(options: LinkOptions) -> Refusal | None:
    figures, shape = options.figures, options.shape
    if options.reset and figures:
        return Refusal(f"reset=yes lets nothing pass, so {figures[0]}= makes no sense with it", "leave one out")
    if shape.jitter_ns > shape.delay_ns:
        return Refusal("jitter= is larger than latency=", "give at most the latency")
    if shape.delay_ns + shape.jitter_ns > _LONGEST_NS:
        return Refusal(
            f"{format_duration(shape.delay_ns + shape.jitter_ns)} is too long to be proven", "give 2s at most"
        )
    if figures and {*figures} <= {"latency", "jitter"} and not shape.delay_ns:
        return Refusal("latency=0s does nothing", "give a delay, such as latency=50ms")
    return None


def _details(shape: PacketShape) -> dict[str, str | int | float | bool]:
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


def _is_rated(shapes: Mapping[Link, PacketShape]) -> bool:
    return any(shape.rate_bytes_s for shape in shapes.values())
