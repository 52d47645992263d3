"""The runtimes that fulfil one suite, and what honestly differs between them: each difference with its reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fencepost.harness.runtime.network import Reach
from fencepost.harness.runtime.provider import Links, Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One way to run a cluster. `published`: container addresses are taken as out of reach from this machine."""

    placement: Placement
    published: bool = False

    @property
    def needs_engine(self) -> bool:
        return self.placement.runtime == "containers"


def _containers(links: Links) -> Placement:
    return Placement(runtime="containers", links=links)


KINDS: Final[Mapping[str, Kind]] = {
    "lab": Kind(placement=Placement()),
    "rules": Kind(placement=_containers(Links.RULES)),
    "sidecar": Kind(placement=_containers(Links.SIDECAR)),
    "published": Kind(placement=_containers(Links.SIDECAR), published=True),
    "toxiproxy": Kind(placement=_containers(Links.TOXIPROXY)),
}


@dataclass(frozen=True, slots=True)
class Difference:
    """Where runtimes differ: what is expected of most, and of the others for a reason."""

    usual: object
    others: Mapping[str, object]
    reason: str

    def expected(self, kind: str) -> object:
        return self.others.get(kind, self.usual)


LINKS_OF_A_DEAD_NODE: Final = Difference(
    Reach.OPEN,
    {"rules": Reach.DROPPED},
    "a probe is sent and heard in the node's network namespace (at the proxy with Toxiproxy); only with rules set from "
    "this machine does that namespace end with the node's container",
)
DIAL_OF_A_DEAD_NODE: Final = Difference(
    "refused",
    {"rules": "unanswered", "published": "ended", "toxiproxy": "ended or unanswered"},
    "where the address outlives the server its kernel refuses; with rules set from this machine the address is gone "
    "with the container; a published port and a proxy accept first, and then find nobody",
)
DROPPED_CONNECTION_GOES_ON: Final = Difference(
    True,
    {"toxiproxy": False},
    "packets that are dropped are sent again by TCP once the link is healed; a connection through a proxy is ended "
    "when its black hole is removed",
)
HAS_STREAMS: Final = Difference(
    False,
    {"toxiproxy": True},
    "packet rules do not see the bytes of a stream; only a proxy can hold them up",
)
