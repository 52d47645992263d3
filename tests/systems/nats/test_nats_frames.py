"""Frames of NATS: the same whatever pieces they arrive in, and refused where they are none."""

import pytest

from fencepost.systems.nats.wire.frames import ControlLine, Message, frame_at, publish

BYTES = (
    b'INFO {"server_id":"A"}\r\n'
    b"PING\r\n"
    b"MSG in.1 1 5\r\nhello\r\n"
    b"MSG in.2 1 back 0\r\n\r\n"
    b"HMSG in.3 1 30 30\r\nNATS/1.0 503 No Responders\r\n\r\n\r\n"
    b"HMSG in.4 2 back 31 33\r\nNATS/1.0\r\nNats-Sequence: 12\r\n\r\n\r\n\r\n"
    b"-ERR 'Stale Connection'\r\n"
)
FRAMES = [
    ControlLine("INFO", b'{"server_id":"A"}'),
    ControlLine("PING", b""),
    Message("in.1", 1, {}, b"hello"),
    Message("in.2", 1, {}, b"", 0, "back"),
    Message("in.3", 1, {}, b"", 503),
    Message("in.4", 2, {"nats-sequence": "12"}, b"\r\n", 0, "back"),
    ControlLine("-ERR", b"'Stale Connection'"),
]


def read(received: bytes, at: int = 0) -> tuple[list[Message | ControlLine], int]:
    frames = []
    while (found := frame_at(received, at)) is not None:
        frames.append(found[0])
        at = found[1]
    return frames, at


def test_frames_are_the_same_in_whatever_pieces_they_arrive() -> None:
    for cut in range(len(BYTES) + 1):
        first, at = read(BYTES[:cut])
        assert first + read(BYTES, at)[0] == FRAMES


@pytest.mark.parametrize("wrong", [b"MSG in.1\r\n", b"MSG in.1 1 five\r\n", b"HMSG in.1 1 8 8\r\nHTTP/1.1\r\n"])
def test_what_is_no_frame_is_refused(wrong: bytes) -> None:
    with pytest.raises(ValueError):  # the texts are those of `int` and of this module
        frame_at(wrong, 0)


def test_a_message_says_how_long_its_headers_are() -> None:
    assert publish("a", "b", b"xyz", {}) == b"PUB a b 3\r\nxyz\r\n"
    assert publish("a", "b", b"xyz", {"N": "1"}) == b"HPUB a b 18 21\r\nNATS/1.0\r\nN: 1\r\n\r\nxyz\r\n"
