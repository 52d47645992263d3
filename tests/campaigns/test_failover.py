"""The failover curve without a cluster: cells, what the tables and logs of a run tell, the document and the page."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from bench.failover_curve import section
from fencepost.campaigns.failover.curve import CurveMaking, failover_of, load_time_s, longest_gap_ns, plan_of
from fencepost.campaigns.failover.figures import Curve, FailoverSample, document, fit, read_document, seconds, table
from fencepost.campaigns.failover.picture import drawn, standing_alone
from fencepost.campaigns.night.documents import write_each
from fencepost.campaigns.night.forecast import deadline_s, estimate_s
from fencepost.campaigns.night.night import CellOutcome, Night, RunAttempt
from fencepost.campaigns.night.run_class import RunClass
from fencepost.harness.base.errors import UsageError
from fencepost.harness.cli import main
from fencepost.harness.plan.checked_plan import check_plan
from fencepost.systems.kafka.protocols import MetadataNeeds
from fencepost.systems.kafka.server.options import KraftOptions

S = 1_000_000_000


def test_a_line_is_found_exactly_and_its_error_is_that_of_least_squares() -> None:
    exact = fit([(10, 0.204), (1000, 0.6), (5000, 2.2)])
    assert exact is not None and exact.per_1000_s == pytest.approx(0.4, abs=1e-9)
    assert exact.at(0) == pytest.approx(0.2, abs=1e-9)
    points = [(10.0, 0.21), (100.0, 0.3), (1000.0, 0.82), (5000.0, 2.1)]
    line = fit(points)
    assert line is not None and line.per_1000_error_s is not None
    xs, ys = np.array(points).T
    # As the covariance matrix of the general method has it.
    design = np.stack([np.ones_like(xs), xs / 1000], axis=1)
    solution, unexplained, _, _ = np.linalg.lstsq(design, ys, rcond=None)
    covariance = np.linalg.inv(design.T @ design) * unexplained[0] / (len(xs) - 2)
    assert (line.at_zero_s, line.per_1000_s) == pytest.approx(tuple(solution))
    assert line.per_1000_error_s == pytest.approx(float(np.sqrt(covariance[1, 1])))
    assert fit([(10, 1.0), (10, 2.0)]) is None
    two = fit([(0, 1.0), (1000, 2.0)])
    assert two is not None and two.per_1000_error_s is None


def _kraft_log(*at: str) -> str:
    texts = ("Becoming the active controller at epoch 3", "Activated periodic tasks: elect")
    return "\n".join(f"{clock} INFO QuorumController - {text}" for clock, text in zip(at, texts, strict=True))


def test_the_loading_that_counts_is_that_of_the_leader_after_the_one_that_was_ended() -> None:
    loading = failover_of("kraft").loading
    first, second = _kraft_log("08:00:01.100", "08:00:01.111"), _kraft_log("08:02:00.000", "08:02:00.004")
    later = _kraft_log("08:03:00.000", "08:03:00.900")
    assert load_time_s(loading, {"n1": first, "n2": second}, "n1") == pytest.approx(0.004)
    assert load_time_s(loading, {"n1": f"{first}\n{later}", "n2": second}, "n1") == pytest.approx(0.004)
    assert load_time_s(loading, {"n1": f"{first}\n{later}", "n2": second}, "n2") == pytest.approx(0.9)
    assert load_time_s(loading, {"n1": first}, "n1") is None, "nobody followed"
    assert load_time_s(loading, {"n1": second.splitlines()[0]}, None) is None, "it never ended"
    midnight = {"n1": _kraft_log("23:59:10.000", "23:59:10.100"), "n2": _kraft_log("23:59:59.900", "00:00:00.711")}
    assert load_time_s(loading, midnight, "n1") == pytest.approx(0.811)
    after = {"n1": _kraft_log("23:59:59.000", "23:59:59.100"), "n2": _kraft_log("00:00:09.000", "00:00:09.020")}
    assert load_time_s(loading, after, "n1") == pytest.approx(0.02)


def test_a_gap_reaches_from_the_last_acceptance_before_the_fault_to_the_first_one_after_it() -> None:
    assert longest_gap_ns([1, 2, 3, 9, 10], 4, 8) == 6
    assert longest_gap_ns([1, 2, 3, 5, 9, 20], 3, 10) == 11
    assert longest_gap_ns([1, 2, 30, 90], 2, 20) == 28, "what follows the fault is not its own"
    assert longest_gap_ns([5, 6], 4, 8) is None
    assert longest_gap_ns([1, 2], 4, 8) is None


@pytest.mark.parametrize("name", ["kraft", "kraft+controllers", "kafka-zk", "kafka-bridge"])
def test_every_deployment_has_a_plan_that_makes_sense(name: str) -> None:
    plan = plan_of(name, 1250)
    assert plan.workload_options["bystanders"] == 1250
    checked = check_plan(plan)
    needs = checked.workload.needs(checked.options)
    assert isinstance(needs, MetadataNeeds) and needs.bystanders == 1250 and needs.within_s > 50
    if isinstance(checked.system_options, KraftOptions):
        assert checked.system_options.combined is (name == "kraft")


def test_another_system_or_deployment_is_refused() -> None:
    for name in ("etcd", "kafka-zk+controllers"):
        with pytest.raises(UsageError, match=name.replace("+", "\\+")):
            failover_of(name)


def _night(folder: Path, making: CurveMaking, change_s: dict[str, float]) -> Night:
    """A night in which the first change after the fault of each cell's run is accepted after so many seconds."""
    outcomes = []
    making.open(folder, pytest.fail)
    for cell in making.cells:
        own = folder / "runs" / cell.id / "slug" / "time"
        (own / "facts").mkdir(parents=True)
        (own / "nodes" / "n2").mkdir(parents=True)
        (own / "nodes" / "n1").mkdir(parents=True)
        (own / "nodes" / "n1" / "server.log").write_text(_kraft_log("08:00:01.100", "08:00:01.111"))
        (own / "nodes" / "n2" / "server.log").write_text(_kraft_log("08:02:00.000", "08:02:00.004"))
        ok: dict[str, Any] = {"f": "create", "type": "ok"}
        waited_ns = round(change_s[cell.name] * S)
        tables: dict[str, list[dict[str, Any]]] = {
            "operations": [
                {**ok, "completed_ns": 6 * S},
                {"f": "create", "type": "info", "completed_ns": None},
                {"f": "exists", "type": "ok", "completed_ns": 6 * S + 1},
                {**ok, "completed_ns": 6 * S + waited_ns},
            ],
            "faults": [
                {"fault_id": 1, "outcome": "skipped", "began_ns": 1, "ended_ns": 2, "nodes": ["n3"], "leader": "n3"},
                {"fault_id": 2, "outcome": "installed", "began_ns": 6 * S + 1, "ended_ns": 26 * S, "nodes": ["n1"],
                 "leader": "n1"},
            ],
            "recovery": [{"fault_id": 2, "node": None, "new_leader_after_ns": 2 * S}],
        }  # fmt: skip
        for name, rows in tables.items():
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), own / "facts" / f"{name}.parquet")
        attempt = RunAttempt(
            cell=cell.id, run=1, number=1, seed=1, folder=f"runs/{cell.id}", run_class=RunClass.VALID, version="1"
        )
        outcomes.append(CellOutcome(cell=cell, run_class=RunClass.VALID, reason="", attempts=(attempt,)))
    return Night(
        id="n", campaign="failover", digest="d", seed=1, budget_s=1, started_at="2026-11-29T00:00:00Z",
        cells=tuple(outcomes), machine={"cores": 2},
    )  # fmt: skip


