"""The runtimes that fulfil one suite, and what honestly differs between them: each difference with its reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fencepost.harness.runtime.provider import Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One way to run a cluster. `published`: container addresses are taken as out of reach from this machine."""

    placement: Placement
    published: bool = False

    @property
    def needs_engine(self) -> bool:
        return self.placement.runtime == "containers"


KINDS: Final[Mapping[str, Kind]] = {
    "lab": Kind(placement=Placement()),
    "containers": Kind(placement=Placement(runtime="containers")),
    "published": Kind(placement=Placement(runtime="containers"), published=True),
    "streams": Kind(placement=Placement(runtime="containers", streams=True)),
}


@dataclass(frozen=True, slots=True)
class Difference:
    """Where runtimes differ: what is expected of most, and of the others for a reason."""

    usual: object
    others: Mapping[str, object]
    reason: str

    def expected(self, kind: str) -> object:
        return self.others.get(kind, self.usual)


DIAL_OF_A_DEAD_NODE: Final = Difference(
    "refused",
    {"published": "ended", "streams": "ended"},
    "the address outlives the server, and its kernel refuses; a published port and a proxy accept first, and then find "
    "nobody",
)
HAS_STREAMS: Final = Difference(
    False, {"streams": True}, "packet rules do not see the bytes of a stream; only a proxy can hold them up"
)
