"""The release that is recorded: the servers' own word, not the label or the tag of an image."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.contract import releases as other_versions
from fencepost.harness.contract.releases import Versions
from fencepost.harness.contract.system import System
from fencepost.harness.judging.judge import version_of
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import check_plan
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.runner.servers import Servers
from fencepost.harness.runtime.artifacts import Artifacts, ImageFacts
from fencepost.harness.runtime.node import Node, Runtime
from fencepost.systems.etcd.system import Etcd
from fencepost.systems.kafka.server import reported_version
from tests.fakes.fakes_runtime import FakeNode, FakeRuntime

#: What an image says that was built on Python's, without a label of its own.
LABEL = "3.11"


def image(reference: str, labels: dict[str, str]) -> ImageFacts:
    return ImageFacts(
        reference=reference, id="1", labels=labels, entrypoint=(), command=(), environment={}, architecture="amd64"
    )


def read(folder: Path, system: System, artifacts: Artifacts) -> Servers:
    """What a run does once all servers serve."""
    checked = check_plan(Plan(system=system.profile.name, workload="register", seed=1, nemesis="none"))
    checked = replace(checked, system=system)
    recorder = Recorder(folder / store.HISTORY_LINES)
    servers = Servers(folder, checked, artifacts, cast(Runtime, FakeRuntime()), recorder)
    servers.client_nodes = ("n1", "n2", "n3")
    asyncio.run(servers.read_version(lambda: False))
    return servers


def told(capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], str]:
    """What a runner told for `run.json`, and what else it said."""
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    facts: dict[str, Any] = {}
    for line in lines:
        facts |= line.get("facts", {})
    return facts, "\n".join(line["text"] for line in lines if line["topic"] != "facts")


class Telling(Etcd):
    def __init__(self, *said: str) -> None:
        self._said = dict(zip(("n1", "n2", "n3"), said, strict=True))
        self.versions = Versions(reported=self._reported, expected=self.expected)

    async def _reported(self, node: Node, log_from: int) -> str:
        if not self._said[node.name]:
            raise ValueError("it does not say its version")
        return self._said[node.name]

    def expected(self, node: Node, artifacts: Artifacts) -> str:
        return artifacts.version


@pytest.mark.parametrize(
    ("reference", "labels"),
    [("debian-etcd:3.4", {"org.opencontainers.image.version": LABEL}), (f"python-etcd:{LABEL}", {})],
)
def test_servers_are_recorded_as_what_they_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], reference: str, labels: dict[str, str]
) -> None:
    system = Telling("3.4.23", "3.4.23", "3.4.23")
    artifacts = system.releases.in_image(image(reference, labels))
    assert artifacts.version == LABEL
    run = read(tmp_path, system, artifacts)
    assert run.artifacts.version == "3.4.23", "a roll compares with it"
    facts, text = told(capsys)
    assert version_of(facts) == "3.4.23", "a checker asks what this release promises"
    assert facts["told_versions"] == dict.fromkeys(("n1", "n2", "n3"), "3.4.23")
    assert f"say that they are 3.4.23; their files or image say {LABEL}" in text


def test_servers_that_agree_with_their_files_are_no_news(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    read(tmp_path, Telling("3.5.1", "3.5.1", "3.5.1"), Artifacts(version="3.5.1", paths={}, sha256={}))
    assert told(capsys)[1] == ""


def test_one_that_does_not_say_it_is_told_and_the_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_versions, "_SAYS_S", 0.0)
    run = read(tmp_path, Telling("3.5.1", "", "3.5.1"), Artifacts(version=LABEL, paths={}, sha256={}))
    assert run.artifacts.version == LABEL
    facts, text = told(capsys)
    assert version_of(facts) is None
    assert f"n2 reports no release (it does not say its version); recorded is {LABEL}" in text


def test_several_releases_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"not one release: n1 is 3\.5\.1, n2 is 3\.4\.23, n3 is 3\.5\.1"):
        read(tmp_path, Telling("3.5.1", "3.4.23", "3.5.1"), Artifacts(version="3.5.1", paths={}, sha256={}))


def test_servers_of_another_kind_have_a_release_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the ZooKeeper below a Kafka."""

    class Above(Telling):
        def expected(self, node: Node, artifacts: Artifacts) -> str:
            return "3.8.4" if node.name == "n1" else artifacts.version

    run = read(tmp_path, Above("3.8.4", "3.9.2", "3.9.2"), Artifacts(version=LABEL, paths={}, sha256={}))
    assert run.artifacts.version == "3.9.2"
    assert told(capsys)[0]["told_versions"] == {"n2": "3.9.2", "n3": "3.9.2"}


def test_a_kafka_that_calls_itself_unknown_says_no_release(tmp_path: Path) -> None:
    class Logging(FakeNode):
        log = tmp_path / "log"

    node = Logging("n1")
    node.log.write_text("INFO Kafka version: unknown (org.apache.kafka.common.utils.AppInfoParser)\n")
    with pytest.raises(ValueError, match="does not report its version"):
        asyncio.run(reported_version.read(node, 0))
    node.log.write_text("INFO Kafka version: 7.5.0-ccs (org.apache.kafka.common.utils.AppInfoParser)\n")
    assert asyncio.run(reported_version.read(node, 0)) == "7.5.0-ccs"
