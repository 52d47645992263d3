"""One node's Toxiproxy server: its proxies, the toxics that it is to hold, and its refusals.

The calls go through the public interface of the client library (`toxiproxy-python`), as far as it reaches: its class of
requests, one subclass for each server, since it keeps host and port in the class. What it leaves open is said with each
call: time-outs, redirects, proxies of the environment, what ~/.netrc has for the host. It raises for the statuses 400,
404 and 409 only; every other one of 300 and above is a `HarnessError` too, with the server's words.

The server accepts attributes that it does not know, and does nothing; so what it holds is read back and compared.
Adding a toxic waits for connections whose receiver does not read (a paused node with full buffers): every call may be
slow, so every call has a deadline, and none is made on the event loop.

Sources: Shopify/toxiproxy v2.12.0, README, api.go, toxic_collection.go, link.go; douglas/toxiproxy-python 0.1.1.
"""

import threading
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.containers.toxiproxy.wiring import ProxySpec
from fencepost.harness.runtime.network import Toxic

if TYPE_CHECKING:
    import requests

#: The time limit of a request, which normally takes a millisecond.
_REQUEST_TIMEOUT_S: Final = 5.0
_ATTEMPT_S: Final = 0.01


class HeldToxic(NamedTuple):
    """Where a toxic is, and its name, which is unique in its proxy."""

    proxy: str
    stream: str
    name: str


class ToxiproxyServer:
    """All methods block."""

    def __init__(self, host: str, port: int, *, timeout_s: float = _REQUEST_TIMEOUT_S) -> None:
        # Here and below, so that runtimes can be listed where the library is not installed.
        from toxiproxy.api import APIConsumer

        self.address: Final = (host, port)
        self._requests: type[APIConsumer] = type("_Requests", (APIConsumer,), {"host": host, "port": port})
        self._timeout_s = timeout_s
        #: A change goes on when its caller was cancelled; the next one waits for its end.
        self._changing = threading.Lock()

    def await_ready(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self._ask("get", "/version")
                return
            except HarnessError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_ATTEMPT_S)

    def make(self, proxies: Iterable[ProxySpec]) -> None:
        """Make all proxies in one request, which takes attributes of each."""
        wanted = [{**spec._asdict(), "enabled": True} for spec in proxies]
        made = {proxy["name"]: proxy for proxy in self._ask("post", "/populate", json=wanted)["proxies"]}
        for proxy in wanted:
            actual = made.get(proxy["name"], {})
            if any(actual.get(name) != value for name, value in proxy.items()):
                raise HarnessError(f"Toxiproxy was asked for the proxy {proxy}, but made {actual or 'nothing'}")

    def held(self) -> dict[HeldToxic, Toxic]:
        """Return every toxic in force, as the server reports it now."""
        return {
            HeldToxic(name, toxic["stream"], toxic["name"]): Toxic(
                kind=toxic["type"], attributes=toxic["attributes"], toxicity=float(toxic["toxicity"])
            )
            for name, proxy in self._ask("get", "/proxies").items()
            for toxic in proxy["toxics"]
        }

    def hold(self, wanted: Mapping[HeldToxic, Toxic]) -> None:
        """Make the server hold exactly these toxics, and read them back."""
        with self._changing:
            present = self.held()
            for where in present.keys() - wanted.keys():
                self._ask("delete", f"/proxies/{where.proxy}/toxics/{where.name}")
            for where, toxic in wanted.items():
                if where not in present:
                    fields: dict[str, Any] = {"name": where.name, "type": toxic.kind, "stream": where.stream}
                    fields |= {"toxicity": toxic.toxicity, "attributes": dict(toxic.attributes)}
                    self._ask("post", f"/proxies/{where.proxy}/toxics", json=fields)
            present = self.held()
        if present.keys() != wanted.keys() or not all(is_same(wanted[where], present[where]) for where in wanted):
            raise HarnessError(f"Toxiproxy was asked for {_text(wanted)}, but holds {_text(present)}")

    def _ask(self, method: str, path: str, **body: Any) -> Any:
        """Carry out one request; return the JSON of the answer, None of an empty one. Raises HarnessError."""
        import requests
        from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists

        # The library's exceptions, with the status that each means.
        statuses = {InvalidToxic: 400, NotFound: 404, ProxyExists: 409}
        what = f"{method.upper()} http://{self.address[0]}:{self.address[1]}{path}"
        try:
            answer = getattr(self._requests, method)(
                path,
                timeout=self._timeout_s,
                allow_redirects=False,
                proxies={"no_proxy": self.address[0]},
                auth=_without_credentials,
                **body,
            )
        except (InvalidToxic, NotFound, ProxyExists) as error:
            raise _refused(what, statuses[type(error)], *error.args) from None
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


def is_same(wanted: Toxic, present: Toxic) -> bool:
    """Compare a toxic with what the server lists, which includes attributes that were not given."""
    return (wanted.kind, wanted.toxicity) == (present.kind, present.toxicity) and (
        wanted.attributes.items() <= present.attributes.items()
    )


def _without_credentials(request: "requests.PreparedRequest") -> "requests.PreparedRequest":
    return request


def _refused(what: str, status: int, content: bytes) -> HarnessError:
    return HarnessError(f"Toxiproxy refused {what}: {status} {content.decode(errors='replace').strip()[:300]}")


def _text(toxics: Mapping[HeldToxic, Toxic]) -> str:
    texts = [
        f"{held.proxy} {held.stream} {toxic.kind} {dict(toxic.attributes)}" for held, toxic in sorted(toxics.items())
    ]
    return ", ".join(texts) or "nothing"
