"""Streams that cannot fail: a slow reader gets everything, and nothing follows what was lost."""

import errno
import os
import threading
from typing import Final

import pytest

from fencepost.harness.base.streams import _Unfailing

_TEXT: Final = bytes(range(256)) * 4096


@pytest.mark.parametrize("blocking", [True, False])
def test_a_slow_reader_gets_everything(blocking: bool) -> None:
    """Another process that shares a terminal or a pipe may make it non-blocking; then Python's own streams raise."""
    reader, writer = os.pipe()
    os.set_blocking(writer, blocking)
    came = bytearray()

    def read() -> None:
        while part := os.read(reader, 1000):
            came.extend(part)

    thread = threading.Thread(target=read)
    thread.start()
    stream = _Unfailing(writer)
    assert stream.write(_TEXT) == len(_TEXT)
    os.close(writer)
    thread.join()
    os.close(reader)
    assert (bytes(came) == _TEXT, stream.failure) == (True, None)


def test_a_reader_that_goes_away_costs_nothing() -> None:
    reader, writer = os.pipe()
    stream = _Unfailing(writer)
    stream.write(b"read")
    os.close(reader)
    assert (stream.write(b"unread"), stream.write(b"unread")) == (6, 6)
    assert stream.failure is not None
    assert stream.failure.errno == errno.EPIPE
    os.close(writer)


@pytest.mark.parametrize(("path", "number"), [("/dev/full", errno.ENOSPC), ("closed", errno.EBADF)])
def test_nothing_follows_what_was_lost(path: str, number: int) -> None:
    """A text with a hole would mislead more than one that ends."""
    reader, writer = os.pipe()
    descriptor = os.open(os.devnull if path == "closed" else path, os.O_RDONLY if path == "closed" else os.O_WRONLY)
    stream = _Unfailing(descriptor)
    assert stream.write(b"lost") == 4
    assert stream.failure is not None
    assert stream.failure.errno == number
    os.dup2(writer, descriptor)
    os.close(writer)
    assert stream.write(b"later") == 5
    os.close(descriptor)
    assert os.read(reader, 10) == b""
    os.close(reader)