def test_a_night_becomes_the_curve_of_its_tables(tmp_path: Path) -> None:
    making = CurveMaking(["kraft", "kafka-zk"], [1000, 10], 1)
    waits = {"kraft, 10 partitions": 1.0, "kraft, 1,000 partitions": 1.0}
    waits |= {"kafka-zk, 10 partitions": 2.0, "kafka-zk, 1,000 partitions": 3.98}
    write_each(making.files(_night(tmp_path, making, waits)), tmp_path, pytest.fail)
    curve = read_document(json.loads((tmp_path / "failover.json").read_text()))
    assert {(s.system, s.partitions): s.change_s for s in curve.samples} == {
        ("kraft", 10): 1.0, ("kraft", 1000): 1.0, ("kafka-zk", 10): 2.0, ("kafka-zk", 1000): 3.98,
    }  # fmt: skip
    assert {s.leader_s for s in curve.samples} == {2.0}
    assert [s.load_s for s in curve.samples if s.system == "kraft"] == [0.004] * 2
    assert [s.load_s for s in curve.samples if s.system == "kafka-zk"] == [None] * 2, "the log has other lines"
    growth = {name: curve.growth(name, "change_s") for name in curve.systems}
    assert growth["kraft"] and growth["kraft"].per_1000_s == pytest.approx(0, abs=1e-9)
    assert growth["kafka-zk"] and growth["kafka-zk"].per_1000_s == pytest.approx(2.0)
    page = (tmp_path / "failover.html").read_text()
    assert "kafka-zk, 1,000 partitions: median 3.98 s of 1" in page and "0 of 1" in page
    assert "session lasts 2 s" in page


def test_a_run_that_failed_or_was_not_made_is_named(tmp_path: Path) -> None:
    making = CurveMaking(["kraft"], [10, 20, 30], 1)
    night = _night(
        tmp_path, making, dict.fromkeys(("kraft, 10 partitions", "kraft, 20 partitions", "kraft, 30 partitions"), 1.0)
    )
    first, second, third = night.cells
    failed = msgspec.structs.replace(second.attempts[0], run_class=RunClass.HARNESS, reason="no start")
    cells = (
        first,
        msgspec.structs.replace(second, attempts=(failed,)),
        msgspec.structs.replace(third, attempts=(), reason="there was no time"),
    )
    write_each(making.files(msgspec.structs.replace(night, cells=cells)), tmp_path, pytest.fail)
    curve = read_document(json.loads((tmp_path / "failover.json").read_text()))
    assert curve.failures == (
        "kraft, 20 partitions, run 1, harness: no start",
        "kraft, 30 partitions: there was no time",
    )
    (one,) = curve.samples
    assert one.partitions == 10
    assert "kraft, 30 partitions: longest time without an accepted metadata change: 0 of 1" in curve.incomplete


