"""Faults of connections, made by a proxy in the middle: late, slow, sliced, closed, reset or swallowed bytes.

They need a proxy in every connection, which is there from the start when a plan names this fault. `links=` and
`direction=` choose links as in a partition, seen from the chosen nodes: `in` is what they receive. A link between two
chosen nodes counts as well, so that `toxic:all` means the whole cluster.

The proof has two parts. The proxy lists the toxics that it holds. And a new connection of our own over each link, made
before and after, must show what the toxic does; otherwise the fault is indeterminate, with the figures.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, Self

from msgspec import UNSET, UnsetType

from fencepost.harness.base.errors import Refusal, UsageError
from fencepost.harness.base.options import Duration, about
from fencepost.harness.base.quantities import Quantity, Share, format_duration
from fencepost.harness.faults.kind import NODE_TARGETS, Act, FaultKind, FaultSpec, Proof, Resolved, View, refuse_foreign
from fencepost.harness.faults.link_choice import LinkChoice
from fencepost.harness.history import Effects, FaultOutcome
from fencepost.harness.runtime.network import ConnectionEnding, Experience, Link, Streams, Toxic
from fencepost.harness.runtime.node import Runtime
from fencepost.harness.runtime.provider import Need, Placement

#: A measurement lasts as long as the delay that it measures, and an injection may take ten seconds.
_LONGEST_NS: Final = 4_000_000_000
_MEASURE_S: Final = 1.5
_PROBE_S: Final = 1.0
#: With a toxicity below 1 the proxy draws for each connection, so a healthy connection proves nothing.
_TRIES: Final = 8
#: Otherwise a toxic shows at once, unless this machine was busy at the wrong moment.
_TRIES_OF_ALL: Final = 2
#: A timer may fire this much early by the other's clock, as a share of what was asked.
_NEARLY: Final = 0.9
_LINKS_SHOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figure:
    """One figure of a kind: the proxy's attribute, its default and its least value, in the proxy's unit."""

    attribute: str
    default: int
    #: The unit of a duration in ns; 0: a plain number.
    unit_ns: int = 0
    least: int = 0


_MS: Final = 10**6
_US: Final = 10**3

#: By the value of `kind=`: the proxy's own kind, and its figures by the names of our options.
_KINDS: Final[Mapping[str, tuple[str, Mapping[str, _Figure]]]] = {
    "latency": (
        "latency",
        {
            "latency": _Figure(attribute="latency", default=100, unit_ns=_MS, least=1),
            "jitter": _Figure(attribute="jitter", default=0, unit_ns=_MS),
        },
    ),
    "bandwidth": ("bandwidth", {"rate": _Figure(attribute="rate", default=64)}),
    "slow-close": ("slow_close", {"delay": _Figure(attribute="delay", default=1000, unit_ns=_MS, least=1)}),
    "timeout": ("timeout", {"timeout": _Figure(attribute="timeout", default=1000, unit_ns=_MS, least=1)}),
    "black-hole": ("timeout", {}),
    "reset": ("reset_peer", {"timeout": _Figure(attribute="timeout", default=0, unit_ns=_MS)}),
    "slicer": (
        "slicer",
        {
            "size": _Figure(attribute="average_size", default=64),
            "variation": _Figure(attribute="size_variation", default=0),
            "delay": _Figure(attribute="delay", default=1000, unit_ns=_US),
        },
    ),
    "limit-data": ("limit_data", {"bytes": _Figure(attribute="bytes", default=1000)}),
}
#: The kinds that end connections, or let nothing through.
_ENDS: Final = frozenset({"timeout", "black-hole", "reset", "limit-data"})
_NUMBER_MAX: Final = 2**31 - 1


class KilobyteRate(int, Quantity):
    """Kilobytes per second, as the proxy counts: `64`, or `64KB/s`."""

    __slots__ = ()

    kind = "a whole number of KB/s, such as 64"

    @classmethod
    def read(cls, text: str, *, what: str) -> Self:
        digits = text.removesuffix("KB/s")
        if not (digits.isascii() and digits.isdecimal()):
            raise UsageError(f"{what}: {text!r} is not a rate", hint=f"give {cls.kind}")
        return cls(int(digits))

    def __str__(self) -> str:
        return f"{int(self)}KB/s"


class ToxicOptions(LinkChoice, frozen=True, kw_only=True):
    kind: Annotated[
        Literal["latency", "bandwidth", "slow-close", "timeout", "black-hole", "reset", "slicer", "limit-data"],
        about("what happens to the connections"),
    ] = "latency"
    latency: Annotated[Duration | UnsetType, about("delay of kind=latency; 100ms unless given")] = UNSET
    jitter: Annotated[Duration | UnsetType, about("how much the delay of kind=latency varies; 0ms unless given")] = (
        UNSET
    )
    rate: Annotated[
        KilobyteRate | UnsetType, about("rate of kind=bandwidth; 64KB/s unless given", least=1, most=_NUMBER_MAX)
    ] = UNSET
    delay: Annotated[
        Duration | UnsetType,
        about("delay of the close (kind=slow-close), 1s unless given; pause between slices (slicer), 1ms"),
    ] = UNSET
    timeout: Annotated[
        Duration | UnsetType, about("time until the connection ends: kind=timeout, 1s unless given; kind=reset, 0ms")
    ] = UNSET
    size: Annotated[
        int | UnsetType, about("bytes in a slice of kind=slicer; 64 unless given", least=1, most=_NUMBER_MAX)
    ] = UNSET
    variation: Annotated[
        int | UnsetType, about("bytes by which size= varies; 0 unless given", least=0, most=_NUMBER_MAX)
    ] = UNSET
    bytes: Annotated[
        int | UnsetType, about("bytes that kind=limit-data lets pass; 1000 unless given", least=0, most=_NUMBER_MAX)
    ] = UNSET
    toxicity: Annotated[Share, about("share of the connections that it happens to", above=0, most=1)] = Share(1)

    @property
    def figures(self) -> Mapping[str, _Figure]:
        return _KINDS[self.kind][1]

    @property
    def toxic(self) -> Toxic:
        values = {figure.attribute: self._value(name, figure) for name, figure in self.figures.items()}
        attributes = {"timeout": 0} if self.kind == "black-hole" else values
        return Toxic(kind=_KINDS[self.kind][0], attributes=attributes, toxicity=float(self.toxicity))

    def _value(self, name: str, figure: _Figure) -> int:
        """Return the figure in the proxy's unit."""
        given = getattr(self, name)
        return figure.default if given is UNSET else int(given) // (figure.unit_ns or 1)


