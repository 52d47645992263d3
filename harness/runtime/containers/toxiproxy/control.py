"""Control of one Toxiproxy server: its proxies, their toxics, and its refusals.

The calls go through the client library (`toxiproxy-python`), as far as its public interface reaches. What it leaves
open is given with each call, since it hands arguments on to `requests`, or looked at afterwards:
  - It keeps host and port in a class, so a process can speak with one server only: a second `Control` is refused.
  - Its requests have no time-outs, follow redirects, go through a proxy of the environment (`http_proxy`) and carry
    what ~/.netrc has for the host: each call says otherwise.
  - It knows the statuses 400, 404 and 409 only and takes any other for success. Every status of 300 and above is a
    `HarnessError` with the server's words, as is a server that is dead or slow.
  - `create` asks for all proxies first and `populate` calls it for each; `add_toxic` throws the server's answer away,
    and `proxies` the toxics. So proxies are made by one POST /populate, and the answers are kept and compared.
It opens a connection for each request.
The server has a trap of its own: it accepts attributes that it does not know, and does nothing. So a toxic is checked
against the table below before it is sent, and what the server says it holds is compared with what was asked.

Its lock is held while a toxic is added, and adding waits for connections whose receiver does not read (a paused node
with full buffers): every call may be slow, so every call has a deadline, and none is made on the event loop.

Sources: Shopify/toxiproxy v2.12.0, README, api.go, toxic_collection.go, link.go; douglas/toxiproxy-python 0.1.1.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

import requests
import toxiproxy
from toxiproxy.api import APIConsumer
from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists
from toxiproxy.toxic import Toxic as LibraryToxic

from fencepost.harness.base.errors import HarnessError, Refusal
from fencepost.harness.runtime.network import Toxic

P = ParamSpec("P")
R = TypeVar("R")


class Attribute(NamedTuple):
    """One attribute of a kind of toxic: its unit, whether it is required, and the least useful value."""

    unit: str
    required: bool = True
    least: int = 0


#: Every kind of toxic that the server has, and its attributes (README of the server, section "Toxics").
TOXICS: Final[Mapping[str, Mapping[str, Attribute]]] = {
    "latency": {"latency": Attribute("ms"), "jitter": Attribute("ms", required=False)},
    # A rate of 0 would mean no limit.
    "bandwidth": {"rate": Attribute("KB/s", least=1)},
    "slow_close": {"delay": Attribute("ms")},
    # A time-out of 0 never closes the connection: it swallows all bytes until the toxic is removed.
    "timeout": {"timeout": Attribute("ms")},
    "reset_peer": {"timeout": Attribute("ms")},
    "slicer": {
        "average_size": Attribute("bytes", least=1),
        "size_variation": Attribute("bytes", required=False),
        "delay": Attribute("us", required=False),
    },
    "limit_data": {"bytes": Attribute("bytes")},
}

UPSTREAM: Final = "upstream"
DOWNSTREAM: Final = "downstream"

#: The most simultaneous requests: more would only wait for each other, here and in the server.
_PARALLEL: Final = 2
#: The library's exceptions, with the status that each means.
_STATUSES: Final = {InvalidToxic: 400, NotFound: 404, ProxyExists: 409}


class ProxySpec(NamedTuple):
    """One proxy to make: where it listens and where it connects to, as "host:port"."""

    name: str
    listen: str
    upstream: str


class Wire(NamedTuple):
    """One direction of one proxy: `upstream` carries what the dialling side sends, `downstream` what comes back."""

    proxy: str
    stream: str


class Held(NamedTuple):
    """The position of a toxic, and its name, which is unique in its proxy."""

    wire: Wire
    name: str


def refuse(toxic: Toxic) -> Refusal | None:
    """Return why the server would misunderstand this toxic; None if it would understand it."""
    known = TOXICS.get(toxic.kind)
    if known is None:
        return Refusal(f"there is no toxic {toxic.kind!r}", f"choose from: {', '.join(TOXICS)}")
    for name, value in toxic.attributes.items():
        if name not in known:
            return Refusal(f"{toxic.kind} has no attribute {name!r}", f"it has: {', '.join(known)}")
        if value < known[name].least:
            return Refusal(f"{toxic.kind}: {name} must be at least {known[name].least} {known[name].unit}, not {value}")
    missing = [name for name, attribute in known.items() if attribute.required and name not in toxic.attributes]
    if missing:
        return Refusal(f"{toxic.kind} needs {', '.join(f'{name} ({known[name].unit})' for name in missing)}")
    if toxic.attributes.get("size_variation", 0) >= toxic.attributes.get("average_size", 1):
        return Refusal(f"{toxic.kind}: size_variation must be smaller than average_size")
    if not 0.0 < toxic.toxicity <= 1.0:
        return Refusal(f"{toxic.kind}: toxicity must be above 0 and at most 1, not {toxic.toxicity}")
    return None


def complete(toxic: Toxic) -> Toxic:
    """Return the toxic as the server reports it: with every attribute of its kind, 0 for missing ones."""
    attributes = {name: toxic.attributes.get(name, 0) for name in TOXICS[toxic.kind]}
    return Toxic(kind=toxic.kind, attributes=attributes, toxicity=toxic.toxicity)


class Control:
    """The one server of this process. All methods but `run` block: call them through `run`, which keeps their order."""

    _in_use = threading.Lock()

    def __init__(self, host: str, port: int, *, timeout_s: float = 5.0) -> None:
        if not self._in_use.acquire(blocking=False):
            raise HarnessError("this process controls a Toxiproxy server already, and the library knows only one")
        self.address: Final = (host, port)
        self._timeout_s = timeout_s
        self._closed = False
        toxiproxy.Toxiproxy().update_api_consumer(host, port)
        #: One caller at a time, in order, also when it has been cancelled; its requests go out in parallel.
        self._order = ThreadPoolExecutor(1, thread_name_prefix="toxiproxy")
        self._requests = ThreadPoolExecutor(_PARALLEL, thread_name_prefix="toxiproxy-request")

    async def run(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Do blocking work off the event loop. After a cancellation the work still ends before the next begins."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._order, lambda: work(*args, **kwargs))

    def await_ready(self, timeout_s: float) -> str:
        """Ask for the version until the server answers; returns it."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return self.version()
            except HarnessError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def version(self) -> str:
        """The version that the server reports ("git" if it was built without one)."""
        # The library's own `version` is None for a dead server, which hides the reason.
        answer = self._ask(APIConsumer.get, "/version")
        return str(answer.get("version", answer)) if isinstance(answer, dict) else str(answer)

    def populate(self, proxies: Iterable[ProxySpec]) -> dict[str, toxiproxy.Proxy]:
        """Make all proxies in one request; those that exist with the same addresses stay."""
        wanted = list(proxies)
        answer = self._ask(APIConsumer.post, "/populate", json=[{**spec._asdict(), "enabled": True} for spec in wanted])
        made = {fields["name"]: toxiproxy.Proxy(**fields) for fields in answer["proxies"]}
        for spec in wanted:
            proxy = made.get(spec.name)
            if proxy is None or not proxy.enabled or (proxy.listen, proxy.upstream) != (spec.listen, spec.upstream):
                made_instead = vars(proxy) if proxy is not None else "nothing"
                raise HarnessError(f"Toxiproxy was asked for the proxy {spec}, but made {made_instead}")
        return made

    def held(self) -> dict[Held, Toxic]:
        """Every toxic in force, as the server reports it now. Raises HarnessError when a proxy is closed."""
        toxics: dict[Held, Toxic] = {}
        for name, fields in self._ask(APIConsumer.get, "/proxies").items():
            if not fields["enabled"]:
                raise HarnessError(f"the proxy {name} is closed, although fencepost did not close it")
            for attributes in fields["toxics"]:
                toxics[Held(Wire(name, attributes["stream"]), attributes["name"])] = _toxic(attributes)
        return toxics

    def change(self, removed: Iterable[Held], added: Mapping[Held, Toxic]) -> None:
        """Remove toxics, then add others, several requests at a time; not atomic. Raises the first failure."""
        self._all(self._remove, [(held,) for held in removed])
        self._all(self._add, list(added.items()))

    def reset(self) -> None:
        """Remove every toxic of every proxy in one request."""
        self._ask(APIConsumer.post, "/reset")

    def close(self) -> None:
        """Allow another `Control`. Idempotent; waits for running requests, which have deadlines."""
        if self._closed:
            return
        self._closed = True
        self._order.shutdown(wait=True, cancel_futures=True)
        self._requests.shutdown(wait=True, cancel_futures=True)
        self._in_use.release()

    def _all(self, work: Callable[..., None], arguments: list[tuple[Any, ...]]) -> None:
        # All requests end before the first failure is raised, so that the state in force is settled then.
        failures = [f.exception() for f in [self._requests.submit(work, *args) for args in arguments]]
        for failure in failures:
            if failure is not None:
                raise failure

    def _add(self, held: Held, toxic: Toxic) -> None:
        why = refuse(toxic)
        if why is not None:
            raise HarnessError(why.reason, hint=why.remedy)
        fields = {
            "name": held.name,
            "type": toxic.kind,
            "stream": held.wire.stream,
            "toxicity": toxic.toxicity,
            "attributes": dict(toxic.attributes),
        }
        answer = self._ask(APIConsumer.post, f"/proxies/{held.wire.proxy}/toxics", json=fields)
        if (answer["name"], answer["stream"], _toxic(answer)) != (held.name, held.wire.stream, complete(toxic)):
            raise HarnessError(f"Toxiproxy was asked for {fields} on {held.wire.proxy}, but answered {answer}")

    def _remove(self, held: Held) -> None:
        self._ask(APIConsumer.delete, f"/proxies/{held.wire.proxy}/toxics/{held.name}")

    def _ask(self, method: Callable[..., requests.Response], path: str, **body: Any) -> Any:
        """Carry out one request; returns the JSON of the answer, None of an empty one. Raises HarnessError."""
        what = f"{method.__name__.upper()} http://{self.address[0]}:{self.address[1]}{path}"
        try:
            answer = method(
                path,
                timeout=self._timeout_s,
                allow_redirects=False,
                proxies={"no_proxy": self.address[0]},
                auth=_without_credentials,
                **body,
            )
        except (InvalidToxic, NotFound, ProxyExists) as error:
            raise _refused(what, _STATUSES[type(error)], *error.args) from None
        except requests.Timeout:
            raise HarnessError(f"Toxiproxy did not answer {what} within {self._timeout_s:g} s") from None
        except requests.RequestException as error:
            raise HarnessError(f"Toxiproxy cannot be reached: {what}: {error!r}") from None
        if answer.status_code >= 300:
            raise _refused(what, answer.status_code, answer.content)
        try:
            return answer.json() if answer.content else None
        except requests.JSONDecodeError:
            raise HarnessError(f"Toxiproxy answered something that is not JSON: {answer.content[:300]!r}") from None


def _without_credentials(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def _refused(what: str, status: int, content: bytes) -> HarnessError:
    return HarnessError(f"Toxiproxy refused {what}: {status} {content.decode(errors='replace').strip()[:300]}")


def _toxic(attributes: Mapping[str, Any]) -> Toxic:
    held = LibraryToxic(**attributes)
    return Toxic(kind=held.type, attributes=dict(held.attributes), toxicity=float(held.toxicity))