@pytest.mark.parametrize(
    ("run_class", "counts", "named"),
    [("unknown-coverage", True, False), ("invalid", True, True), ("unknown-disturbed", False, True)],
)
def test_a_run_is_measured_by_its_tables_whatever_its_verdict(
    tmp_path: Path, run_class: str, counts: bool, named: bool
) -> None:
    making = CurveMaking(["kraft"], [10], 1)
    night = _night(tmp_path, making, {"kraft, 10 partitions": 1.0})
    (cell,) = night.cells
    other = msgspec.structs.replace(cell.attempts[0], run_class=RunClass(run_class), reason="so it is")
    night = msgspec.structs.replace(night, cells=(msgspec.structs.replace(cell, attempts=(other,)),))
    write_each(making.files(night), tmp_path, pytest.fail)
    curve = read_document(json.loads((tmp_path / "failover.json").read_text()))
    assert (len(curve.samples) == 1, len(curve.failures) == 1) == (counts, named)


def _curve() -> Curve:
    samples = [
        FailoverSample(system=name, partitions=size, run="", change_s=1 + slope * size + 0.01 * number)
        for name, slope in (("kraft", 0.0), ("kafka-zk", 0.0004))
        for size in (10, 1000, 5000)
        for number in range(3)
    ]
    names = ("kraft", "kafka-zk")
    return Curve(
        systems=names, versions=dict.fromkeys(names, "1"), faults=dict.fromkeys(names, "kill:controller"),
        partitions=(10, 1000, 5000), times=3, samples=tuple(samples), machine={"cores": 2},
    )  # fmt: skip


def test_table_and_document_have_medians_growth_and_what_is_missing() -> None:
    curve = _curve()
    assert read_document(document(curve)) == curve
    lines = {row[0]: row for row in table(curve) if "accepted" in row[2]}
    assert lines["kafka-zk"][3:] == ["1.01 s", "1.41 s", "3.01 s", "+400 ms per 1,000 (± 0 ms)"]
    assert lines["kraft"][-1].endswith("0 ms per 1,000 (± 0 ms)")
    assert any(line.startswith("Missing: ") for line in section(curve)), "nothing was loaded"
    fewer = msgspec.structs.replace(curve, samples=curve.samples[1:])
    assert "1.02 s [2 of 3]" in table(fewer)[1][3] and "2 of 3" in fewer.incomplete[0]
    assert [seconds(value) for value in (None, 0.0042, 1.5)] == ["not measured", "4 ms", "1.50 s"]


def test_the_picture_is_well_formed_and_has_a_mark_for_each_median() -> None:
    drawing = ET.fromstring(str(drawn(_curve())))
    titles = [title.text or "" for title in drawing.iter() if title.tag.endswith("title")]
    assert len([text for text in titles if ": median" in text]) == 6
    assert "not measured" in str(drawn(_curve()))
    ET.fromstring(standing_alone(_curve()))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--systems", "etcd"), "system with a controller and partitions"),
        (("--systems", "kraft,kraft"), "named twice"),
        (("--partitions", "0"), "not between 1 and 10000"),
        (("--partitions", ""), "nothing is named"),
        (("--partitions", "many"), "'many' is not a number"),
        (("--resume",), "no unfinished night"),
    ],
)
def test_a_mistake_is_refused_before_anything_is_made(
    arguments: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["failover", "--results", str(tmp_path), *arguments]) == 254
    assert complaint in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_night_knows_that_many_partitions_take_long_to_make() -> None:
    many, few = (check_plan(plan_of("kraft", partitions)).plan for partitions in (5000, 10))
    assert estimate_s(many, None) - estimate_s(few, None) == pytest.approx(4990 * 0.03)
    assert deadline_s(many) - deadline_s(few) == pytest.approx(4990 * 0.03)


@pytest.mark.parametrize(
    ("run_class", "faults", "word"),
    [
        (RunClass.UNKNOWN_COVERAGE, {"kill": 1}, "measured"),
        (RunClass.UNKNOWN_COVERAGE, {"kill": 0}, "unknown-coverage"),
        (RunClass.INVALID, {"kill": 1}, "invalid"),
    ],
)
def test_the_progress_says_measured_of_what_was_measured(
    run_class: RunClass, faults: dict[str, int], word: str
) -> None:
    making = CurveMaking(["kraft"], [10], 1)
    (cell,) = making.cells
    one = RunAttempt(cell=cell.id, run=1, number=1, seed=1, folder="r", run_class=run_class, faults=faults)
    assert making.sign(CellOutcome(cell=cell, run_class=run_class, reason=""), one)[1] == word
