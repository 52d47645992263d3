"""nf_tables with only the standard library: rules as netlink messages, in batches that apply wholly or not at all.

`Batch` collects messages, `Nftables.commit` sends them as one: the kernel builds the new rule set beside the old one
and switches, so no packet ever sees a state between the two. The numbers come from linux/netfilter/nf_tables.h.
"""

import socket
import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from fencepost.harness.runtime.linux.netlink import (
    ACK,
    APPEND,
    CREATE,
    REQUEST,
    Netlink,
    NetlinkReply,
    attribute,
    attributes,
    message,
)

INET: Final = 1
IPV4: Final = 2
_NETLINK_NETFILTER: Final = 12
_SUBSYSTEM: Final = 10 << 8

HOOK_PREROUTING: Final = 0
HOOK_INPUT: Final = 1
HOOK_FORWARD: Final = 2
HOOK_OUTPUT: Final = 3


class PacketVerdict(NamedTuple):
    """The decision on a packet: a code, and the chain for jump and goto."""

    code: int
    chain: str | None = None


DROP: Final = PacketVerdict(0)
ACCEPT: Final = PacketVerdict(1)


def goto(chain: str) -> PacketVerdict:
    return PacketVerdict(-4, chain)


def _be32(value: int) -> bytes:
    return struct.pack(">i" if value < 0 else ">I", value)


def _verdict(verdict: PacketVerdict) -> bytes:
    """NFTA_DATA_VERDICT with its code and chain."""
    inner = [attribute(1, _be32(verdict.code))]
    if verdict.chain is not None:
        inner.append(attribute(2, verdict.chain))
    return attribute(2, inner)


# Expressions, the machine instructions of a rule. Register 0 is the verdict, 8 and up hold four bytes each.
_REGISTER: Final = 8
Expression = bytes


def _expression(name: str, *parts: bytes) -> Expression:
    return attribute(1, name) + (attribute(2, list(parts)) if parts else b"")


def load_network_header(offset: int, length: int, register: int = _REGISTER) -> Expression:
    return _payload(1, offset, length, register)


def load_transport_header(offset: int, length: int, register: int = _REGISTER) -> Expression:
    return _payload(2, offset, length, register)


def _payload(base: int, offset: int, length: int, register: int) -> Expression:
    parts = [attribute(kind, _be32(value)) for kind, value in ((1, register), (2, base), (3, offset), (4, length))]
    return _expression("payload", *parts)


def load_family() -> Expression:
    """NFT_META_NFPROTO: one byte, 2 for IPv4."""
    return _expression("meta", attribute(1, _be32(_REGISTER)), attribute(2, _be32(15)))


def load_protocol() -> Expression:
    """NFT_META_L4PROTO: one byte."""
    return _expression("meta", attribute(1, _be32(_REGISTER)), attribute(2, _be32(16)))


def load_mark() -> Expression:
    """NFT_META_MARK: four bytes in host order, as SO_MARK sets them."""
    return _expression("meta", attribute(1, _be32(_REGISTER)), attribute(2, _be32(3)))


def load_user() -> Expression:
    """NFT_META_SKUID: the user of the sending process, four bytes in host order."""
    return _expression("meta", attribute(1, _be32(_REGISTER)), attribute(2, _be32(10)))


def load_input_device() -> Expression:
    """NFT_META_IIF: the number of the device that the packet came in by, four bytes in host order."""
    return _expression("meta", attribute(1, _be32(_REGISTER)), attribute(2, _be32(4)))


def redirect(port: int) -> tuple[Expression, Expression]:
    """Lead a new connection to this port of the machine itself; for chains of the kind "nat"."""
    value = attribute(2, [attribute(1, struct.pack(">H", port))])
    return _expression("immediate", attribute(1, _be32(_REGISTER)), value), _expression(
        "redir", attribute(1, _be32(_REGISTER))
    )


def _compare(operator: int, value: bytes) -> Expression:
    return _expression(
        "cmp", attribute(1, _be32(_REGISTER)), attribute(2, _be32(operator)), attribute(3, [attribute(1, value)])
    )


def equals(value: bytes) -> Expression:
    return _compare(0, value)


def differs(value: bytes) -> Expression:
    return _compare(1, value)


def keep_bits(mask: bytes) -> Expression:
    zero = b"\0" * len(mask)
    return _expression(
        "bitwise",
        attribute(1, _be32(_REGISTER)),
        attribute(2, _be32(_REGISTER)),
        attribute(3, _be32(len(mask))),
        attribute(4, [attribute(1, mask)]),
        attribute(5, [attribute(1, zero)]),
    )


def look_up_verdict(map_name: str, map_id: int) -> Expression:
    """Apply the verdict that the map has for the registers; do nothing when the key is not in it."""
    return _expression(
        "lookup",
        attribute(1, map_name),
        attribute(2, _be32(_REGISTER)),
        attribute(3, _be32(0)),
        attribute(4, _be32(map_id)),
    )


def conclude(verdict: PacketVerdict) -> Expression:
    return _expression("immediate", attribute(1, _be32(0)), attribute(2, [_verdict(verdict)]))


def reject_with_tcp_reset() -> Expression:
    return _expression("reject", attribute(1, _be32(1)), attribute(2, b"\0"))


def reject_with_port_unreachable() -> Expression:
    """NFT_REJECT_ICMPX_UNREACH, port: senders see "connection refused"."""
    return _expression("reject", attribute(1, _be32(2)), attribute(2, b"\x01"))


