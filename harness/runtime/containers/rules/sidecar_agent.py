"""The agent in a side-car: sets the packet rules of its network namespace, sends and receives probes, shapes links.

Its messages are lines of JSON over stdin and stdout. The harness asks {"id": 7, "do": "set", ...} and gets {"id": 7,
...} back, with "error" in it if the request failed. In between come lines without an id, one for every probe that
arrived ({"open": tag, "from": [address, port]}) or was refused ({"reset": tag}). Tags and the keys of the map are
written in hexadecimal digits.

    open      version, address, port, listen   rules with an empty map; the probe socket; a listener on the same port
    set       state                            the whole map, {key: effect}, in one transaction
    read      -                                -> state, read from the kernel
    send      probes                           [tag, address, port] each
    drain     -                                reports everything that arrived so far, then answers
    clients   -                                -> the source addresses of the connections that the listener accepted
    idle      call, arguments                  -> result of that method of `links.idle_end.IdleEnd`
    redirect  rules                            leads connections through proxies; see `links.redirects.redirect`
    pass_on   to, order                        to a process that shapes or measures links, started now if need be

The agent ends with its stdin, so that no namespace outlives the harness. It needs only the standard library.
"""

import functools
import json
import os
import selectors
import socket
import sys
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from fencepost.harness.runtime.links.idle_end import IdleEnd
from fencepost.harness.runtime.links.packet_rules import LinkMap, Where
from fencepost.harness.runtime.links.probe_socket import ProbeSocket, SeenProbe
from fencepost.harness.runtime.links.redirects import redirect
from fencepost.harness.runtime.linux.companion_start import start
from fencepost.harness.runtime.network import Effect, Reach

VERSION: Final = 2
#: The greeting for every connection to the listener: it proves that both directions of a connection work.
GREETING: Final = b"fencepost\n"
_READ_BYTES: Final = 1 << 16
_ANSWER_BYTES: Final = 1 << 20
#: The most pending connections of the listener.
_BACKLOG: Final = 64

Answer = dict[str, Any]


class Helper:
    """A process of this side-car that holds or measures packets; it answers orders in their order."""

    def __init__(self, module: str) -> None:
        self.process, self.socket = start(module)
        self.waiting: deque[int] = deque()
        self.has_ended = False


