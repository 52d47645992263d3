"""Rules that lead a node's connections through proxies in its own network namespace, and which ports no fault touches.

A proxy there dials from the node's own address, so that packet rules and slow links act on its connections as on the
node's. The servers notice nothing: they dial each other by the same addresses as ever.
"""

import socket
import struct
import sys
from collections.abc import Sequence
from typing import Final

from fencepost.harness.runtime.linux import nftables

TABLE: Final = "fencepost-redirect"
#: The user of the proxies, whose own connections are not redirected.
USER: Final = 64077
#: The ports of a proxy that only the harness dials, to control it and to measure: all that begin with these six bits.
CONTROL: Final = 0x5400
CONTROL_MASK: Final = 0xFC00
#: The loopback device has this number in every network namespace.
_LOOPBACK: Final = (1).to_bytes(4, sys.byteorder)
_SOURCE, _TARGET = 12, 16
_PRIORITY: Final = -100

_TCP: Final = (nftables.load_protocol(), nftables.equals(b"\x06"))
_ACCEPT: Final = nftables.conclude(nftables.ACCEPT)


def redirect(
    outgoing: Sequence[tuple[str, int, int]], incoming: Sequence[tuple[int, int]], peers: Sequence[str]
) -> None:
    """Set the rules in the calling thread's network namespace. Raises OSError when the kernel cannot translate.

    Args:
        outgoing: address and port that processes of this namespace dial, and the port of the proxy there.
        incoming: port of this namespace that others dial, and the port of the proxy there.
        peers: addresses whose connections go straight to the listener, since a proxy of theirs made them.
    """
    batch = nftables.Batch(TABLE, nftables.IPV4)
    batch.add_table()
    batch.delete_table()
    batch.add_table()
    batch.add_hook_chain("output", nftables.HOOK_OUTPUT, _PRIORITY, "nat")
    batch.add_hook_chain("prerouting", nftables.HOOK_PREROUTING, _PRIORITY, "nat")
    batch.add_rule("output", nftables.load_user(), nftables.equals(USER.to_bytes(4, sys.byteorder)), _ACCEPT)
    for address, port, to in outgoing:
        batch.add_rule("output", *_addressed(_TARGET, address), *_to_port(port), *nftables.redirect(to))
    for address in peers:
        batch.add_rule("prerouting", *_addressed(_SOURCE, address), _ACCEPT)
    for port, to in incoming:
        batch.add_rule("prerouting", *_to_port(port), *nftables.redirect(to))
    with nftables.Nftables() as kernel:
        kernel.commit(batch)


def _addressed(offset: int, address: str) -> tuple[bytes, bytes]:
    return nftables.load_network_header(offset, 4), nftables.equals(socket.inet_aton(address))


def _to_port(port: int) -> tuple[bytes, ...]:
    return *_TCP, nftables.load_transport_header(2, 2), nftables.equals(struct.pack(">H", port))


def spare_proxies(batch: nftables.Batch) -> None:
    """Let everything pass that is within the namespace, and what the harness says to a proxy there.

    The answers of a proxy to a redirected connection look as if they came from the node that was dialled.
    """
    batch.add_rule("input", nftables.load_input_device(), nftables.equals(_LOOPBACK), _ACCEPT)
    for chain, offset in (("input", 2), ("output", 0)):
        port = nftables.load_transport_header(offset, 2), nftables.keep_bits(struct.pack(">H", CONTROL_MASK))
        batch.add_rule(chain, *_TCP, *port, nftables.equals(struct.pack(">H", CONTROL)), _ACCEPT)
