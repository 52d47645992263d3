"""Enforces slow and lossy links: their packets go through a queue, whose process holds, drops and doubles them.

See `harness.runtime.network.Shapes`. The runtime decides where the queues are (`Spaces`): the lab has one, in the
router that every packet passes; a container cluster has one in each node's own namespace.
"""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.links.namespaces import Spaces
from fencepost.harness.runtime.links.resets import IdleConnections, break_between
from fencepost.harness.runtime.linux.companion import Companion
from fencepost.harness.runtime.network import Handled, Link, Passage, Shape
from fencepost.harness.runtime.shaping.packet_queue import open_here
from fencepost.harness.runtime.shaping.packets import merged
from fencepost.harness.runtime.shaping.queue_rules import QueueRules

#: The port of the datagrams that measure links, at every end.
METER_PORT: Final = 10079
_RECEIVE_BUFFER: Final = 1 << 20
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
#: How much longer than planned a measurement may take, since the measuring process may have to wait.
_STALL_S: Final = 5.0


class LinkShapes:
    """`harness.runtime.network.Shapes`."""

    def __init__(self, spaces: Spaces) -> None:
        self._spaces = spaces
        self._by_fault: dict[int, Mapping[Link, Shape]] = {}
        self._shaper: Companion | None = None
        self._meter: Companion | None = None
        self._rules: dict[str, QueueRules] = {}
        self._measured: set[str] = set()
        #: Two changes at once would leave half of each.
        self._changing = asyncio.Lock()

    @property
    def in_force(self) -> Mapping[Link, Shape]:
        return merged(self._by_fault)

    @property
    def means(self) -> str:
        """Return the kernel's means to queue packets; empty before `prepare`."""
        return ", ".join(sorted({rules.means for rules in self._rules.values()}))

    # -- making it ready ------------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        async with self._changing:
            if await self._prepare():
                await self._enforce(self._by_fault)

    async def _prepare(self) -> bool:
        """Start what is missing; return whether the shaper is a new one, which must still get the shapes in force."""
        replaced = self._end_the_failed()
        if self._shaper is None:
            self._shaper = Companion("fencepost.harness.runtime.shaping.shaper")
        if self._meter is None:
            self._meter = Companion("fencepost.harness.runtime.shaping.passage_meter")
        for field in self._spaces.fields:
            if field not in self._rules:
                await self._open_field(field)
        for end, address in self._spaces.ends.items():
            if end not in self._measured:
                await self._open_end(end, address)
        return replaced

    def _end_the_failed(self) -> bool:
        """Replace a process that ended or whose answer nobody waited for, or no later fault could be proven."""
        if self._meter is not None and self._meter.has_failed:
            self._meter.close()
            self._meter = None
            self._measured.clear()
        if self._shaper is None or not self._shaper.has_failed:
            return False
        for rules in self._rules.values():
            with contextlib.suppress(OSError):
                rules.remove()
            rules.close()
        self._rules.clear()
        self._shaper.close()
        self._shaper = None
        return True

    async def _open_end(self, end: str, address: str) -> None:
        assert self._meter is not None
        try:
            opened = await self._spaces.run_in(end, lambda: _meter_socket(address))
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
            return  # its container is dead, and the namespace without a device: nothing can be measured there
        with opened:
            await self._meter.ask("add", end=end, fds=[opened.fileno()])
        self._measured.add(end)

    async def _open_field(self, field: str) -> None:
        assert self._shaper is not None
        try:
            rules, sockets = await self._spaces.run_in(field, lambda: open_here(self._spaces.where))
        except OSError as error:
            raise HarnessError(f"packets of {field} cannot be queued: {error}", hint="fencepost doctor") from error
        with contextlib.ExitStack() as given_away:
            for opened in sockets:
                given_away.enter_context(opened)
            try:
                await self._shaper.ask("add", field=field, fds=[opened.fileno() for opened in sockets])
            except BaseException:
                with contextlib.suppress(OSError):
                    rules.remove()
                rules.close()
                raise
        self._rules[field] = rules

    async def renew(self, name: str) -> None:
        """Shape the links of a field and end as before, after its namespace was replaced by a new one."""
        async with self._changing:
            await self._forget(name)
            if self._shaper is not None:
                await self._prepare()
                await self._enforce(self._by_fault)

    async def forget(self, name: str) -> None:
        """Forget a field and end whose namespace is gone, with its rules."""
        async with self._changing:
            await self._forget(name)

    async def _forget(self, name: str) -> None:
        rules = self._rules.pop(name, None)
        if rules is not None and self._shaper is not None:
            rules.close()
            await self._shaper.ask("remove", field=name)
        if name in self._measured and self._meter is not None:
            self._measured.remove(name)
            await self._meter.ask("remove", end=name)

    # -- changing it ----------------------------------------------------------------------------------------------

    async def apply(self, fault_id: int, links: Mapping[Link, Shape]) -> None:
        async with self._changing:
            await self._prepare()
            await self._enforce({**self._by_fault, fault_id: dict(links)})

    async def withdraw(self, fault_id: int) -> None:
        async with self._changing:
            if fault_id in self._by_fault:
                if self._shaper is None or self._shaper.has_failed:
                    await self._prepare()
                await self._enforce({number: links for number, links in self._by_fault.items() if number != fault_id})

    async def heal_all(self) -> None:
        """Stop shaping all links, whatever seems to be in force."""
        async with self._changing:
            self._by_fault = {}
            if self._shaper is None:
                return
            # A process that is gone holds nothing; the fault that met its end has reported it.
            with contextlib.suppress(HarnessError):
                await self._shaper.ask("set", tables={field: {} for field in self._rules})
            try:
                self._set_rules({})
            except OSError as error:
                raise HarnessError(f"the links could not be healed: {error}") from error

    async def _enforce(self, wanted: dict[int, Mapping[Link, Shape]]) -> None:
        """Tell the process first: queued packets must find their shape, and no packet may overtake held ones."""
        assert self._shaper is not None
        tables = self._spaces.tables(merged(wanted))
        shapes = {
            field: {key.hex(): asdict(shape) for key, shape in tables.get(field, {}).items()} for field in self._rules
        }
        # Once sent it may be in force, so a cancelled caller must find it here to withdraw it.
        before, self._by_fault = self._by_fault, wanted
        try:
            await self._shaper.ask("set", tables=shapes)
        except HarnessError:
            # No process shapes any more, and no packet may wait in a queue that nobody reads.
            with contextlib.suppress(OSError):
                self._set_rules({})
            raise
        try:
            self._set_rules(tables)
        except OSError as error:
            self._by_fault = before
            raise HarnessError(f"the links could not be shaped: {error}") from error

    def _set_rules(self, tables: Mapping[str, Mapping[bytes, Shape]]) -> None:
        for field, rules in self._rules.items():
            rules.replace(tables.get(field, {}))

    # -- looking at it --------------------------------------------------------------------------------------------

    async def read_back(self) -> frozenset[Link]:
        links: set[Link] = set()
        for field, rules in self._rules.items():
            links |= self._spaces.links(field, rules.read())
        return frozenset(links)

    async def handled(self) -> Mapping[Link, Handled]:
        # The counts of a failed process are lost.
        if self._shaper is None or self._shaper.has_failed:
            return {}
        counts_of = (await self._shaper.ask("counts"))["fields"]
        handled: dict[Link, Handled] = {}
        for field, counted in counts_of.items():
            for key, counts in counted["lanes"].items():
                for link in self._spaces.links(field, [bytes.fromhex(key)]):
                    handled[link] = Handled(**counts)
        return handled

    async def measure(self, links: Mapping[Link, Shape], count: int = 0) -> Mapping[Link, Passage]:
        await self.prepare()
        assert self._meter is not None
        there = {link: shape for link, shape in links.items() if {*link} <= self._measured}
        if not there:
            return {}
        plans = [_plan(link, shape, count) for link, shape in there.items()]
        tail_ns = _TAIL_NS + max(
            shape.delay_ns + shape.jitter_ns + shape.reorder_by_ns + (_RATE_NS_MAX if shape.rate_bytes_s else 0)
            for shape in there.values()
        )
        sending_s = max(plan["count"] * plan["gap_ns"] for plan in plans) / 1e9
        answer = await self._meter.ask(
            "measure",
            links=plans,
            tail_ns=tail_ns,
            linger_s=_LINGER_S if any(shape.duplicate for shape in there.values()) else 0.0,
            timeout_s=2 * sending_s + tail_ns / 1e9 + _STALL_S,
        )
        if any(counts["arrived"] < counts["sent"] for counts in answer["links"]) and await self._catch_up(
            there.values()
        ):
            answer = await self._meter.ask("again")
        return {link: Passage(**counts) for link, counts in zip(there, answer["links"], strict=True)}

    async def _catch_up(self, shapes: Iterable[Shape]) -> bool:
        """Wait until the shaper has released what had arrived: a late shaper must not look like loss."""
        if self._shaper is None or self._shaper.has_failed:
            return False
        # Its answer shows that it runs: it has taken the waiting packets, and holds them from now on.
        await self._shaper.ask("counts")
        await asyncio.sleep(max(shape.delay_ns + shape.jitter_ns + shape.reorder_by_ns for shape in shapes) / 1e9)
        await self._shaper.ask("counts")
        return True

    async def open_witness(self, links: Iterable[Link]) -> IdleConnections:
        return await IdleConnections.open(links, self._spaces.ends, self._spaces.run_in)

    async def break_connections(self, links: Iterable[Link]) -> int:
        return await break_between(links, self._spaces.ends, self._spaces.run_in)

    def close(self) -> None:
        for rules in self._rules.values():
            with contextlib.suppress(OSError):
                rules.remove()
            rules.close()
        self._rules.clear()
        for companion in (self._shaper, self._meter):
            if companion is not None:
                companion.close()
        self._shaper = self._meter = None


def _meter_socket(address: str) -> socket.socket:
    """Open the socket of an end; runs in the end's namespace."""
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        opened.bind((address, METER_PORT))
    except OSError:
        opened.close()
        raise
    return opened


def _plan(link: Link, shape: Shape, count: int) -> dict[str, Any]:
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