def queue(number: int) -> Expression:
    """Send the packet to the queue `number` (nft_queue); it passes when nobody listens there."""
    fields = ((1, number), (2, 1), (3, 1))  # number, how many queues, NFT_QUEUE_FLAG_BYPASS
    return _expression("queue", *(attribute(kind, struct.pack(">H", value)) for kind, value in fields))


def queue_by_target(number: int) -> Expression:
    """Queue by the older target of x_tables, for kernels without nft_queue; use it in a `compatible` rule."""
    return _expression(
        "target", attribute(1, "NFQUEUE"), attribute(2, _be32(3)), attribute(3, struct.pack("=HHHxx", number, 1, 1))
    )


class Batch:
    """Messages about one table, in the order in which the kernel applies them."""

    def __init__(self, table: str, family: int = INET) -> None:
        self.table = table
        self.family = family
        self.messages: list[tuple[int, int, bytes]] = []

    def _add(self, kind: int, parts: Iterable[bytes], flags: int = CREATE) -> None:
        head = struct.pack(">BBH", self.family, 0, 0) + attribute(1, self.table)
        self.messages.append((_SUBSYSTEM | kind, flags, head + b"".join(parts)))

    def add_table(self) -> None:
        self._add(0, [attribute(2, _be32(0))])

    def delete_table(self) -> None:
        self._add(2, [], 0)

    def add_chain(self, name: str) -> None:
        self._add(3, [attribute(3, name)])

    def add_hook_chain(self, name: str, hook: int, priority: int, kind: str = "filter") -> None:
        place = [attribute(1, _be32(hook)), attribute(2, _be32(priority))]
        self._add(3, [attribute(3, name), attribute(4, place), attribute(5, _be32(1)), attribute(7, kind)])

    def add_verdict_map(self, name: str, key_length: int, map_id: int) -> None:
        """Add a map from `key_length` bytes to a verdict; rules of the same batch name it by `map_id`."""
        numbers = ((3, 8), (4, 7), (5, key_length), (6, 0xFFFF_FF00), (7, 0), (10, map_id))
        self._add(9, [attribute(2, name), *(attribute(kind, _be32(value)) for kind, value in numbers)])

    def add_rule(self, chain: str, *expressions: Expression, compatible: bool = False) -> None:
        """Add a rule; `compatible` means that it has a target of x_tables (NFTA_RULE_COMPAT: any protocol)."""
        body = [attribute(1, [expression]) for expression in expressions]
        compat = [attribute(5, [attribute(1, _be32(0)), attribute(2, _be32(0))])] if compatible else []
        self._add(6, [attribute(2, chain), attribute(4, body), *compat], CREATE | APPEND)

    def flush_map(self, name: str) -> None:
        self._add(14, [attribute(2, name)], 0)

    def add_elements(self, name: str, elements: Mapping[bytes, PacketVerdict]) -> None:
        if not elements:
            return  # the kernel refuses an empty list
        items = [
            attribute(1, [attribute(1, [attribute(1, key)]), attribute(2, [_verdict(verdict)])])
            for key, verdict in elements.items()
        ]
        self._add(12, [attribute(2, name), attribute(3, items)])


class Nftables(Netlink):
    """The rule sets of one network namespace."""

    def __init__(self) -> None:
        super().__init__(_NETLINK_NETFILTER)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)

    def commit(self, batch: Batch) -> None:
        """Apply the whole batch in one kernel transaction, or nothing; raise OSError with the kernel's explanation."""
        generation = struct.pack(">BBH", 0, 0, 10)
        first = self.next_sequence()
        parts = [message(0x10, REQUEST, generation, first)]
        last = first
        for number, (kind, flags, body) in enumerate(batch.messages, 1):
            last = self.next_sequence()
            ack = ACK if number == len(batch.messages) else 0
            parts.append(message(kind, REQUEST | flags | ack, body, last))
        parts.append(message(0x11, REQUEST, generation, self.next_sequence()))
        self.send(b"".join(parts))
        while True:
            for reply in self.receive():
                # An error in any message aborts the whole batch; replies with sequences of earlier batches are stale.
                if reply.errno and reply.sequence >= first:
                    self.drain()
                    raise self._error(reply, first, len(batch.messages))
                if reply.is_answer and reply.sequence == last:
                    return

    @staticmethod
    def _error(reply: NetlinkReply, first: int, count: int) -> OSError:
        return reply.error(f"nf_tables message {reply.sequence - first} of {count}")

    def read_map(self, batch: Batch, name: str) -> dict[bytes, PacketVerdict]:
        """Read the current content of the map `name` of the batch's table from the kernel."""
        head = struct.pack(">BBH", batch.family, 0, 0) + attribute(1, batch.table) + attribute(2, name)
        verdicts: dict[bytes, PacketVerdict] = {}
        for body in self.dump(f"read map {name}", _SUBSYSTEM | 13, head):
            elements = dict(attributes(body[4:])).get(3, b"")
            for _, element in attributes(elements):
                fields = dict(attributes(element))
                key = dict(attributes(fields[1]))[1]
                verdict = dict(attributes(dict(attributes(fields[2]))[2]))
                code = int(struct.unpack(">i", verdict[1])[0])
                chain = verdict[2].rstrip(b"\0").decode() if 2 in verdict else None
                verdicts[key] = PacketVerdict(code, chain)
        return verdicts
