"""A system is added by one folder and one line of the registry: everything else asks the system itself."""

import ast
import re
from pathlib import Path
from typing import Final

import msgspec
import pytest

from fencepost.campaigns.failover.curve import failover_of
from fencepost.harness.base.errors import UsageError
from fencepost.harness.cli.listing import listing
from fencepost.harness.cli.output.outcome import repeat_command
from fencepost.harness.judging.judge import facts_of
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import check_plan
from fencepost.harness.plugins import registry
from fencepost.harness.verdict import Standing
from tools.lines import FOLDERS

ROOT: Final = Path(__file__).resolve().parents[3]
PLAN: Final = Plan(system="tiny", workload="register", nemesis="kill", seed=1, system_options={"pulse": "500ms"})
#: The demonstration is a plan that names its two systems.
PLANS: Final = frozenset({"warehouse/commands/demo.py"})


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.SYSTEMS, "tiny", "tests.systems.contract.small_system:SMALL")


def test_a_plan_for_it_is_checked_and_repeated() -> None:
    checked = check_plan(PLAN)
    assert [member.name for member in checked.members] == ["n1", "n2", "n3"]
    assert checked.plan.version == "1.0"
    assert checked.plan.system_options == {"pulse": "500ms"}
    assert "-O pulse=500ms" in repeat_command(checked)


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        ({"nodes": 5}, "nodes: 5 is not a choice", "1, 3"),
        ({"system_options": {"pulse": 5}}, "tiny option pulse: '5' is not a duration", "30s"),
        ({"system_options": {"pulse": "1ms"}}, "tiny option pulse: 1ms is too small", "give at least 100ms"),
        ({"workload": "lock"}, "tiny does not offer 'locks'", "key-value"),
        ({"server_settings": {"tiny": {"a": 1}}}, "'tiny' is not in this plan, whose system is tiny", "none"),
        ({"nemesis": "membership"}, "tiny lacks the part member-changes, which membership needs", "list abilities"),
        ({"nemesis": "rolling:to=1.1"}, "servers of tiny do not say which release they are", "leave out to="),
    ],
)
def test_what_it_cannot_do_is_refused_with_the_remedy(change: dict[str, object], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_plan(msgspec.structs.replace(PLAN, **change))
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


def test_checkers_and_reports_read_it_from_the_facts() -> None:
    facts = facts_of(check_plan(PLAN), "1.0")
    assert facts.vocabulary.epoch == "ballot"
    assert [guarantee.name for guarantee in facts.guarantees] == ["linearizable"]
    assert facts.leadership is not None
    assert (facts.leadership.bound_ns, facts.leadership.standing) == (None, Standing.MEASURED)
    assert facts.leases is None


def test_it_is_listed() -> None:
    # Lines after the first of an entry start further right.
    names = {line.split()[0] for line in listing("systems").splitlines() if re.match(r"  \S", line)}
    assert names == set(registry.SYSTEMS)
    page = " ".join(listing("systems", "tiny").split())
    assert "-O pulse=... pause between two pulses (a duration; at least 100ms; default 200ms)" in page
    assert "tiny promised: Operations take effect in one" in " ".join(listing("guarantees", "linearizable").split())
    assert "tiny linearizable, judged by: linearizable" in " ".join(listing("workloads", "register").split())
    with pytest.raises(UsageError, match="unknown system with a controller and partitions 'tiny'"):
        failover_of("tiny")


def test_nobody_else_knows_a_system_by_its_name() -> None:
    """Neither in a table nor in a comparison: who needs to know something asks the system."""
    names = frozenset(registry.SYSTEMS)
    known = {
        path.relative_to(ROOT).as_posix()
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in names
    }
    outside = {path for path in known if not path.startswith("systems/")}
    assert not outside - PLANS
