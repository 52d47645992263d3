"""Enforces slow and lossy links: their packets go through a queue, whose process holds, drops and doubles them.

See `harness.runtime.network.Shapes`. The runtime decides where these processes are (`Stations`): the lab has them in
the router that every packet passes, a container cluster in each node's side-car.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.links.resets import IdleConnections, break_between
from fencepost.harness.runtime.network import Handled, Link, PacketShape, Passage
from fencepost.harness.runtime.shaping.packets import merged
from fencepost.harness.runtime.shaping.stations import Stations

_HEADERS: Final = 28
_SIZE: Final = 64
_GAP_NS: Final = 2_500_000
#: The number of datagrams: for a delay; how many a share should hit; the most.
_COUNT: Final = 60
_HITS: Final = 12
_COUNT_MAX: Final = 800
#: A rate is measured over this time, in datagrams of at most this length, sent at twice the rate.
_RATE_NS: Final = 500_000_000
_RATE_NS_MAX: Final = 1_500_000_000
_RATE_SIZE: Final = 1400
_PIECES_S: Final = 40
#: For jitter: the gap that keeps datagrams from delaying each other; the time for all of them, but at least a dozen.
_JITTER_GAP_NS_MAX: Final = 100_000_000
_JITTER_NS: Final = 1_500_000_000
_TAIL_NS: Final = 300_000_000
_LINGER_S: Final = 0.02
#: Where several processes measure together, none sends before all have the order.
_LEAD_NS: Final = 20_000_000
#: How much longer than planned a measurement may take, since the measuring process may have to wait.
_STALL_S: Final = 5.0


class LinkShapes:
    """`harness.runtime.network.Shapes`."""

    def __init__(self, stations: Stations) -> None:
        self._stations = stations
        self._by_fault: dict[int, Mapping[Link, PacketShape]] = {}
        self._is_ready = False
        self._measurement = 0
        #: Two changes at once would leave half of each.
        self._changing = asyncio.Lock()

    @property
    def in_force(self) -> Mapping[Link, PacketShape]:
        return merged(self._by_fault)

    # -- changing it ----------------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        async with self._changing:
            if await self._prepare() and self._by_fault:
                await self._enforce(self._by_fault)

    async def _prepare(self) -> bool:
        """Start what is missing; return whether a process is new and must still get the shapes in force."""
        is_new = await self._stations.prepare()
        self._is_ready = True
        return is_new

    async def apply(self, fault_id: int, links: Mapping[Link, PacketShape]) -> None:
        async with self._changing:
            await self._prepare()
            await self._enforce({**self._by_fault, fault_id: dict(links)})

    async def withdraw(self, fault_id: int) -> None:
        async with self._changing:
            if fault_id in self._by_fault:
                await self._prepare()
                await self._enforce({number: links for number, links in self._by_fault.items() if number != fault_id})

    async def heal_all(self) -> None:
        """Stop shaping all links, whatever seems to be in force."""
        async with self._changing:
            self._by_fault = {}
            if self._is_ready:
                # A process that is gone holds nothing; the fault that met its end has reported it.
                with contextlib.suppress(HarnessError):
                    await self._enforce({})

    async def _enforce(self, wanted: dict[int, Mapping[Link, PacketShape]]) -> None:
        # Once sent it may be in force, so a cancelled caller must find it here to withdraw it.
        self._by_fault = wanted
        tables = self._stations.tables(merged(wanted))
        written = {field: {key.hex(): asdict(shape) for key, shape in table.items()} for field, table in tables.items()}
        await self._all("set", {field: {"table": table} for field, table in written.items()})

    async def _all(self, do: str, orders: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Ask the shapers of these fields at once; raise the first error when all have answered."""
        asking = [self._stations.shaper(field, do, **fields) for field, fields in orders.items()]
        answers = await asyncio.gather(*asking, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return dict(zip(orders, answers, strict=True))

    # -- looking at it --------------------------------------------------------------------------------------------

    async def read_back(self) -> frozenset[Link]:
        if not self._is_ready:
            return frozenset()
        # A process that has failed is replaced, or no later fault could be proven.
        await self.prepare()
        answers = await self._all("read", {field: {} for field in self._stations.fields})
        return frozenset(
            link
            for field, answer in answers.items()
            for link in self._stations.links(field, [bytes.fromhex(key) for key in answer["keys"]])
        )

    async def handled(self) -> Mapping[Link, Handled]:
        # The counts of a failed process are lost.
        try:
            answers = await self._all("counts", {field: {} for field in self._stations.fields if self._is_ready})
        except HarnessError:
            return {}
        return {
            link: Handled(**counts)
            for field, answer in answers.items()
            for key, counts in answer["lanes"].items()
            for link in self._stations.links(field, [bytes.fromhex(key)])
        }

    async def measure(self, links: Mapping[Link, PacketShape], count: int = 0) -> Mapping[Link, Passage]:
        await self.prepare()
        ends = self._stations.ends
        there = {link: shape for link, shape in links.items() if {*link} <= ends.keys()}
        if not there:
            return {}
        plans = [_plan(link, shape, count) | {"address": ends[link.target]} for link, shape in there.items()]
        tail_ns = _TAIL_NS + max(
            shape.delay_ns + shape.jitter_ns + shape.reorder_by_ns + (_RATE_NS_MAX if shape.rate_bytes_s else 0)
            for shape in there.values()
        )
        sending_s = max(plan["count"] * plan["gap_ns"] for plan in plans) / 1e9
        self._measurement += 1
        passages = await self._measured(
            "measure",
            2 * sending_s + tail_ns / 1e9 + _STALL_S,
            number=self._measurement,
            links=plans,
            tail_ns=tail_ns,
            linger_s=_LINGER_S if any(shape.duplicate for shape in there.values()) else 0.0,
            lead_ns=_LEAD_NS if self._stations.meters > 1 else 0,
        )
        if any(passage["arrived"] < passage["sent"] for passage in passages) and await self._catch_up(there.values()):
            passages = await self._measured("again")
        return {link: Passage(**passage) for link, passage in zip(there, passages, strict=True)}

    async def _measured(self, do: str, timeout_s: float = _STALL_S, **fields: Any) -> list[dict[str, Any]]:
        """Ask all meters at once, and put the parts of each link together."""
        parts = await self._stations.measure(do, timeout_s, **fields)
        together: list[dict[str, Any]] = [{} for _ in parts[0]["links"]]
        for part in parts:
            for link, fields_of_link in zip(together, part["links"], strict=True):
                link.update(fields_of_link)
        return together

    async def _catch_up(self, shapes: Iterable[PacketShape]) -> bool:
        """Wait until the shapers have released what had arrived: a late shaper must not look like loss."""
        every: dict[str, dict[str, Any]] = {field: {} for field in self._stations.fields}
        try:
            # An answer shows that it runs: it has taken the waiting packets, and holds them from now on.
            await self._all("counts", every)
            await asyncio.sleep(max(shape.delay_ns + shape.jitter_ns + shape.reorder_by_ns for shape in shapes) / 1e9)
            await self._all("counts", every)
        except HarnessError:
            return False
        return True

    async def open_witness(self, links: Iterable[Link]) -> IdleConnections:
        return await IdleConnections.open(links, self._stations.ends, self._stations.at)

    async def break_connections(self, links: Iterable[Link]) -> int:
        return await break_between(links, self._stations.ends, self._stations.at)

    def close(self) -> None:
        self._stations.close()


def _plan(link: Link, shape: PacketShape, count: int) -> dict[str, Any]:
    """Choose the number, length and distance of datagrams that make the shape visible."""
    size, gap_ns = _SIZE, _GAP_NS
    shares = [share for share in (shape.loss, shape.duplicate, shape.reorder) if share]
    wanted = max([_COUNT, *(round(_HITS / share) for share in shares)])
    if shape.jitter_ns and not shares:
        gap_ns = max(gap_ns, min(2 * shape.jitter_ns, _JITTER_GAP_NS_MAX))
        wanted = max(_HITS, min(wanted, _JITTER_NS // gap_ns))
    if shape.reorder:
        # Some later datagrams must be able to overtake one that is held back.
        gap_ns = min(gap_ns, shape.reorder_by_ns // 4)
    if shape.rate_bytes_s:
        piece = min(_RATE_SIZE + _HEADERS, max(shape.rate_bytes_s // _PIECES_S, _SIZE + _HEADERS))
        if shape.reorder:
            # Long datagrams would leave the line so far apart that none could overtake another.
            piece = _SIZE + _HEADERS
        each_ns = piece * 10**9 // shape.rate_bytes_s
        size, gap_ns = piece - _HEADERS, each_ns // 2
        fitting = _RATE_NS_MAX // each_ns
        wanted = min(max(_RATE_NS // each_ns, wanted if shares else 0), fitting)
    return {
        "source": link.source,
        "target": link.target,
        "count": count or min(wanted, _COUNT_MAX),
        "gap_ns": gap_ns,
        "size": size,
    }
