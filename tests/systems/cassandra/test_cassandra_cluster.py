"""Cassandra in the lab, as a user runs it: transactions are linearizable, and a wrong clock hides plain writes."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab_scenario import require_lab
from tests.run_command import only_folder, run_undisturbed

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
PLAIN = ("--reads", "quorum", "--require", "fresh-by-quorum", "-O", "writes=quorum", "-o", "cas_share=0")
SKEW = ("--nemesis", "clock-skew:one:offset=5s:for=6s", "--quiet", "2s")


def verdicts(tmp_path: Path, *arguments: str, workload: str = "register") -> dict[str, str]:
    require_lab()
    words = ("--system", "cassandra", "--workload", workload, *arguments, "--seed", "5")
    _, results = run_undisturbed(tmp_path, *words, timeout_s=300)
    document: dict[str, Any] = json.loads((only_folder(results) / "verdict.json").read_text())
    return {one["name"]: one["validity"] for one in document["guarantees"]}


@pytest.mark.slow
def test_a_wrong_clock_hides_acknowledged_writes(tmp_path: Path) -> None:
    assert verdicts(tmp_path, *PLAIN, *SKEW, "--time-limit", "10s")["fresh-by-quorum"] == "invalid"


@pytest.mark.long
def test_right_clocks_hide_none(tmp_path: Path) -> None:
    nemesis = ("--nemesis", "pause:one:for=2s", "--quiet", "2s", "--time-limit", "20s")
    assert verdicts(tmp_path, *PLAIN, *nemesis)["fresh-by-quorum"] == "valid"


@pytest.mark.long
@pytest.mark.parametrize("variant", ["v1", "v2"])
def test_lightweight_transactions_do_not_depend_on_clocks(tmp_path: Path, variant: str) -> None:
    found = verdicts(tmp_path, *SKEW, "-O", f"paxos_variant={variant}", "--time-limit", "20s")
    assert found["linearizable"] == "valid"


@pytest.mark.long
@pytest.mark.parametrize("reads", ["strong", "local"])
def test_lightweight_transactions_are_linearizable_under_faults(tmp_path: Path, reads: str) -> None:
    found = verdicts(tmp_path, "--reads", reads, "--nemesis", "kill,partition,pause", "--time-limit", "40s")
    assert found["linearizable"] == "valid"


@pytest.mark.long
@pytest.mark.parametrize("seen", [(), (*PLAIN, *SKEW)], ids=["partitions", "plain writes under a wrong clock"])
def test_accord_orders_every_write(tmp_path: Path, seen: tuple[str, ...]) -> None:
    """Three servers of 6.0 start in half a minute; a killed one does not start again by default."""
    accord = ("--version", "6.0-alpha2", "-O", "transactions=accord", "--time-limit", "30s")
    found = verdicts(tmp_path, *accord, *(seen or ("--nemesis", "partition")))
    assert found["fresh-by-quorum" if seen else "linearizable"] == "valid"


@pytest.mark.long
@pytest.mark.parametrize(("appends", "validity"), [("once", "valid"), ("again", "invalid")])
def test_a_transaction_of_accord_loses_the_first_of_two_appends_to_one_list(
    tmp_path: Path, appends: str, validity: str
) -> None:
    accord = ("--version", "6.0-alpha2", "-O", "transactions=accord", "--time-limit", "15s", "--nemesis", "none")
    found = verdicts(tmp_path, *accord, "-o", f"appends={appends}", workload="list-append")
    assert found["strict-serializable"] == validity


@pytest.mark.long
@pytest.mark.parametrize(("fencing", "believed"), [("off", "one-believed-leader"), ("on", "one-acting-leader")])
def test_rows_with_a_time_to_live_need_a_guard(tmp_path: Path, fencing: str, believed: str) -> None:
    nemesis = ("--nemesis", "pause:one:for=2s", "--quiet", "1s", "--time-limit", "20s")
    outcome = verdicts(tmp_path, "-o", f"fencing={fencing}", *nemesis, workload="election")
    assert outcome[believed] == ("invalid" if fencing == "off" else "valid")


@pytest.mark.long
def test_members_are_rows_that_stay_while_they_are_renewed(tmp_path: Path) -> None:
    nemesis = ("--nemesis", "pause:one:for=2s", "--quiet", "1s", "--time-limit", "20s")
    outcome = verdicts(tmp_path, *nemesis, workload="group-membership")
    assert outcome["one-member-per-id"] == outcome["renewing-member-stays"] == "valid"


@pytest.mark.long
@pytest.mark.parametrize(
    ("variant", "validity"), [("v1_without_linearizable_reads_or_rejected_writes", "invalid"), ("v1", "valid")]
)
def test_a_write_that_was_given_up_is_settled_by_a_serial_read(tmp_path: Path, variant: str, validity: str) -> None:
    load = ("cas_share=0", "settle=5s", "keys=200", "rate=600", "active_per_node=8", "seldom_per_node=0")
    outcome = verdicts(
        tmp_path,
        *("-O", f"paxos_variant={variant}", *(word for one in load for word in ("-o", one))),
        *("--nemesis", "partition:one:for=1500ms", "--quiet", "2s", "--time-limit", "40s"),
    )
    assert outcome["serial-reads-settle"] == validity
    assert outcome["linearizable"] == "valid"
