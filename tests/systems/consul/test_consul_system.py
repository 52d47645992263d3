"""What Consul says of itself: configurations, options, settings, promises, binaries, log lines."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.campaigns.kip.columns import column_of
from fencepost.campaigns.kip.rows import KipPart
from fencepost.harness.base.errors import UsageError
from fencepost.harness.base.options import seconds
from fencepost.harness.contract.guarantees import promises_in_force
from fencepost.harness.contract.logs import BecameLeader
from fencepost.harness.coordination import ReadMode
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import check_plan
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Place
from fencepost.harness.verdict import Standing
from fencepost.systems.consul import settings as server_settings
from fencepost.systems.consul.options import ConsulOptions, MembersBy
from fencepost.systems.consul.system import CONSUL

LAYOUT = {
    f"n{i}": Place(
        name=f"n{i}",
        number=i,
        address=f"10.0.0.{i}",
        folder=Path(f"/run/n{i}"),
        data=Path(f"/data/n{i}"),
        kept=Path(f"/kept/n{i}"),
    )
    for i in (1, 2, 3)
}


def artifacts(version: str = "1.19.2", binary: str = "/x/consul") -> Artifacts:
    return Artifacts(version=version, paths={"consul": binary}, sha256={"consul": "0" * 64})


def configured(
    options: ConsulOptions = ConsulOptions(),  # noqa: B008  # frozen
    version: str = "1.19.2",
    settings: Mapping[str, str] = {},
) -> dict[str, Any]:
    (spec, *_) = CONSUL.specs(LAYOUT, artifacts(version), options, {"consul": settings})
    assert spec.argv == ("/x/consul", "agent", "-config-file", "/run/n1/consul.json")
    read: dict[str, Any] = json.loads(spec.files["consul.json"])
    return read


def test_the_registry_knows_it() -> None:
    assert registry.system("consul") is CONSUL


def test_a_server_is_data() -> None:
    made = configured(ConsulOptions(hold=seconds(0.5), raft_multiplier=2))
    assert (made["server"], made["bootstrap_expect"], made["node_name"]) == (True, 3, "n1")
    assert made["retry_join"] == ["10.0.0.2", "10.0.0.3"]
    assert made["bind_addr"] == made["client_addr"] == "10.0.0.1"
    assert Path(made["data_dir"]).is_relative_to("/data/n1")
    assert made["performance"] == {"raft_multiplier": 2, "rpc_hold_timeout": "500ms"}
    # The epoch of a leader is read from this log.
    assert made["log_level"] == "info"
    assert not made["autopilot"]["cleanup_dead_servers"], "members stay while they are cut off"
    assert dict(CONSUL.profile.listeners) == {"client": 8500, "server": 8300, "serf": 8301}


def test_keys_that_a_release_does_not_know_are_left_out() -> None:
    assert "grpc_tls" in configured(version="1.19.2")["ports"]
    assert "grpc_tls" not in configured(version="1.13.9")["ports"]
    assert "raft_logstore" not in configured()
    assert configured(ConsulOptions(log_store="wal"))["raft_logstore"] == {"backend": "wal"}
    with pytest.raises(UsageError, match=r"Consul 1\.13\.9 keeps raft's log in boltdb alone"):
        configured(ConsulOptions(log_store="wal"), "1.13.9")


class TestSettings:
    def test_dots_are_levels_and_values_are_json_where_they_can_be(self) -> None:
        made = configured(
            settings={"raft_snapshot_threshold": "100", "limits.rpc_rate": "50.5", "limits.mode": "enforcing"}
        )
        assert made["raft_snapshot_threshold"] == 100
        assert made["limits"] == {"http_max_conns_per_client": 5000, "rpc_rate": 50.5, "mode": "enforcing"}

    @pytest.mark.parametrize(
        ("key", "remedy"),
        [
            ("node_name", "leave it out"),
            ("retry_join", "leave it out"),
            ("ports.http", "leave it out"),
            ("log_level", "leave it out"),
            ("acl.enabled", "leave it out"),
        ],
    )
    def test_what_the_harness_sets_is_refused(self, key: str, remedy: str) -> None:
        refusal = CONSUL.settings.refuse("consul", key, ConsulOptions())
        assert refusal is not None and remedy in (refusal.remedy or "")

    def test_others_may_be_set(self) -> None:
        for key in (
            "raft_trailing_logs",
            "autopilot.cleanup_dead_servers",
            "limits.rpc_rate",
            "gossip_lan.gossip_nodes",
        ):
            assert CONSUL.settings.refuse("consul", key, ConsulOptions()) is None

    def test_what_a_server_reports_is_compared(self) -> None:
        settings = {
            "consul": {"raft_snapshot_threshold": "100", "limits.rpc_rate": "7", "gossip_lan.gossip_nodes": "4"}
        }
        running = {"RaftSnapshotThreshold": 100, "RPCRate": 8}
        node: Any = SimpleNamespace(name="n1")
        known = {one.setting: (one.says, one.by) for one in server_settings.compared(node, settings, running)}
        assert known == {
            "consul.raft_snapshot_threshold": ("100", "agent/self"),
            "consul.limits.rpc_rate": (None, "its configuration file"),
            "consul.gossip_lan.gossip_nodes": (None, "its configuration file"),
        }

    def test_the_binary_is_asked_before_the_start(self, tmp_path: Path) -> None:
        refusing = tmp_path / "consul"
        refusing.write_text('#!/bin/sh\necho "Config validation failed: $2: invalid config key nonsense"\nexit 1\n')
        refusing.chmod(0o755)
        refusal = CONSUL.settings.refuse_unknown(artifacts(binary=str(refusing)), {"consul": {"nonsense": "1"}})
        assert refusal is not None
        assert refusal.reason == "Consul 1.19.2 says: Config validation failed: invalid config key nonsense"
        assert CONSUL.settings.refuse_unknown(artifacts(binary=str(refusing)), {}) is None


def test_leadership_is_bounded_by_the_lease() -> None:
    bound = CONSUL.leadership(ConsulOptions(raft_multiplier=2))
    assert bound.bound_ns == 1_010_000_000
    assert bound.standing is Standing.PROMISED and "LeaderLeaseTimeout" in bound.source
    assert bound.superseded_acknowledges_nothing and not bound.one_leader_per_epoch


def test_a_session_ends_after_twice_its_time_to_live() -> None:
    bound = CONSUL.lease_bound(ConsulOptions())
    assert (bound.ttls, bound.extra_ns) == (2, 2_000_000_000)


def test_each_mode_of_reading_is_held_to_what_consul_says_of_it() -> None:
    standing = {guarantee.name: guarantee.standing for guarantee in CONSUL.promises()}
    assert len(standing) == len(CONSUL.promises())
    by_mode = {mode: standing[CONSUL.profile.read_guarantee(mode)] for mode in CONSUL.profile.read_modes}
    assert by_mode == {
        ReadMode.STRONG: Standing.PROMISED,
        ReadMode.LEADER: Standing.RELIED_UPON,
        ReadMode.PLAIN: Standing.MEASURED,
    }
    assert CONSUL.profile.read_modes[0] is ReadMode.STRONG
    assert all(guarantee.source for guarantee in CONSUL.promises())


@pytest.mark.parametrize(
    ("line", "epoch"),
    [
        ("2026-11-25T20:00:00.000Z [INFO]  agent.server.raft: election won: term=2 tally=2", 2),
        ("2026-11-25T20:00:00.000Z [INFO]  agent.server.raft: entering leader state: leader=...", None),
        ("2026-11-25T20:00:00.000Z [INFO]  agent.server.raft: election won: tally=2", None),
        ("", None),
    ],
)
def test_the_log_says_who_became_leader(line: str, epoch: int | None) -> None:
    assert tuple(CONSUL.logs.events([line])) == (() if epoch is None else (BecameLeader(epoch),))


@pytest.mark.parametrize(
    ("start", "to", "back", "refused"),
    [
        ("1.12.9", "1.13.9", False, ""),
        ("1.13.9", "1.15.10", False, ""),
        ("1.12.9", "1.12.8", False, ""),
        ("1.12.9", "1.13.9", True, "later release only"),
        ("1.13.9", "1.12.9", False, "later release only"),
        ("1.13.9", "1.19.2", False, "at most 2"),
        ("./consul", "1.19.2", False, ""),
    ],
)
def test_changes_of_release(start: str, to: str, back: bool, refused: str) -> None:
    refusal = CONSUL.versions.refuse_change(start, to, back, {})
    assert (refusal is None) == (not refused)
    assert refusal is None or refused in refusal.reason


BY_CATALOG = ConsulOptions(members=MembersBy.CATALOG_TTL)


def test_the_catalog_promises_less_of_members_than_sessions_do() -> None:
    """Nothing else of Consul changes by it."""

    def standings(options: ConsulOptions) -> dict[str, Standing]:
        return {g.name: g.standing for g in promises_in_force(CONSUL, "", {}, options)}

    by_session, by_catalog = standings(ConsulOptions()), standings(BY_CATALOG)
    assert {name for name in by_session if by_session[name] is not by_catalog[name]} == {
        "one-member-per-id",
        "joined-member-listed",
        "leave-ends-own-membership",
        "renewing-member-stays",
        "silent-member-goes",
        "member-lists-in-order",
    }
    assert by_catalog["member-data-belongs"] is Standing.PROMISED
    assert by_catalog["one-member-per-id"] is Standing.MEASURED


def test_each_recipe_for_members_has_its_bound_and_the_table_is_about_sessions() -> None:
    assert CONSUL.lease_bound(BY_CATALOG).ttls == 1 and CONSUL.lease_bound(ConsulOptions()).ttls == 2
    column = column_of(CONSUL)
    assert column
    measured = column.recipe(KipPart.MEMBERSHIP)
    assert measured is not None and measured.title == "session-key/1"
    assert [r.chosen_by for r in column.recipes if r.chosen_by] == ["members=catalog-ttl"]


@pytest.mark.parametrize("workload", ["register", "lease", "election"])
def test_a_recipe_for_members_is_refused_where_there_are_none(workload: str) -> None:
    options = {"members": "catalog-ttl"}
    with pytest.raises(UsageError, match="about members of groups"):
        check_plan(Plan(system="consul", workload=workload, nemesis="none", seed=1, system_options=options))
    fitting = Plan(system="consul", workload="group-membership", nemesis="none", seed=1, system_options=options)
    assert check_plan(fitting).system_options == BY_CATALOG