class Agent:
    """The rules and the probe socket of one network namespace, controlled by messages."""

    def __init__(self, write: Callable[[Answer], None]) -> None:
        self._write = write
        self._selector = selectors.DefaultSelector()
        self._map: LinkMap | None = None
        self._probes: ProbeSocket | None = None
        self._clients: list[str] = []
        self._idle = IdleEnd()
        self._helpers: dict[str, Helper] = {}
        self._unread = b""
        self._do: dict[str, Callable[[Answer], Answer | None]] = {
            "open": self._open,
            "set": self._set,
            "read": self._read,
            "send": self._send,
            "drain": self._drain,
            "clients": lambda _: {"clients": self._clients},
            "idle": lambda request: {"result": getattr(self._idle, request["call"])(*request["arguments"])},
            "pass_on": self._pass_on,
            "redirect": self._redirect,
        }

    def run(self, commands: int) -> None:
        """Carry out the requests from the file descriptor `commands` until it ends."""
        self._selector.register(commands, selectors.EVENT_READ, None)
        while True:
            # No time-out is needed: all work comes from input, and so does the end of `commands`.
            for key, _ in self._selector.select():
                if key.data is not None:
                    key.data()
                elif not self._take(os.read(commands, _READ_BYTES)):
                    return

    def _take(self, data: bytes) -> bool:
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            answer = self.answer(json.loads(line))
            if answer is not None:
                self._write(answer)
        return bool(data)

    def answer(self, request: Answer) -> Answer | None:
        """Carry out a request; return None when a helper answers it later."""
        try:
            fields = self._do[request["do"]](request)
            return None if fields is None else {"id": request["id"], **fields}
        except (OSError, RuntimeError) as error:
            return {"id": request["id"], "error": str(error)}
        except (LookupError, ValueError, TypeError) as error:
            return {"id": request["id"], "error": f"not understood: {error!r}"}

    def _open(self, request: Answer) -> Answer:
        if request["version"] != VERSION:
            raise RuntimeError(f"the side-car's image has version {VERSION}, the harness {request['version']}")
        self._map = LinkMap(Where.NODE, {})
        self._probes = ProbeSocket(request["address"], request["port"])
        self._selector.register(self._probes.fileno(), selectors.EVENT_READ, self._tell_probes)
        if request["listen"]:
            listener = socket.create_server((request["address"], request["port"]), backlog=_BACKLOG)
            listener.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ, lambda: self._greet(listener))
        return {"version": VERSION, "python": sys.version.split()[0]}

    def _set(self, request: Answer) -> Answer:
        self._opened_map().replace({bytes.fromhex(key): Effect(effect) for key, effect in request["state"].items()})
        return {}

    def _read(self, _: Answer) -> Answer:
        return {"state": {key.hex(): effect for key, effect in self._opened_map().read().items()}}

    def _send(self, request: Answer) -> Answer:
        for tag, address, port in request["probes"]:
            self._opened_probes().send(bytes.fromhex(tag), (address, port))
        if self._opened_probes().has_met_refusals:
            self._tell_probes()
        return {}

    def _drain(self, _: Answer) -> Answer:
        self._tell_probes()
        return {}

    def _pass_on(self, request: Answer) -> None:
        module = request["to"]
        helper = self._helpers.get(module)
        if helper is None:
            helper = self._helpers[module] = Helper(module)
            heard = functools.partial(self._hear, module, helper)
            self._selector.register(helper.socket, selectors.EVENT_READ, heard)
        if helper.has_ended:
            del self._helpers[module]
            raise RuntimeError(_ended(module))
        helper.waiting.append(request["id"])
        try:
            helper.socket.send(json.dumps(request["order"], separators=(",", ":")).encode())
        except BrokenPipeError:
            return  # its end is heard next, which answers

    def _hear(self, module: str, helper: Helper) -> None:
        """Pass on an answer of the helper. When it has ended, one request is told so before another one is started."""
        try:
            data = helper.socket.recv(_ANSWER_BYTES)
        except ConnectionResetError:
            data = b""  # it ended with an order unread
        if data:
            self._write({"id": helper.waiting.popleft(), **json.loads(data)})
            return
        self._selector.unregister(helper.socket)
        helper.socket.close()
        helper.process.wait()
        helper.has_ended = True
        if helper.waiting:
            del self._helpers[module]
        for number in helper.waiting:
            self._write({"id": number, "error": _ended(module)})

    def _redirect(self, request: Answer) -> Answer:
        redirect(**request["rules"])
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
            self._write(_as_message(seen))

    def _greet(self, listener: socket.socket) -> None:
        try:
            connection, (address, _) = listener.accept()
        except OSError:
            return  # the other end gave up before the accept
        with connection:
            if address not in self._clients:
                self._clients.append(address)
            connection.setblocking(False)
            try:
                connection.send(GREETING)
            except OSError:
                return  # a reset, which is exactly what its other end wants to detect


def _ended(module: str) -> str:
    return f"{module.rpartition('.')[2]}, a process of the side-car, has ended"


def _as_message(seen: SeenProbe) -> Answer:
    if seen.reach is Reach.OPEN:
        return {"open": seen.tag.hex(), "from": seen.source}
    return {"reset": seen.tag.hex()}


def main() -> None:
    # Write each line at once: an engine makes one frame of each write.
    def write(answer: Answer) -> None:
        line = json.dumps(answer, separators=(",", ":")).encode() + b"\n"
        while line:
            line = line[os.write(1, line) :]

    try:
        Agent(write).run(0)
    except (BrokenPipeError, ConnectionResetError):
        # The harness is gone. The second error comes if the streams are a socket that was closed with unread output.
        sys.exit(0)


if __name__ == "__main__":
    main()