class ToxicFault(FaultKind):
    name = "toxic"
    about = "a proxy delays, throttles, slices, closes, resets or swallows byte streams"
    targets: Mapping[str, str] = {**NODE_TARGETS, "all": "every node"}
    options = ToxicOptions()
    needs = frozenset({Need.STREAMS})
    #: A proxy changes how connections end, so a mixture has none unless a plan asks for it.
    for_all = ()

    def effects(self, spec: FaultSpec) -> Effects:
        ends = spec.own(ToxicOptions).kind in _ENDS
        return Effects(cuts=ends, delays=not ends)

    def refuse(self, spec: FaultSpec, placement: Placement) -> Refusal | None:
        options = spec.own(ToxicOptions)
        senseless = refuse_foreign(spec, options.kind, {kind: figures for kind, (_, figures) in _KINDS.items()})
        senseless = senseless or _refuse_figures(options)
        if senseless:
            return senseless
        toxic = options.toxic
        if toxic.attributes.get("size_variation", 0) >= toxic.attributes.get("average_size", 1):
            return Refusal("variation= must be smaller than size=", "give a smaller one")
        if options.links == "node" and placement.nodes < 2:
            return Refusal("one node has no links to others", "choose links=client")
        return None

    def aim(self, spec: FaultSpec, nodes: tuple[str, ...], view: View, seed: int) -> Resolved:
        options = spec.own(ToxicOptions)
        return Resolved(nodes=nodes, means=dict.fromkeys(options.between(nodes, view.nodes), options.toxic))

    async def inject(self, act: Act) -> Proof:
        streams = _streams(act.cluster.runtime)
        toxics: dict[Link, Toxic] = act.means(dict)
        if not toxics:
            return Proof(FaultOutcome.INDETERMINATE, "there was no link to act on")
        before = await streams.measure(toxics, _MEASURE_S)
        await streams.apply(act.fault_id, toxics)
        held = await streams.read_back()
        absent = [
            link for link, toxic in toxics.items() if not any(_same(toxic, present) for present in held.get(link, ()))
        ]
        if absent:
            return Proof(FaultOutcome.INDETERMINATE, f"the proxy does not hold the toxic on {_names(absent)}")
        after = await _felt(streams, toxics, before)
        unfelt = [link for link, toxic in toxics.items() if not is_felt(toxic, before[link], after[link])]
        shown = unfelt[:_LINKS_SHOWN] or list(toxics)[:1]
        figures = "; ".join(f"{link}: {before[link]} before, {after[link]} with it" for link in shown)
        what = _toxic_text(next(iter(toxics.values())))
        if unfelt:
            return Proof(FaultOutcome.INDETERMINATE, f"{what}: not felt on {_names(unfelt)}: {figures}")
        return Proof(FaultOutcome.INSTALLED, f"{what}: felt on {len(toxics)} of {len(toxics)} links, such as {figures}")

    async def heal(self, act: Act) -> Proof:
        streams, network = _streams(act.cluster.runtime), act.cluster.runtime.network
        toxics: dict[Link, Toxic] = act.means(dict)
        before = await streams.read_back()
        await streams.withdraw(act.fault_id)
        held = await streams.read_back()
        # Another fault may have a toxic on the same link: then one fewer is left, and the link need not be open.
        kept = [link for link in toxics if len(held.get(link, ())) > max(len(before.get(link, ())) - 1, 0)]
        if kept:
            return Proof(FaultOutcome.INDETERMINATE, f"the proxy still holds the toxic on {_names(kept)}")
        freed = [link for link in toxics if not held.get(link) and link not in network.blocked]
        experiences = await streams.measure(freed, _PROBE_S)
        shut = [link for link in freed if experiences[link].ending is not ConnectionEnding.COMPLETE]
        if shut:
            return Proof(FaultOutcome.INDETERMINATE, f"still shut after healing: {_names(shut)}")
        return Proof(FaultOutcome.HEALED, f"{len(freed)} of {len(toxics)} links free again")


