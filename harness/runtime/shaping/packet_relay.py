"""Packets of chosen links led through a process of ours by routing: for the lab, where the kernel has no packet queue.

A mark made by nf_tables sends such packets by a routing table of their own into a pair of joined devices, at whose far
end a packet socket takes them; what is sent back there enters the router again, unmarked, and goes where it was going.
The headers of virtio travel with them (PACKET_VNET_HDR), so unfinished checksums and large segments stay intact: a
segment of up to 64 KB counts as one packet.
"""

import contextlib
import socket
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from fencepost.harness.runtime.linux import nftables
from fencepost.harness.runtime.linux.netlink import Routing
from fencepost.harness.runtime.shaping.packet_queue import Packet

TABLE: Final = "fencepost-relay"
_MAP: Final = "relayed"
_NEAR, _FAR = "relay0", "relay1"
_NEAR_MAC: Final = bytes.fromhex("027700010000")
#: Of nobody: what is sent there is taken by the packet socket, and by no other part of the kernel.
_NOBODY_MAC: Final = bytes.fromhex("027700010001")
_FAR_MAC: Final = bytes.fromhex("027700010002")
_NOBODY: Final = "10.77.1.2"
_MARK: Final = 0xFE7D
_ROUTES: Final = 177
_LOCAL: Final = 255
_EARLY_DEMUX: Final = Path("/proc/sys/net/ipv4/ip_early_demux")
_MARKED_FIRST, _LOCAL_LATER = 50, 60
_PREROUTING, _OUTPUT = 0, nftables.HOOK_OUTPUT
_PRIORITY: Final = -150
_ETH_IP: Final = 0x0800
_SOL_PACKET, _VNET_HDR = 263, 15
_OUTGOING: Final = 4
#: The header of virtio, and that of Ethernet.
_BEFORE_IP: Final = 10 + 14
_FRAME_MAX: Final = 1 << 17
_BUFFER: Final = 8 << 20
_READS_MAX: Final = 64


def _rule_set() -> nftables.Batch:
    batch = nftables.Batch(TABLE, nftables.IPV4)
    batch.add_table()
    batch.delete_table()
    batch.add_table()
    batch.add_verdict_map(_MAP, 8, 1)
    batch.add_chain("mark")
    batch.add_rule("mark", *nftables.set_mark(_MARK))
    both_addresses = (nftables.load_network_header(12, 4, 8), nftables.load_network_header(16, 4, 9))
    batch.add_hook_chain("prerouting", _PREROUTING, _PRIORITY)
    back = nftables.equals(_NEAR.encode().ljust(16, b"\0"))
    batch.add_rule("prerouting", nftables.load_input_device(), back, nftables.conclude(nftables.ACCEPT))
    batch.add_rule("prerouting", *both_addresses, nftables.look_up_verdict(_MAP, 1))
    # Our own packets are routed again after this hook.
    batch.add_hook_chain("output", _OUTPUT, _PRIORITY, kind="route")
    batch.add_rule("output", *both_addresses, nftables.look_up_verdict(_MAP, 1))
    return batch


class RelayRules:
    """Devices, routes and rules of the lab's router; the same face as `shaping.queue_rules.QueueRules`."""

    means: Final = "packet relay"

    def __init__(self) -> None:
        with open("/proc/thread-self/ns/net", "rb") as here, Routing() as routing:
            self._device = routing.add_veth(_NEAR, _NEAR_MAC, _FAR, _FAR_MAC, here.fileno())
            try:
                routing.set_up(self._device)
                routing.set_up(socket.if_nametoindex(_FAR))
                routing.forward_from(self._device)
                # Packets come back whose source is this very machine, or is elsewhere by the routes.
                routing.accept_any_source(self._device)
                routing.add_neighbour(self._device, _NOBODY, _NOBODY_MAC)
                routing.add_route(None, self._device, via=_NOBODY, table=_ROUTES)
                # A packet that was given to a socket before it was routed is not forwarded, and so would be lost.
                _EARLY_DEMUX.write_text("0")
                # Marked packets for this very machine, too, go there first: its own addresses are asked for later.
                routing.add_rule(_MARKED_FIRST, _ROUTES, _MARK)
                routing.add_rule(_LOCAL_LATER, _LOCAL)
                routing.remove_rule(0, _LOCAL)
                self._kernel = nftables.Nftables()
                try:
                    self._kernel.commit(_rule_set())
                except BaseException:
                    self._kernel.close()
                    raise
            except BaseException:
                _restore(routing)
                routing.remove(self._device)
                raise

    def replace(self, keys: Iterable[bytes]) -> None:
        batch = nftables.Batch(TABLE, nftables.IPV4)
        batch.flush_map(_MAP)
        batch.add_elements(_MAP, dict.fromkeys(keys, nftables.goto("mark")))
        self._kernel.commit(batch)

    def read(self) -> set[bytes]:
        return set(self._kernel.read_map(nftables.Batch(TABLE, nftables.IPV4), _MAP))

    def remove(self) -> None:
        batch = nftables.Batch(TABLE, nftables.IPV4)
        batch.delete_table()
        self._kernel.commit(batch)
        with Routing() as routing:
            _restore(routing)
            routing.remove(self._device)

    def close(self) -> None:
        self._kernel.close()


def _restore(routing: Routing) -> None:
    """Everything but the device as the kernel makes it; each step may not have been done."""
    undo: tuple[Callable[[], object], ...] = (
        lambda: routing.add_rule(0, _LOCAL),
        lambda: routing.remove_rule(_LOCAL_LATER, _LOCAL),
        lambda: routing.remove_rule(_MARKED_FIRST, _ROUTES, _MARK),
        lambda: _EARLY_DEMUX.write_text("1"),
    )
    for step in undo:
        with contextlib.suppress(OSError):
            step()


def open_relay() -> socket.socket:
    """At the far end; after `RelayRules` in the same namespace."""
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
    try:
        opened.setsockopt(_SOL_PACKET, _VNET_HDR, 1)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        opened.bind((_FAR, _ETH_IP))
        opened.setblocking(False)
    except OSError:
        opened.close()
        raise
    return opened


class PacketRelay:
    """The packet socket, used by the process that shapes; the same face as `PacketQueue`."""

    def __init__(self, relay: socket.socket) -> None:
        self._relay = relay
        self._frames: dict[int, bytes] = {}
        self._number = 0
        self._last = b""
        self.untold = 0

    def fileno(self) -> int:
        return self._relay.fileno()

    def receive(self) -> Iterator[Packet]:
        for _ in range(_READS_MAX):
            try:
                frame, source = self._relay.recvfrom(_FRAME_MAX)
            except BlockingIOError:
                return
            if source[2] == _OUTGOING or frame[10:16] != _NOBODY_MAC:
                continue
            self._number += 1
            self._frames[self._number] = frame[:10] + _NEAR_MAC + _FAR_MAC + frame[22:]
            yield Packet(self._number, frame[_BEFORE_IP:])

    def let_go(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._last = self._frames.pop(number)
            self._send()

    def drop(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            del self._frames[number]

    def copy(self, content: bytes) -> None:
        """A copy follows its original at once, so that is the last frame that went."""
        assert self._last[_BEFORE_IP:] == content
        self._send()

    def _send(self) -> None:
        try:
            self._relay.send(self._last)
        except OSError:
            # No room: lost, as on a wire.
            return

    def close(self) -> None:
        self._relay.close()
