"""`make bench`: every figure of docs/reference/benchmarks.md, measured one after the other, and written there.

Medians; the machine's load stands beside them. `python -m bench NAME...` measures some modules only and renews
their rows.
"""

import importlib
import os
import sys

from bench.document import machine_line, read_section, write_section
from bench.figure import Figure

HEAD = ("| figure | measured | wanted | how |", "| --- | --- | --- | --- |")
MODULES = (
    "interpreter",
    "memory",
    "checkers",
    "facts",
    "transactions",
    "formats",
    "lab",
    "links",
    "clocks",
    "faults",
    "container_links",
    "etcd",
    "zookeeper",
    "starts",
    "tracing",
    "kraft",
    "toxiproxy",
    "containers",
    "containers_kafka",
    "spark",
    "spark_checks",
    "spark_transactions",
    "pipeline",
)


def main(chosen: list[str]) -> int:
    machine = machine_line()
    rows: dict[str, str] = {}
    for name in chosen or MODULES:
        print(f"{name}: load {os.getloadavg()[0]:.1f}", flush=True)
        figures: list[Figure] = importlib.import_module(f"bench.{name}").run()
        for figure in figures:
            print(
                f"  {figure.name}: {figure.value:.4g} {figure.unit} (wanted {figure.target}) {figure.note}", flush=True
            )
            rows[figure.name] = (
                f"| {figure.name} | {figure.value:.4g} {figure.unit} | {figure.target} | {figure.note} |"
            )
    if chosen:
        renewed = [rows.pop(_name(line), line) for line in read_section("bench")]
        write_section("bench", [*renewed, *rows.values()])
    else:
        write_section("bench", [machine, "", *HEAD, *rows.values()])
    return 0


def _name(line: str) -> str:
    return line.removeprefix("| ").partition(" | ")[0]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
