"""Frames of NATS' client protocol, read from a stream of bytes and written to one.

A frame is a line that ends in CRLF; `MSG` and `HMSG` are followed by a payload. Headers look like those of HTTP, with a
first line "NATS/1.0" that may hold a status.

Source: docs.nats.io, Client Protocol; ADR-4 (headers).
"""

from collections.abc import Mapping

import msgspec

_END = b"\r\n"
_HEADERS = b"NATS/1.0"


class Message(msgspec.Struct, frozen=True):
    """One delivered message; `status` is 0 where its headers have none."""

    subject: str
    sid: int
    headers: Mapping[str, str]
    payload: bytes
    status: int = 0
    reply: str = ""


class ControlLine(msgspec.Struct, frozen=True):
    """A frame without a payload: its word in capitals, and the rest of its line."""

    word: str
    rest: bytes


def frame_at(received: bytes, at: int) -> tuple[Message | ControlLine, int] | None:
    """The frame at `at`, and where it ends; None while it is incomplete. Raises ValueError for what is no frame."""
    end = received.find(_END, at)
    if end < 0:
        return None
    word, _, rest = received[at:end].partition(b" ")
    name = word.upper().decode("ascii", "replace")
    start = end + 2
    if name not in ("MSG", "HMSG"):
        return ControlLine(name, rest), start
    fields = rest.split()
    sizes = 2 if name == "HMSG" else 1
    if len(fields) not in (2 + sizes, 3 + sizes):
        raise ValueError(f"a frame of {len(fields)} words: {rest[:80]!r}")
    size = int(fields[-1])
    head = int(fields[-2]) if sizes == 2 else 0
    if len(received) < start + size + 2:
        return None
    content = received[start : start + size]
    status, headers = _headers(content[:head])
    message = Message(
        subject=fields[0].decode(),
        sid=int(fields[1]),
        headers=headers,
        payload=content[head:],
        status=status,
        reply=fields[2].decode() if len(fields) == 3 + sizes else "",
    )
    return message, start + size + 2


def publish(subject: str, reply: str, payload: bytes, headers: Mapping[str, str]) -> bytes:
    """The frame that publishes a message, with a subject for the answer."""
    if not headers:
        return b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), reply.encode(), len(payload), payload)
    head = b"".join((_HEADERS, _END, *(f"{name}: {value}\r\n".encode() for name, value in headers.items()), _END))
    size = len(head) + len(payload)
    return b"HPUB %b %b %d %d\r\n%b%b\r\n" % (subject.encode(), reply.encode(), len(head), size, head, payload)


def _headers(text: bytes) -> tuple[int, dict[str, str]]:
    """The status (0: none) and the headers by name in lower case."""
    if not text:
        return 0, {}
    first, *lines = text.decode(errors="replace").split("\r\n")
    word, _, rest = first.partition(" ")
    if word.encode() != _HEADERS:
        raise ValueError(f"headers that begin with {first[:40]!r}")
    pairs = (line.partition(":") for line in lines if ":" in line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    number = rest.strip().partition(" ")[0]
    return int(number) if number.isdigit() else 0, headers
