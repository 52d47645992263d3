"""How soon a cluster of Consul, NATS or Cassandra takes its first write."""

import os
import statistics
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from bench.figure import Figure
from tests.lab_scenario import run_scenario

_INSIDE: Final = "bench.starts_inside"


class _Start(msgspec.Struct, frozen=True, kw_only=True):
    """What starts, by release ("" for the default one), and what was wanted."""

    name: str
    system: str
    target: str
    version: str = ""
    options: Mapping[str, Any] = {}
    repeats: int = 5


_STARTS: Final = (
    _Start(name="Consul", system="consul", target="at most 2.5 s"),
    _Start(name="NATS", system="nats", target="at most 1.3 s"),
    _Start(name="Cassandra", system="cassandra", target="at most 15 s", repeats=3),
    _Start(
        name="Cassandra with Accord",
        system="cassandra",
        version="6.0-alpha2",
        options={"transactions": "accord"},
        target="at most 30 s",
        repeats=3,
    ),
)


def run() -> list[Figure]:
    return [_figure(start) for start in _STARTS]


def _figure(start: _Start) -> Figure:
    args = {"system": start.system, "version": start.version, "options": dict(start.options)}
    starts = [run_scenario(f"{_INSIDE}:first_write", args, timeout_s=180) for _ in range(start.repeats)]
    seconds = sorted(each["s"] for each in starts)
    archived = ", with the start-up archive" if starts[0]["archive"] else ""
    return Figure(
        f"{start.name} from exec to the first acknowledged write",
        statistics.median(seconds),
        "s",
        start.target,
        f"{starts[0]['version']}, three nodes, lab{archived};"
        f" {seconds[0]:.2f} to {seconds[-1]:.2f} s in {start.repeats}; load {os.getloadavg()[0]:.1f}",
    )
