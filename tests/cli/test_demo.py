"""What the demo comes to: both verdicts, and ZooKeeper's episode in the index."""

from pathlib import Path
from typing import Any

import pytest

from fencepost.harness.base.errors import ExitCode
from fencepost.harness.cli import demo
from fencepost.harness.judging.judge import Judgement
from fencepost.harness.run.conclude import Result
from fencepost.harness.verdict import Facts, Validity

ACTED = {"system": "zookeeper", "acted": 8}


def result(validity: Validity) -> Result:
    facts = Facts(system="etcd", workload="register", nodes=(), guarantees=())
    judgement = Judgement(validity=validity, headline="", verdicts=(), facts=facts)
    return Result(folder=Path("run"), judgement=judgement, warnings=(), document={})


@pytest.mark.parametrize(
    ("etcd", "zookeeper", "episodes", "code"),
    [
        (Validity.VALID, Validity.INVALID, [ACTED], ExitCode.VALID),
        (Validity.VALID, Validity.INVALID, [], ExitCode.INTERNAL),
        (Validity.VALID, Validity.INVALID, [{"system": "zookeeper", "acted": 0}], ExitCode.INTERNAL),
        (Validity.VALID, Validity.INVALID, [{"system": "etcd", "acted": 1}], ExitCode.INTERNAL),
        (Validity.VALID, Validity.VALID, [], ExitCode.UNKNOWN),
        (Validity.UNKNOWN, Validity.INVALID, [ACTED], ExitCode.UNKNOWN),
        (Validity.INVALID, Validity.INVALID, [ACTED], ExitCode.INVALID),
    ],
)
def test_it_fails_where_the_index_lacks_the_episode(
    etcd: Validity, zookeeper: Validity, episodes: list[dict[str, Any]], code: ExitCode
) -> None:
    assert demo._outcome(result(etcd), result(zookeeper), episodes) is code


def test_spark_starts_when_the_main_phase_is_over() -> None:
    booted: list[int] = []

    class Handle:
        def boot(self) -> None:
            booted.append(1)

    for message in ({"topic": "phase", "phase": "main"}, {"topic": "tick"}):
        demo._boot_behind(Handle(), message)  # type: ignore[arg-type]
    assert booted == []
    demo._boot_behind(Handle(), {"topic": "phase", "phase": "heal"})  # type: ignore[arg-type]
    assert booted == [1]
