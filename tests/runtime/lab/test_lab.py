"""The lab from inside: every link reached, every fault proven and undone, servers started, stopped and missed."""

from itertools import permutations
from typing import Any

import pytest

from tests.lab_scenario import run_scenario

HERE = "tests.runtime.lab.scenarios"


def expected_links(nodes: int) -> set[str]:
    return {f"{a}>{b}" for a, b in permutations([*(f"n{i}" for i in range(1, nodes + 1)), "client"], 2)}


@pytest.mark.parametrize("nodes", [1, 3, 5])
def test_every_link_is_open_by_probe_and_by_tcp(nodes: int) -> None:
    if nodes == 1:
        assert run_scenario(f"{HERE}:probe_all", nodes=1) == {"n1>client": "open", "client>n1": "open"}
        return
    found = run_scenario(f"{HERE}:reach", nodes=nodes)
    assert found["probes"] == dict.fromkeys(expected_links(nodes), "open")
    assert set(found["tcp"].values()) == {"open"}
    assert found["logs"] == [f"start 1 on n{i}, n2 is 10.77.0.2" for i in range(1, nodes + 1)]


def between(left: list[str], right: list[str], effect: str) -> list[tuple[str, str, str]]:
    return [link for a in left for b in right for link in ((a, b, effect), (b, a, effect))]


PATTERNS: list[list[tuple[str, str, str]]] = [
    between(["n1"], ["n2", "n3"], "drop"),
    between(["n1"], ["n2", "n3"], "reset"),
    [("n1", "n2", "drop")],
    [("n1", "n2", "reset")],
    between(["n2"], ["client"], "drop"),
    between(["n2"], ["client"], "reset"),
    [("client", "n3", "drop")],
    [("client", "n3", "reset")],
    [("n3", "client", "drop")],
    [("n3", "client", "reset")],
    # The refusals of n1's datagrams come from the router, whose own link to n1 is cut.
    [("n1", "n2", "reset"), ("client", "n1", "drop")],
    [("n1", "n2", "reset"), ("client", "n1", "reset")],
    between(["n1"], ["n2"], "drop") + between(["n1"], ["n3"], "reset"),
    [(a, b, "drop") for a, b in permutations(["n1", "n2", "n3", "client"], 2)],
    [],
]


def test_every_pattern_is_enforced_proven_and_undone() -> None:
    assert run_scenario(f"{HERE}:patterns", {"patterns": PATTERNS}) == []


def test_a_ring_of_five() -> None:
    names = [f"n{i}" for i in range(1, 6)]
    ring = [(names[i], names[(i + d) % 5], "drop") for i in range(5) for d in (2, 3)]
    bridge = between(names[:2], names[3:], "drop")
    assert run_scenario(f"{HERE}:patterns", {"patterns": [ring, bridge]}, nodes=5) == []


def test_what_tcp_connections_meet() -> None:
    """Before, an open connection during, a new one during, one beside the fault, a new one after healing."""
    dropped = ["hello", "nothing", "dropped", "open", "open"]
    reset = ["hello", "ECONNRESET", "ECONNREFUSED", "open", "open"]
    assert run_scenario(f"{HERE}:connections") == {
        "n2 drop": dropped,
        "n2 reset": reset,
        "client drop": dropped,
        "client reset": reset,
    }


@pytest.mark.parametrize("uvloop", [False, True])
def test_any_order_of_faults_gives_the_merge_and_heals_to_nothing(uvloop: bool) -> None:
    found = run_scenario(f"{HERE}:any_order", {"seed": 7, "steps": 300}, uvloop=uvloop)
    assert found == {"left": 0, "probes": ["open"]}


def test_a_refused_transaction_changes_nothing() -> None:
    found = run_scenario(f"{HERE}:refused_commit")
    assert "could not be changed" in found["message"]
    assert found["unchanged"]
    assert found["after"] == 2
    assert found["no"] == "there is no link n1>n9"


@pytest.mark.parametrize("uvloop", [False, True])
def test_a_stall_of_the_harness_is_no_drop(uvloop: bool) -> None:
    """uvloop runs late timers before it looks at the sockets, asyncio's own loop after."""
    assert run_scenario(f"{HERE}:stalled_probe", uvloop=uvloop) == ["open"]


@pytest.mark.parametrize("uvloop", [False, True])
def test_refusals_are_not_rationed_and_heard_at_once(uvloop: bool) -> None:
    """uvloop watches a socket no more after an error on it."""
    assert run_scenario(f"{HERE}:refusal_storm", uvloop=uvloop) == ["reset"]


def assert_life(seen: dict[str, Any]) -> None:
    assert seen["states"] == ["running", "paused", "dead"]
    assert seen["cpu"]
    assert seen["pid"]
    assert seen["paused answer"] == "nothing"
    assert "T" not in seen["resumed threads"]
    assert seen["threads after kill"] == {}
    assert seen["pid after kill"] is None
    assert seen["exit"] == ["n1", 0, -9, True]
    assert seen["hooks"] == [[1], 1, 1, "running"]
    assert seen["environ"]
    assert seen["log"].splitlines() == ["start 1 on n1, n2 is 10.77.0.2", "start 2 on n1, n2 is 10.77.0.2"]
    assert seen["twice"] == "node n1 is running already"


@pytest.mark.parametrize("uvloop", [False, True])
def test_start_pause_kill_and_restart_with_the_data_kept(uvloop: bool) -> None:
    assert_life(run_scenario(f"{HERE}:life", uvloop=uvloop))


def test_exits_that_nobody_ordered_are_reported_as_such() -> None:
    found = run_scenario(f"{HERE}:unordered_exits")
    assert found["exits"] == [["n1", 3, False], ["n2", -9, False]]
    assert found["child left"] == 1
    assert found["all killed"] == {}
    assert found["again"] == ["running", "hello"]
    assert found["killed late"] == ["n1", -9, False]


def test_a_start_that_is_cancelled_leaves_no_server() -> None:
    assert run_scenario(f"{HERE}:cancelled_start") > 0


def test_data_is_limited_kept_copied_and_unmounted() -> None:
    found = run_scenario(f"{HERE}:data")
    assert found["full"] == "ENOSPC"
    assert found["names"] == ["n1/myid"] or found["names"] == ["n1/myid", "n1/starts"]
    assert found["mounts"] == 1
    assert found["kept"] == "8", "data files are written before the first start only"
    assert found["wiped"] == {"myid": "7"}, "and again when the data were wiped"
    assert found["after"] == 0
    assert found["devices"] == []


def test_a_bad_spec_is_refused_by_name() -> None:
    said, never_started = run_scenario(f"{HERE}:bad_specs")
    assert said[0] == "specs for ['n1', 'n2'], but the nodes are ['n1', 'n2', 'n3']"
    assert "'../x'" in said[1]
    assert said[2] == "node n1 cannot be started: /no/such/program: No such file or directory"
    assert never_started
