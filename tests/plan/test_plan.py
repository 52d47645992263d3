"""Plans: written and read back, merged with flags, and every mistake told by file, line and what was expected."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.harness.base.errors import PlanError, UsageError
from fencepost.harness.plan import Phases, Plan, dump_plan, read_plan, write_plan

plans = st.builds(
    Plan,
    system=st.sampled_from(["etcd", "zookeeper"]),
    workload=st.sampled_from(["register", "set"]),
    seed=st.integers(0, 2**63 - 1),
    nemesis=st.sampled_from(["none", "partition:leader:direction=out,kill"]),
    nodes=st.sampled_from([3, 5]),
    time_limit=st.sampled_from(["30s", "1m30s"]),
    require=st.lists(st.sampled_from(["fresh-after-sync", "linearizable"]), max_size=2).map(tuple),
    keep_data=st.booleans(),
    phases=st.builds(Phases, watch=st.sampled_from(["2s", "500ms"])),
    workload_options=st.dictionaries(st.sampled_from(["keys", "rate"]), st.integers(1, 9), max_size=2),
)


@given(plans)
def test_a_plan_is_read_back_as_it_was_written(tmp_path_factory: pytest.TempPathFactory, plan: Plan) -> None:
    path = tmp_path_factory.mktemp("plan") / "plan.toml"
    write_plan(plan, path)
    assert read_plan(path, seed=0) == plan
    assert path.read_text() == dump_plan(plan)


def _read(tmp_path: Path, text: str) -> Plan:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    return read_plan(path, seed=11)


def test_a_file_without_a_seed_gets_the_one_offered(tmp_path: Path) -> None:
    assert _read(tmp_path, 'system = "etcd"\nworkload = "set"\n').seed == 11


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('system = "etcd"\nworkload = "set"\nnoodles = 3\n', ["line 3", "noodles", "unknown field"]),
        ('system = "etcd"\nworkload = "set"\nnodes = "three"\n', ["line 3", "nodes", "expected `int`, got `str`"]),
        (
            'system = "etcd"\nworkload = "set"\n\n[phases]\nwatch = 5\n',
            ["line 5", "phases.watch", "expected `str`, got `int`"],
        ),
        ('system = "etcd"\nworkload = "set"\n[thresholds]\nluck = 5\n', ["line 4", "luck", "unknown field"]),
        ('workload = "set"\n', ["'system' is missing"]),
        ('system = "etcd"\nversion = ""\n', ["line 2", "version", "an empty text"]),
        ('system = "etcd"\nworkload = "set"\nnemesis = ""\n', ["line 3", "nemesis", "an empty text"]),
        ('system = "etcd"\nworkload = \n', ["line 2"]),
        ('format = 9\nsystem = "etcd"\nworkload = "set"\n', ["line 1", "format", "expected `1`, got `9`"]),
    ],
)
def test_a_mistake_is_told_by_file_line_and_what_was_expected(tmp_path: Path, text: str, said: list[str]) -> None:
    with pytest.raises(PlanError) as caught:
        _read(tmp_path, text)
    for part in ["plan.toml", *said]:
        assert part in caught.value.message
    assert caught.value.hint


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="No such file"):
        read_plan(tmp_path / "nowhere.toml", seed=0)


@pytest.mark.parametrize("field", ["quiet", "op_timeout"])
def test_an_empty_length_is_refused(field: str) -> None:
    plan = msgspec.structs.replace(Plan(system="etcd", workload="register", nemesis="kill", seed=1), **{field: ""})
    with pytest.raises(UsageError, match=field):
        plan.duration_ns(field)
