"""Imports inside functions, by name: each saves every command, or every run's start, the time that stands beside it.

Milliseconds are what the module costs beside the interpreter, msgspec and asyncio (median of five starts on two cores
of 2026). An import that is late for another reason says so. Whoever adds one names it here; one that is gone goes.
"""

import ast
from pathlib import Path
from typing import Final, NamedTuple

from tests.rooms import FOLDERS

ROOT: Final = Path(__file__).resolve().parent.parent


class Late(NamedTuple):
    """What a file imports inside functions: milliseconds saved where it is not needed, and when it is."""

    ms: int
    when: str


_DOCKER: Final = Late(130, "docker and requests: only runs on containers need the SDK")
_ARROW: Final = Late(140, "pyarrow: only what reads a stored history needs it")
_REPORT: Final = Late(155, "jinja2 and the report: only what writes a page needs them")
_JUDGE: Final = Late(180, "the checkers and their core: only what judges needs them")
_COMMAND: Final = Late(105, "the parts of one command: `--help` and the other commands do without")
_FETCH: Final = Late(30, "Maven, Go modules, checksums: only a release that is not cached needs them")

LATE: Final = {
    "harness/base/arrow_alone.py": _ARROW,
    "harness/base/event_loop.py": Late(5, "uvloop is absent where it has no wheel"),
    "campaigns/night/axes.py": Late(35, "covertable: only a campaign that combines several axes needs it"),
    "systems/kafka/failover/child.py": Late(140, "the child enters its namespaces before it imports what has threads"),
    "harness/cli/__init__.py": Late(110, "importing one file of this room must not load every command"),
    "harness/cli/app.py": Late(105, "the registry: `--help` of all commands does without, where no plug-in is named"),
    "harness/cli/check/command.py": Late(150, "a run, a file, a table: each is judged by a part of its own"),
    "harness/cli/check/foreign.py": _JUDGE,
    "harness/cli/check/operations.py": Late(100, "pyspark: only `--spark` needs it"),
    "harness/cli/check/transactions.py": _COMMAND,
    "warehouse/commands/demo.py": Late(100, "pyspark: not before both runs are over"),
    "harness/cli/doctor.py": _COMMAND,
    "harness/cli/images.py": _DOCKER,
    "campaigns/commands/night_table.py": Late(110, "rich: only a night on a terminal draws a table"),
    "harness/cli/output/help.py": Late(0, "the registry: only a command with --plugin needs it before it runs"),
    "harness/cli/output/outcome.py": _ARROW,
    "harness/cli/output/verdict_text.py": _REPORT,
    "harness/cli/prepare.py": Late(100, "pyspark: made ready once, at set-up"),
    "warehouse/commands/warehouse.py": Late(100, "pyspark: other commands do without"),
    "harness/conformance/inside.py": Late(105, "it enters its namespaces before it imports what has threads"),
    "harness/interchange/formats/recognise.py": Late(120, "one reader for each format, and a file has one"),
    "harness/base/offers.py": Late(20, "importlib.metadata: only commands that name systems look for packages"),
    "harness/plugins/registry.py": Late(60, "what systems, faults and workloads are: only plug-ins are held to it"),
    "harness/results/reader.py": _ARROW,
    "harness/run/conclude.py": _REPORT,
    "harness/runner/__main__.py": Late(105, "the runner enters its namespaces before it imports what has threads"),
    "harness/runtime/artifacts/ivy.py": Late(0, "java asks ivy for Java archives, ivy asks java for a Java"),
    "harness/runtime/clocks/daemon_client.py": Late(10, "only a run that skews clocks needs it"),
    "harness/runtime/containers/checks.py": _DOCKER,
    "harness/runtime/containers/cluster.py": _DOCKER,
    "harness/runtime/containers/data.py": _DOCKER,
    "harness/runtime/containers/engine/engine.py": _DOCKER,
    "harness/runtime/containers/engine/network.py": _DOCKER,
    "harness/runtime/containers/engine/ownership.py": _DOCKER,
    "harness/runtime/containers/given_image.py": _DOCKER,
    "harness/runtime/containers/images/building.py": _DOCKER,
    "harness/runtime/containers/images/plans.py": _DOCKER,
    "harness/runtime/containers/images/recipes.py": _FETCH,
    "harness/runtime/containers/making.py": _DOCKER,
    "harness/runtime/containers/container.py": _DOCKER,
    "harness/runtime/containers/node.py": _DOCKER,
    "harness/runtime/containers/provider.py": _DOCKER,
    "harness/runtime/containers/rules/by_sidecar.py": _DOCKER,
    "harness/runtime/containers/state.py": _DOCKER,
    "harness/runtime/lab/provider.py": Late(40, "the lab: only the runner opens it"),
    "harness/runtime/lab/trials.py": Late(0, "each step of the doctor's trial fails, and is reported, by itself"),
    "systems/cassandra/releases.py": _FETCH,
    "systems/consul/releases.py": _FETCH,
    "systems/etcd/system.py": Late(135, "protobuf: naming the systems must not load it"),
    "systems/etcd/versions.py": _FETCH,
    "harness/java/recorded_jars.py": _FETCH,
    "systems/kafka/server/versions.py": _FETCH,
    "systems/nats/versions.py": _FETCH,
    "systems/zookeeper/versions.py": _FETCH,
    "harness/testing/cluster_inside.py": Late(105, "it enters its namespaces before it imports what has threads"),
    "harness/testing/pytest_plugin.py": Late(690, "runs: pytest loads the plugin wherever fencepost is installed"),
    "warehouse/archive.py": Late(100, "pyspark: only making the archive needs it"),
    "warehouse/pyspark_connection.py": Late(100, "pyspark: only Spark's own process side needs it"),
    "warehouse/spark_session.py": Late(100, "pyspark: a run starts the JVM before it needs a session"),
}


def _files_with_late_imports() -> set[str]:
    found = set()
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and any(
                    isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(function)
                ):
                    found.add(str(path.relative_to(ROOT)))
    return found


def test_every_late_import_has_a_reason() -> None:
    found = _files_with_late_imports()
    assert found - set(LATE) == set(), "import at the top, or say here what it saves"
    assert set(LATE) - found == set(), "take these off the list"
