"""`make bench`: figures that a change could make worse, measured one after the other.

Medians; the machine's load stands beside them. The table goes to results/benchmarks/figures.md.
`python -m bench NAME...` measures only some modules, into a table of their names.
"""

import importlib
import os
import sys

from bench.document import machine_line, write_table
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
    "etcd",
    "starts",
    "pipeline",
    "spark_checks",
    "warehouse",
)


def main(chosen: list[str]) -> int:
    machine = machine_line()
    rows: list[str] = []
    for name in chosen or MODULES:
        print(f"{name}: load {os.getloadavg()[0]:.1f}", flush=True)
        figures: list[Figure] = importlib.import_module(f"bench.{name}").run()
        for figure in figures:
            print(
                f"  {figure.name}: {figure.value:.4g} {figure.unit} (wanted {figure.target}) {figure.note}", flush=True
            )
            rows.append(f"| {figure.name} | {figure.value:.4g} {figure.unit} | {figure.target} | {figure.note} |")
    write_table("-".join(chosen) or "figures", [machine, "", *HEAD, *rows])
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