def is_felt(toxic: Toxic, before: Experience, after: Experience) -> bool:
    """Decide whether a connection shows what this toxic does, and did not show it before.

    Args:
        before, after: what a connection of our own over the same link experienced without and with the toxic.

    Source: the kinds of toxics in Toxiproxy's README, section "Toxics".
    """
    return _FELT[toxic.kind](toxic.attributes, before, after)


def _late(attributes: Mapping[str, int], before: Experience, after: Experience) -> bool:
    """Each answer is late by latency +- jitter. With much jitter some are hardly late, so the latest one counts."""
    latest, usual = max(after.round_trips_ms, default=0.0), before.round_trip_ms or 0.0
    latency = attributes["latency"]
    return latest - usual >= max(latency - attributes.get("jitter", 0), latency / 2) * _NEARLY


def _slow(attributes: Mapping[str, int], before: Experience, after: Experience) -> bool:
    # A connection may be so slow that it never came to the many bytes: then all received bytes count.
    rate = after.rate_kb_s or (after.byte_count / after.ended_ms if after.ended_ms else 0.0)
    return 0.0 < rate <= attributes["rate"] * 1.5 and rate < before.rate_kb_s


def _closes_late(attributes: Mapping[str, int], before: Experience, after: Experience) -> bool:
    return after.ending is ConnectionEnding.COMPLETE and after.closing_ms >= max(
        attributes["delay"] * _NEARLY, before.closing_ms
    )


def _silent(attributes: Mapping[str, int], before: Experience, after: Experience) -> bool:
    if attributes["timeout"] == 0:
        return after.byte_count == 0 and after.ending is ConnectionEnding.SILENT
    return _ended(attributes, before, after)


