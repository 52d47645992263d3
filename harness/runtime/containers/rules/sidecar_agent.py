"""What runs in a side-car: sets the packet rules of its network namespace, sends and receives the probes there.

It speaks lines of JSON over its stdin and stdout. The harness asks {"id": 7, "do": "set", ...} and gets {"id": 7, ...}
back, with "error" in it when it could not be done; in between come lines without an id, one for every probe that
arrived ({"open": tag, "from": [address, port]}) or was refused ({"reset": tag}). Tags and the keys of the map are
written in hexadecimal digits.

    open      version, address, port, listen   rules with an empty map; the probe socket; a listener on the same port
    set       state                            the whole map, {key: effect}, in one transaction
    read      -                                -> state, as the kernel tells it
    send      probes                           [tag, address, port] each
    drain     -                                everything that arrived before is told before the answer
    clients   -                                -> the source addresses of the connections that the listener took

It ends when its stdin does, so that no namespace outlives the harness. Nothing but the standard library is needed.
"""

import json
import os
import selectors
import socket
import sys
from collections.abc import Callable
from typing import Any, Final

from fencepost.harness.runtime.links.packet_rules import LinkMap, Where
from fencepost.harness.runtime.links.probe_socket import ProbeSocket, Seen
from fencepost.harness.runtime.network import Effect, Reach

VERSION: Final = 1
#: Sent to everybody who connects to the listener: proof that both directions of a connection work.
GREETING: Final = b"fencepost\n"
_READ_BYTES: Final = 1 << 16
#: Pending connections of the listener.
_BACKLOG: Final = 64

Answer = dict[str, Any]


class Agent:
    """The rules and the probe socket of one network namespace, told what to do by messages."""

    def __init__(self, write: Callable[[Answer], None]) -> None:
        self._write = write
        self._selector = selectors.DefaultSelector()
        self._map: LinkMap | None = None
        self._probes: ProbeSocket | None = None
        self._clients: list[str] = []
        self._unread = b""
        self._do: dict[str, Callable[[Answer], Answer]] = {
            "open": self._open,
            "set": self._set,
            "read": self._read,
            "send": self._send,
            "drain": self._drain,
            "clients": lambda _: {"clients": self._clients},
        }

    def run(self, commands: int) -> None:
        """Do what the file descriptor `commands` says until it ends."""
        self._selector.register(commands, selectors.EVENT_READ, None)
        while True:
            # Without a time-out: there is nothing to do but what comes in, and the end of `commands` comes in too.
            for key, _ in self._selector.select():
                if key.data is not None:
                    key.data()
                elif not self._take(os.read(commands, _READ_BYTES)):
                    return

    def _take(self, data: bytes) -> bool:
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._write(self.answer(json.loads(line)))
        return bool(data)

    def answer(self, asked: Answer) -> Answer:
        try:
            return {"id": asked["id"], **self._do[asked["do"]](asked)}
        except (OSError, RuntimeError) as error:
            return {"id": asked["id"], "error": str(error)}
        except (LookupError, ValueError, TypeError) as error:
            return {"id": asked["id"], "error": f"not understood: {error!r}"}

    def _open(self, asked: Answer) -> Answer:
        if asked["version"] != VERSION:
            raise RuntimeError(f"the side-car's image speaks version {VERSION}, the harness {asked['version']}")
        self._map = LinkMap(Where.NODE, {})
        self._probes = ProbeSocket(asked["address"], asked["port"])
        self._selector.register(self._probes.fileno(), selectors.EVENT_READ, self._tell_probes)
        if asked["listen"]:
            listener = socket.create_server((asked["address"], asked["port"]), backlog=_BACKLOG)
            listener.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ, lambda: self._greet(listener))
        return {"version": VERSION, "python": sys.version.split()[0]}

    def _set(self, asked: Answer) -> Answer:
        self._opened_map().replace({bytes.fromhex(key): Effect(effect) for key, effect in asked["state"].items()})
        return {}

    def _read(self, _: Answer) -> Answer:
        return {"state": {key.hex(): effect for key, effect in self._opened_map().read().items()}}

    def _send(self, asked: Answer) -> Answer:
        for tag, address, port in asked["probes"]:
            self._opened_probes().send(bytes.fromhex(tag), (address, port))
        if self._opened_probes().has_met_refusals:
            self._tell_probes()
        return {}

    def _drain(self, _: Answer) -> Answer:
        self._tell_probes()
        return {}

    def _opened_map(self) -> LinkMap:
        if self._map is None:
            raise RuntimeError('"open" comes first')
        return self._map

    def _opened_probes(self) -> ProbeSocket:
        if self._probes is None:
            raise RuntimeError('"open" comes first')
        return self._probes

    def _tell_probes(self) -> None:
        for seen in self._opened_probes().receive():
            self._write(_told(seen))

    def _greet(self, listener: socket.socket) -> None:
        try:
            connection, (address, _) = listener.accept()
        except OSError:
            return  # it was given up before we came
        with connection:
            if address not in self._clients:
                self._clients.append(address)
            connection.setblocking(False)
            try:
                connection.send(GREETING)
            except OSError:
                return  # it was reset: that is what its other end wants to find out


def _told(seen: Seen) -> Answer:
    if seen.reach is Reach.OPEN:
        return {"open": seen.tag.hex(), "from": seen.source}
    return {"reset": seen.tag.hex()}


def main() -> None:
    # One write for a line: an engine makes one frame of each.
    def write(answer: Answer) -> None:
        line = json.dumps(answer, separators=(",", ":")).encode() + b"\n"
        while line:
            line = line[os.write(1, line) :]

    try:
        Agent(write).run(0)
    except (BrokenPipeError, ConnectionResetError):
        # Nobody is there to be told: the second where its streams are a socket, closed while words of ours lay unread.
        sys.exit(0)


if __name__ == "__main__":
    main()
