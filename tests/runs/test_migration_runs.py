"""Whole migrations from ZooKeeper to KRaft. Each takes a minute or more."""

import json
from pathlib import Path
from typing import Any

import pytest

from fencepost.harness.history import MigrationEvent
from fencepost.harness.results.reader import read_history
from tests.lab_scenario import require_lab
from tests.run_command import only_folder, run

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.alone, pytest.mark.timeout(900)]

_BRIDGE = ("--system", "kafka-bridge", "-O", "brokers=2", "--seed", "1", "--json")


def migrated(results: Path, *arguments: str) -> tuple[dict[str, Any], list[str]]:
    """The document of a run and the phases that its migration reached."""
    require_lab()
    done = run("run", *_BRIDGE, *arguments, "--results", str(results), timeout_s=600)
    assert done.returncode in (0, 1, 2), done.stdout + done.stderr
    phases = [event.phase for event in read_history(only_folder(results)).of(MigrationEvent)]
    return json.loads(done.stdout), phases


def validity(document: dict[str, Any], guarantee: str) -> set[str]:
    return {verdict["validity"] for verdict in document["verdicts"] if verdict["guarantee"] == guarantee}


def test_a_quiet_migration_ends_in_kraft_and_loses_nothing(tmp_path: Path) -> None:
    load = ("--workload", "metadata", "-o", "rate=100", "-o", "readers_per_node=1")
    document, phases = migrated(tmp_path, *load, "--nemesis", "migrate:hold=1s:for=110s", "--time-limit", "120s")
    assert phases == ["provisioned", "copy", "hybrid", "dual-write", "final"]
    assert "invalid" not in validity(document, "metadata-durable") | validity(document, "metadata-log-agrees")
    assert validity(document, "claims-in-order") == {"valid"}


@pytest.mark.parametrize(("version", "expected"), [("3.6.0", "invalid"), ("3.6.1", "valid")])
def test_a_copy_of_3_6_0_gives_producer_ids_again(tmp_path: Path, version: str, expected: str) -> None:
    """KAFKA-15552, fixed in 3.6.1."""
    load = ("--version", version, "--workload", "producer-ids", "-o", "rate=100")
    document, phases = migrated(
        tmp_path, *load, "--nemesis", "migrate:until=hybrid:hold=1s:for=80s", "--time-limit", "90s"
    )
    assert phases == ["provisioned", "copy", "hybrid"]
    assert validity(document, "unique-producer-ids") == {expected}
