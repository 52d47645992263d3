"""What the demo comes to: both verdicts, and ZooKeeper's episode in the index."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fencepost.harness.base.errors import ExitCode
from fencepost.harness.judging.judgement import Judgement
from fencepost.harness.run.conclude import Result
from fencepost.harness.verdict import Facts, Validity
from fencepost.warehouse.commands import demo
from fencepost.warehouse.commands.warehouse import episode_lines

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


def test_the_summary_says_what_happened_and_where_to_look() -> None:
    invalid = result(Validity.INVALID)
    invalid = replace(invalid, judgement=msgspec.structs.replace(invalid.judgement, headline="8 stale reads"))
    assert list(demo._summary("ZooKeeper", invalid)) == [
        "ZooKeeper: invalid. 8 stale reads.",
        "  No superseded leader was certainly seen to claim that it still leads.",
        "  Look at: run/report.html",
    ]


def test_an_episode_takes_two_lines() -> None:
    row = {
        "system": "zookeeper",
        "version": "3.9.5",
        "node": "n2",
        "subject": "leader",
        "epoch": 2,
        "superseded_by": 3,
        "claims": 1,
        "running_ns": 85_000_000,
        "asked": 12,
        "served": 8,
        "fenced": 0,
        "unknown": 1,
        "acted": 8,
        "anomalies": ["stale-answer"],
        "evidence": [965, 2824, 2830, 2831],
        "folder": "run",
    }
    assert list(episode_lines(row)) == [
        "zookeeper 3.9.5: n2, leader of epoch 2, acted 8 times (stale-answer) after epoch 3 had begun",
        "  claimed to lead once (85 ms awake); 12 operations: 8 served, 1 unknown, 3 ended otherwise; "
        "rows 965, 2824, ... (4) of run",
    ]
    silent = {**row, "claims": 0, "asked": 0, "served": 0, "unknown": 0, "acted": 0, "evidence": [3, 7, 9]}
    assert list(episode_lines(silent)) == [
        "zookeeper 3.9.5: n2, leader of epoch 2, did not act after epoch 3 had begun",
        "  sent no operation; rows 3, 7, 9 of run",
    ]