def _ended(attributes: Mapping[str, int], before: Experience, after: Experience) -> bool:
    # The relay of a published port turns a reset into a plain end.
    ends = (ConnectionEnding.CLOSED, ConnectionEnding.RESET)
    return after.byte_count == 0 and after.ending in ends and after.ended_ms >= attributes["timeout"] * _NEARLY


def _sliced(attributes: Mapping[str, int], before: Experience, after: Experience) -> bool:
    # Without a pause between them the kernel joins the slices again, and nothing shows.
    return after.pieces >= 2 * before.pieces


def _cut_off(attributes: Mapping[str, int], before: Experience, after: Experience) -> bool:
    limit = attributes["bytes"]
    return after.byte_count <= limit < before.byte_count and after.ending in (
        ConnectionEnding.CLOSED,
        ConnectionEnding.RESET,
    )


_FELT: Final[Mapping[str, Callable[[Mapping[str, int], Experience, Experience], bool]]] = {
    "latency": _late,
    "bandwidth": _slow,
    "slow_close": _closes_late,
    "timeout": _silent,
    "reset_peer": _ended,
    "slicer": _sliced,
    "limit_data": _cut_off,
}


async def _felt(
    streams: Streams, toxics: Mapping[Link, Toxic], before: Mapping[Link, Experience]
) -> dict[Link, Experience]:
    """Measure every link until the toxic shows on it, or the attempts are used up."""
    after: dict[Link, Experience] = {}
    for tried in range(_TRIES):
        left = [
            link
            for link, toxic in toxics.items()
            if tried < (_TRIES if toxic.toxicity < 1.0 else _TRIES_OF_ALL)
            and (link not in after or not is_felt(toxic, before[link], after[link]))
        ]
        if not left:
            break
        after.update(await streams.measure(left, max(_MEASURE_S, _longest_s(toxics) + 0.5)))
    return after


def _longest_s(toxics: Mapping[Link, Toxic]) -> float:
    """Return how long the slowest toxic takes to show."""
    return max(
        sum(toxic.attributes.get(name, 0) for name in ("latency", "jitter", "timeout")) / 1e3
        + (toxic.attributes["delay"] / 1e3 if toxic.kind == "slow_close" else 0.0)
        for toxic in toxics.values()
    )


def _refuse_figures(options: ToxicOptions) -> Refusal | None:
    waited_ns = 0
    for name, figure in options.figures.items():
        if not figure.unit_ns:
            continue
        given, unit = getattr(options, name), format_duration(figure.unit_ns)
        waited_ns += figure.default * figure.unit_ns if given is UNSET else given
        if given is not UNSET and given % figure.unit_ns:
            return Refusal(f"{name}={given}: the proxy counts in steps of {unit}", f"give a multiple of {unit}")
        if given is not UNSET and given < figure.least * figure.unit_ns:
            return Refusal(f"{name}={given} does nothing", f"give at least {unit}")
    if waited_ns > _LONGEST_NS:
        return Refusal(
            f"kind={options.kind}: {format_duration(waited_ns)} is too long to be proven", "give at most 4s in all"
        )
    return None


def _streams(runtime: Runtime) -> Streams:
    streams = runtime.streams
    assert streams is not None, "refused before the run"
    return streams


def _same(wanted: Toxic, present: Toxic) -> bool:
    """Compare a toxic with what the proxy lists, which includes attributes that were not given."""
    return (wanted.kind, wanted.toxicity) == (present.kind, present.toxicity) and all(
        present.attributes.get(name) == value for name, value in wanted.attributes.items()
    )


def _toxic_text(toxic: Toxic) -> str:
    if toxic.attributes == {"timeout": 0} and toxic.kind == "timeout":
        return "black hole"
    figures = " ".join(f"{name}={value}" for name, value in toxic.attributes.items())
    share = f" on {toxic.toxicity:g} of the connections" if toxic.toxicity < 1.0 else ""
    return f"{toxic.kind} {figures}{share}"


def _names(links: Iterable[Link]) -> str:
    return ", ".join(sorted(map(str, links)))
