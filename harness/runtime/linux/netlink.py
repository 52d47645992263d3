"""Netlink with only the standard library: messages, errors with the kernel's own text, links, addresses, routes.

The lab must work without an `ip` binary, and a socket message costs microseconds while a process costs milliseconds.
The numbers come from linux/netlink.h, linux/rtnetlink.h and linux/if_link.h.
"""

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Final, Self, TypeAlias

REQUEST: Final = 0x1
ACK: Final = 0x4
DUMP: Final = 0x300
REPLACE: Final = 0x100
EXCLUSIVE: Final = 0x200
CREATE: Final = 0x400
APPEND: Final = 0x800

_NESTED: Final = 0x8000
_TYPE_MASK: Final = 0x3FFF
_ERROR: Final = 2
_DONE: Final = 3
_HEADER: Final = struct.Struct("=IHHII")
#: RT_TABLE_MAIN.
_MAIN_TABLE: Final = 254
#: The kernel answers during the send; this bounds the wait in case it ever does not.
_REPLY_TIMEOUT_S: Final = 5.0

Value: TypeAlias = "bytes | str | int | Sequence[bytes]"


def attribute(kind: int, value: Value = b"") -> bytes:
    """Encode an attribute: bytes unchanged, text with its NUL, int as u32 in host order, a list as nested ones."""
    match value:
        case bytes():
            body = value
        case str():
            body = value.encode() + b"\0"
        case int():
            body = struct.pack("=I", value)
        case _:
            kind |= _NESTED
            body = b"".join(value)
    return struct.pack("=HH", len(body) + 4, kind) + body + b"\0" * (-len(body) & 3)


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the attributes of `data`; for nested ones, call this again on their value."""
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            return
        yield kind & _TYPE_MASK, data[at + 4 : at + length]
        at += (length + 3) & ~3


def message(kind: int, flags: int, body: bytes, sequence: int) -> bytes:
    return _HEADER.pack(_HEADER.size + len(body), kind, flags, sequence, 0) + body


class NetlinkReply:
    """One message from the kernel: its kind, sequence and body; for an acknowledgement its error."""

    __slots__ = ("body", "errno", "kind", "sequence", "text")

    def __init__(self, kind: int, flags: int, sequence: int, body: bytes) -> None:
        self.kind = kind
        self.sequence = sequence
        self.body = body
        self.errno = 0
        self.text = ""
        if kind == _ERROR:
            self.errno = -int(struct.unpack_from("=i", body)[0])
            if self.errno and flags & 0x200:  # NLM_F_ACK_TLVS: attributes follow the echoed request
                echoed = _HEADER.size if flags & 0x100 else struct.unpack_from("=I", body, 4)[0]
                message_text = dict(attributes(body[4 + echoed :])).get(1, b"")
                self.text = message_text.rstrip(b"\0").decode(errors="replace")

    @property
    def is_answer(self) -> bool:
        return self.kind == _ERROR

    @property
    def is_end(self) -> bool:
        return self.kind == _DONE

    def error(self, what: str) -> OSError:
        return OSError(self.errno, f"{what}: {os.strerror(self.errno)}" + (f" ({self.text})" if self.text else ""))


class Netlink:
    """One netlink socket; it always belongs to the network namespace of the thread that made it."""

    def __init__(self, protocol: int) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        self._socket.bind((0, 0))
        self._socket.settimeout(_REPLY_TIMEOUT_S)
        # NETLINK_EXT_ACK: the kernel explains errors in words.
        self._socket.setsockopt(270, 11, 1)
        self._sequence = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def detach(self) -> socket.socket:
        """Return the socket, which the caller now owns."""
        return self._socket.dup()

    def next_sequence(self) -> int:
        self._sequence += 1
        return self._sequence

    def send(self, data: bytes) -> None:
        self._socket.send(data)

    def receive(self) -> Iterator[NetlinkReply]:
        """Yield the messages of the next datagram; raise TimeoutError when none comes."""
        data = self._socket.recv(1 << 18)
        at = 0
        while at + _HEADER.size <= len(data):
            length, kind, flags, sequence, _ = _HEADER.unpack_from(data, at)
            yield NetlinkReply(kind, flags, sequence, data[at + _HEADER.size : at + length])
            at += (length + 3) & ~3

    def drain(self) -> None:
        """Throw away unread messages, so that the next answer belongs to the next request."""
        self._socket.setblocking(False)
        try:
            while self._socket.recv(1 << 18):
                pass
        except BlockingIOError:
            pass
        finally:
            self._socket.settimeout(_REPLY_TIMEOUT_S)

    def request(self, what: str, kind: int, body: bytes, flags: int = 0) -> None:
        """Send one request and wait for its acknowledgement; `what` names it in the error."""
        sequence = self.next_sequence()
        self.send(message(kind, REQUEST | ACK | flags, body, sequence))
        while True:
            for reply in self.receive():
                if reply.sequence == sequence and reply.is_answer:
                    if reply.errno:
                        raise reply.error(what)
                    return

    def dump(self, what: str, kind: int, body: bytes) -> list[bytes]:
        """Return the bodies of all messages that answer a dump request."""
        sequence = self.next_sequence()
        self.send(message(kind, REQUEST | DUMP, body, sequence))
        bodies: list[bytes] = []
        while True:
            for reply in self.receive():
                if reply.sequence != sequence:
                    continue
                if reply.is_answer:
                    raise reply.error(what)
                if reply.is_end:
                    return bodies
                bodies.append(reply.body)


class Routing(Netlink):
    """Links, addresses and routes of one network namespace (rtnetlink)."""

    def __init__(self) -> None:
        super().__init__(socket.NETLINK_ROUTE)

    @staticmethod
    def _link(index: int, flags: int = 0, change: int = 0) -> bytes:
        return struct.pack("=BxHiII", 0, 0, index, flags, change)

    def add_veth(self, name: str, mac: bytes, peer: str, peer_mac: bytes, peer_namespace: int) -> int:
        """Make a pair of joined devices, `name` here and `peer` in the namespace of that fd; return our index."""
        other = self._link(0) + attribute(3, peer) + attribute(1, peer_mac) + attribute(28, peer_namespace)
        kind = [attribute(1, "veth"), attribute(2, [attribute(1, other)])]
        body = self._link(0) + attribute(3, name) + attribute(1, mac) + attribute(18, kind)
        self.request(f"add veth {name}", 16, body, CREATE | EXCLUSIVE)
        return socket.if_nametoindex(name)

    def add_neighbour(self, device: int, address: str, mac: bytes) -> None:
        """Set a permanent hardware address for a neighbour, so that nothing ever waits for ARP."""
        permanent = 0x80
        body = struct.pack("=BxxxiHBB", socket.AF_INET, device, permanent, 0, 0)
        body += attribute(1, socket.inet_aton(address)) + attribute(2, mac)
        self.request(f"add neighbour {address}", 28, body, CREATE | REPLACE)

    def set_up(self, index: int) -> None:
        self.request(f"bring up device {index}", 16, self._link(index, 1, 1))

    def remove(self, index: int) -> None:
        self.request(f"remove device {index}", 17, self._link(index))

    def forward_from(self, index: int) -> None:
        """Forward IPv4 packets that arrive by this device; a link message needs no writable /proc/sys."""
        # IFLA_AF_SPEC > AF_INET > IFLA_INET_CONF > IPV4_DEVCONF_FORWARDING
        setting = attribute(26, [attribute(2, [attribute(1, [attribute(1, 1)])])])
        self.request(f"forwarding on device {index}", 19, self._link(index) + setting)

    def add_address(self, index: int, address: str) -> None:
        packed = socket.inet_aton(address)
        body = struct.pack("=BBBBI", socket.AF_INET, 32, 0, 0, index) + attribute(2, packed) + attribute(1, packed)
        self.request(f"add address {address}", 20, body, CREATE | EXCLUSIVE)

    def add_route(self, destination: str | None, device: int, via: str | None = None) -> None:
        """Route one address (None: everything) by `device`, directly or through `via` (on the link by definition)."""
        length = 0 if destination is None else 32
        scope = 253 if via is None else 0  # link, universe
        on_link = 0 if via is None else 4
        body = struct.pack("=BBBBBBBBI", socket.AF_INET, length, 0, 0, 0, 3, scope, 1, on_link)
        if destination is not None:
            body += attribute(1, socket.inet_aton(destination))
        body += attribute(4, device) + attribute(15, _MAIN_TABLE)
        if via is not None:
            body += attribute(5, socket.inet_aton(via))
        self.request(f"add route {destination or 'default'}", 24, body, CREATE | REPLACE)
