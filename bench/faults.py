"""How long every fault takes to be injected and to be healed, each from the call to its proof, on 3 and on 5 nodes.

Writes a table of its own in docs/reference/benchmarks.md. Kinds come from the registry; one that is not named here
takes part as it is by default. Each kind has a cluster of its own, so that none meets what another one left to the
servers.
"""

import os
import statistics
from typing import Any, Final

from bench.document import machine_line, write_section
from bench.figure import Figure
from fencepost.harness.plugins import registry
from tests.lab_scenario import run_scenario

_INSIDE: Final = "bench.faults_inside:times"
_SYSTEM: Final = "etcd"
_NODES: Final = (3, 5)
_TIMEOUT_S: Final = 400.0
#: What tells kinds apart; durations that are a part of the injection stand in the name.
VARIANTS: Final[dict[str, tuple[str, ...]]] = {
    "clock-skew": (
        "clock-skew:one:offset=2m",
        "clock-skew:one:rate=1.05",
        "clock-skew:one:strobe=2m:period=20ms:length=5s",
        "clock-skew:all:offset=2m",
    ),
    "damage": ("damage:one:kind=flip:files=*.wal",),
    "disk": ("disk:one:kind=slow", "disk:one:kind=failing", "disk:one:kind=full"),
    "kill": ("kill:one", "kill:all"),
    "link": (
        "link:leader:latency=50ms",
        "link:leader:loss=10%",
        "link:leader:rate=64KB/s",
        "link:leader:reset=yes",
        "link:all:latency=50ms",
    ),
    "lost-write": ("lost-write:one:hold=200ms",),
    "partition": (
        "partition:leader",
        "partition:leader:direction=out",
        "partition:majority",
        "partition:one:links=client",
        "partition:ring",
        "partition:bridge",
    ),
    "pause": ("pause:one", "pause:all", "pause:client"),
    "power-loss": ("power-loss:one:track=500ms", "power-loss:all:track=500ms"),
}
#: These act in a proxy.
_BY_PROXY: Final = tuple(f"toxic:one:kind={kind}" for kind in ("latency", "bandwidth", "reset", "black-hole"))
HEAD: Final = (
    "| fault | nodes | inject, ms | of it the act | heal, ms | of it the act | proven |",
    "| --- | --- | --- | --- | --- | --- | --- |",
)


def run(repeats: int = 7) -> list[Figure]:
    """Write a table of its own after each kind of fault; return no figures for the common table."""
    began = machine_line()
    lines: list[str] = []
    left_out: dict[str, str] = {}
    for name in registry.NEMESES:
        met = _by_proxy(repeats, left_out) if name == "toxic" else _in_the_lab(name, repeats, left_out)
        print("\n".join(met), flush=True)
        lines += met
        write_section("faults", _section(began, lines, left_out, repeats))
    return []


def _in_the_lab(name: str, repeats: int, left_out: dict[str, str]) -> list[str]:
    rows: dict[tuple[str, int], str] = {}
    for nodes in _NODES:
        arguments = {"system": _SYSTEM, "texts": VARIANTS.get(name, (name,)), "repeats": repeats}
        try:
            costs = run_scenario(_INSIDE, arguments, nodes=nodes, timeout_s=_TIMEOUT_S, uvloop=True)
        except AssertionError as error:
            left_out[f"{name}, {nodes} nodes"] = str(error).strip().splitlines()[-1]
            continue
        rows |= {(one["text"], nodes): _row(one, nodes) for one in costs["measured"]}
        left_out |= {f"{text}, {nodes} nodes": why for text, why in costs["left_out"].items()}
    # The same fault on both sizes stands together.
    order = list(dict.fromkeys(text for text, _ in rows))
    return [row for text in order for (of, _), row in rows.items() if of == text]


def _section(began: str, lines: list[str], left_out: dict[str, str], repeats: int) -> list[str]:
    together: dict[str, list[str]] = {}
    for what, why in left_out.items():
        together.setdefault(why, []).append(what)
    absent = [f"- {'; '.join(whats)}: {why}" for why, whats in together.items()]
    return [
        f"{began}, {os.getloadavg()[0]:.2f} at the end; median (largest) of {repeats} each.",
        "",
        *HEAD,
        *lines,
        *(["", "Not measured:", "", *absent] if absent else []),
    ]


def _row(one: dict[str, Any], nodes: int) -> str:
    cells = [
        f"`{one['text']}`",
        str(nodes),
        _times(one["inject_ms"]),
        _act(one["inject_act_ms"]),
        _times(one["heal_ms"]),
        _act(one["heal_act_ms"]),
        f"{one['installed']} and {one['healed']} of {len(one['inject_ms'])}",
    ]
    return f"| {' | '.join(cells)} |"


def _act(found_ms: list[float]) -> str:
    """Return "-" if the part that is timed apart was not called: the fault asks the system, or acts in another way."""
    return f"{statistics.median(found_ms):.2f}" if statistics.median(found_ms) >= 0.005 else "-"


def _times(found_ms: list[float]) -> str:
    return f"{statistics.median(found_ms):.1f} ({max(found_ms):.1f})"


def _by_proxy(repeats: int, left_out: dict[str, str]) -> list[str]:
    from bench.faults_by_proxy import measure
    from bench.toxiproxy import engine_answers

    if not engine_answers():
        left_out["toxic"] = "no container engine answered"
        return []
    return [_row(one, 3) for one in measure(_BY_PROXY, repeats)]
