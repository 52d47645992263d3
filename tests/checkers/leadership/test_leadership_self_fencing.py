"""Self-fencing: a violation needs every condition at once; each is missed here by the least."""

from typing import Any

import pytest

from fencepost.checkers import leadership
from fencepost.checkers.facts.servers import cuts
from fencepost.checkers.leadership.self_fencing import GUARANTEE
from fencepost.harness.history import Claim, Effects, FaultOutcome, Stops
from fencepost.harness.plugins import registry
from fencepost.harness.verdict import Cause, Standing, Validity, Verdict
from tests.checkers.build import NODES, Tale, bound, facts, ns, only

#: 2000 ms, so that a claim is judged from 4000 ms of running on.
BOUND = bound(2000)
CUT_MS = 1000
LIMIT_MS = 4000


def judged(tale: Tale, **changes: Any) -> Verdict:
    return only(leadership.check(tale.history(), facts(**{"leadership": BOUND, **changes})), GUARANTEE)


def tale_of(
    claims: list[float],
    *,
    cut: tuple[float, float] = (CUT_MS, 9000),
    begin: float = 1500,
    length: float = 0,
    step: float = 500,
) -> Tale:
    """n1 leads epoch 1 until it is cut off, n2 leads epoch 2 from `begin` on, and n1 claims at `claims`."""
    tale = Tale()
    tale.claims("n1", 1, [100, 200], length=10)
    tale.claim("n2", 2, begin - 10, begin)
    tale.claims("n1", 1, claims, length=length)
    tale.cut("n1", *cut)
    tale.health(0, 12_000, step_ms=step)
    return tale


def test_a_leader_that_never_gives_up() -> None:
    verdict = judged(tale_of([4000, 4600, 5001]))
    assert verdict.validity is Validity.INVALID
    assert verdict.anomalies == {"self-fencing-failed": 1}
    (witness,) = verdict.witnesses
    assert witness.nodes == ("n1",)
    assert len(witness.steps) == 4
    assert verdict.subject == "leader"
    assert [(c["node"], c["from_ns"], c["to_ns"]) for c in verdict.figures.plain()["cuts"]] == [
        ("n1", ns(CUT_MS), ns(9000))
    ]


@pytest.mark.parametrize(
    ("claims", "validity"),
    [
        ([4000, 4600, 5001], Validity.INVALID),
        ([4000, 4600, 5000], Validity.UNKNOWN),  # has run for the limit, not for longer
        ([4000, 5001], Validity.UNKNOWN),  # two samples
        ([4001, 4600, 5001], Validity.INVALID),  # one second exactly
        ([4002, 4600, 5001], Validity.UNKNOWN),  # less than a second
    ],
)
def test_three_samples_over_a_second_beyond_the_limit(claims: list[float], validity: Validity) -> None:
    verdict = judged(tale_of(claims))
    assert verdict.validity is validity
    beyond = claims[-1] > 5000
    assert verdict.figures.plain()["samples_beyond_bound"] == beyond
    if beyond and validity is Validity.UNKNOWN:
        assert verdict.cause is Cause.UNDECIDED
        assert "claimed after 4.0 s of running, beyond 4.0 s, but not in 3 successive answers" in verdict.reason


def test_a_second_is_counted_from_the_first_sample_s_latest_moment() -> None:
    assert judged(tale_of([4000, 4600, 5001], length=1)).validity is Validity.INVALID
    assert judged(tale_of([4000, 4600, 5001], length=2)).validity is Validity.UNKNOWN


@pytest.mark.parametrize(("bound_ms", "validity"), [(2000, Validity.INVALID), (2001, Validity.UNKNOWN)])
def test_the_limit_is_one_and_a_half_times_the_bound_and_a_second(bound_ms: float, validity: Validity) -> None:
    assert judged(tale_of([4000, 4600, 5001]), leadership=bound(bound_ms)).validity is validity


@pytest.mark.parametrize(("begin", "validity"), [(3999, Validity.INVALID), (4000, Validity.UNKNOWN)])
def test_only_claims_after_a_higher_epoch_had_begun_count(begin: float, validity: Validity) -> None:
    assert judged(tale_of([4000, 4600, 5001], begin=begin)).validity is validity


@pytest.mark.parametrize(
    ("cut", "validity"),
    [
        ((1000, 5001), Validity.INVALID),
        ((1000, 5000.5), Validity.UNKNOWN),  # the last sample is not certainly inside
        ((1000.5, 5001), Validity.INVALID),
        ((1001, 5001), Validity.UNKNOWN),  # has run for the limit only
        ((4001, 12000), Validity.UNKNOWN),
    ],
)
def test_all_of_it_inside_the_cut(cut: tuple[float, float], validity: Validity) -> None:
    assert judged(tale_of([4000, 4600, 5001], cut=cut)).validity is validity


@pytest.mark.parametrize(("end", "validity"), [(5003, Validity.INVALID), (5002.5, Validity.UNKNOWN)])
def test_a_sample_that_may_be_from_after_the_cut_proves_nothing(end: float, validity: Validity) -> None:
    assert judged(tale_of([4000, 4600, 5002], length=1, cut=(1000, end))).validity is validity


@pytest.mark.parametrize("kind", ["denial", "silence", "other epoch"])
def test_the_samples_must_be_successive(kind: str) -> None:
    tale = tale_of([4000, 4600, 5001])
    if kind == "denial":
        tale.deny("n1", 4700, 4701)
    elif kind == "silence":
        tale.belief("n1", Claim.SILENT, 4700, 4701)
    else:
        tale.claim("n1", None, 4700, 4701, epoch_exact=False)
    assert judged(tale).validity is Validity.UNKNOWN


def denied(claims: list[float], denials: list[float], *, begin: float = 1500) -> Verdict:
    tale = tale_of(claims, begin=begin)
    for at in denials:
        tale.deny("n1", at, at + 1)
    return judged(tale)


@pytest.mark.parametrize(
    ("claims", "longest"), [([], "none"), ([1400], "400 ms"), ([1500, 2880], "1.9 s"), ([4999], "4.0 s")]
)
def test_a_leader_that_was_not_caught_is_told_with_its_longest_claim(claims: list[float], longest: str) -> None:
    """Judged is only what lies beyond the limit: a claim beyond the bound may be kept from that by nobody."""
    verdict = denied(claims, [5001, 5600, 6100])
    assert verdict.validity is Validity.VALID
    assert verdict.reason == (
        f"no cut-off leader claimed beyond 4.0 s of running (bound 2.0 s); longest claim {longest}"
    )
    assert verdict.figures.plain()["running_ns_max_when_claimed"] == (ns(claims[-1] - CUT_MS) if claims else 0)


@pytest.mark.parametrize(
    ("denials", "begin", "chances"),
    [
        ([5001, 5600, 6100], 1500, 1),
        ([5001, 5600, 6100, 6200], 1500, 2),
        ([4000, 4600, 5002], 1500, 1),
        ([4000, 5002], 1500, 0),  # two answers
        ([5001, 5600, 6001], 1500, 0),  # less than a second
        ([4000, 4600, 5002], 4000, 0),  # the next epoch had not begun at the first
        ([5001, 5600, 6100], 20_000, 0),
    ],
)
def test_only_an_answer_in_place_of_a_violation_is_a_chance(denials: list[float], begin: float, chances: int) -> None:
    verdict = denied([], denials, begin=begin)
    (rule,) = verdict.rules
    assert (rule.chances, verdict.exposure) == (chances, chances)
    assert verdict.validity is (Validity.VALID if chances else Validity.UNKNOWN)
    if not chances:
        assert rule.lacks == verdict.reason
        assert "not by three answers over a second after a later epoch had begun" in rule.lacks


def test_questions_that_a_stopped_node_left_unanswered_do_not_hide_what_it_said() -> None:
    tale = tale_of([4000, 4600, 5001, 8000, 8500, 9500, 9900], cut=(1000, 9950))
    tale.belief("n1", Claim.SILENT, 5900, 6000)
    tale.belief("n1", Claim.SILENT, 5910, 6010)
    tale.pause("n1", 5500, 7500)
    assert judged(tale).figures.plain()["samples_beyond_bound"] == 5


def test_time_stopped_is_no_running_time() -> None:
    tale = tale_of([4000, 4600, 5001])
    tale.pause("n1", 2000, 2001)
    assert judged(tale).validity is Validity.UNKNOWN
    tale = tale_of([4000, 4600, 5002])
    tale.pause("n1", 2000, 2001)
    assert judged(tale).validity is Validity.INVALID


def test_a_pause_without_proof_is_no_running_time_either() -> None:
    tale = tale_of([4000, 4600, 5001])
    tale.fault("pause", ("n1",), (2000, 2001, 2001, 2001), outcome=FaultOutcome.INDETERMINATE)
    assert judged(tale).validity is Validity.UNKNOWN


@pytest.mark.parametrize(
    ("effects", "validity"),
    [
        (Effects(holds=True), Validity.UNKNOWN),
        (Effects(stops=Stops.POSSIBLE), Validity.UNKNOWN),
        (Effects(stops=Stops.CERTAIN), Validity.UNKNOWN),
        (Effects(delays=True, skews=True), Validity.INVALID),
        (Effects(), Validity.INVALID),
    ],
)
def test_whatever_may_have_stopped_or_held_the_server_is_no_running_time(effects: Effects, validity: Validity) -> None:
    tale = tale_of([4000, 4600, 5001])
    tale.fault("new-kind", ("n1",), (2000, 2001, 2500, 2501), effects=effects)
    assert judged(tale).validity is validity


@pytest.mark.parametrize(
    ("kind", "validity"),
    [
        ("slow", Validity.UNKNOWN),
        ("failing", Validity.UNKNOWN),
        ("full", Validity.INVALID),  # refuses writes, and holds no thread
    ],
)
def test_a_disk_fault_that_holds_the_server_s_threads_accuses_no_more_than_a_pause(
    kind: str, validity: Validity
) -> None:
    disk, held, paused = registry.faults()["disk"], tale_of([4000, 4600, 5001]), tale_of([4000, 4600, 5001])
    held.fault("disk", ("n1",), (2000, 2001, 2500, 2501), effects=disk.effects(disk.spec("one", {"kind": kind})))
    paused.pause("n1", 2000, 2501)
    assert (judged(held).validity, judged(paused).validity) == (validity, Validity.UNKNOWN)


@pytest.mark.parametrize("kind", ["disk", "lost-write", "power-loss", "damage", "membership", "rolling"])
def test_a_fault_of_version_1_that_may_have_stopped_or_held_the_server_is_known_by_its_name(kind: str) -> None:
    tale = tale_of([4000, 4600, 5001])
    tale.fault(kind, ("n1",), (2000, 2001, 2500, 2501))
    assert judged(tale).validity is Validity.UNKNOWN


def test_a_pause_of_another_node_changes_nothing() -> None:
    tale = tale_of([4000, 4600, 5001])
    tale.pause("n3", 2000, 3000)
    assert judged(tale).validity is Validity.INVALID


# The cut


@pytest.mark.parametrize("direction", ["in", "out"])
def test_a_one_way_cut_proves_nothing(direction: str) -> None:
    tale = Tale()
    tale.cut("n1", 1000, 9000, direction=direction)
    assert cuts(tale.history(), NODES) == []


@pytest.mark.parametrize(
    ("severed", "cut"),
    [
        (("n1>n2", "n2>n1", "n1>n3", "n3>n1"), ["n1"]),
        (("n1>n2", "n2>n1", "n1>n3"), []),  # n3 still reaches it
        (("n1>n2", "n2>n1", "n3>n1"), []),  # it still reaches n3
        (("n1>n2", "n2>n1"), []),  # n1 and n3 are a majority
        (("n1>client", "client>n1", "n1>n2", "n2>n1"), []),
        (("n1>n2", "n2>n1", "n1>n3", "n3>n1", "n2>n3", "n3>n2"), ["n1", "n2", "n3"]),
    ],
)
def test_a_cut_severs_both_directions_from_every_majority(severed: tuple[str, ...], cut: list[str]) -> None:
    tale = Tale()
    tale.fault("partition", ("n1",), (990, 1000, 2000, 2010), severed=severed)
    assert [c.node for c in cuts(tale.history(), NODES)] == cut


def test_of_five_nodes_two_together_are_cut_off_too() -> None:
    five = ("n1", "n2", "n3", "n4", "n5")
    links = [(a, b) for a in ("n1", "n2") for b in ("n3", "n4", "n5")]
    severed = tuple(f"{a}>{b}" for a, b in links) + tuple(f"{b}>{a}" for a, b in links)
    tale = Tale()
    tale.fault("partition", ("n1", "n2"), (990, 1000, 2000, 2010), severed=severed)
    assert [(c.node, c.from_ns, c.to_ns) for c in cuts(tale.history(), five)] == [
        ("n1", ns(1000), ns(2000)),
        ("n2", ns(1000), ns(2000)),
    ]


@pytest.mark.parametrize(
    ("outcome", "heal"),
    [(FaultOutcome.INDETERMINATE, 9000), (FaultOutcome.SKIPPED, 9000), (FaultOutcome.INSTALLED, None)],
)
def test_a_cut_must_be_proven_at_both_ends(outcome: FaultOutcome, heal: float | None) -> None:
    tale = Tale()
    severed = ("n1>n2", "n2>n1", "n1>n3", "n3>n1")
    tale.fault("partition", ("n1",), (990, 1000, heal, heal), severed=severed, outcome=outcome)
    assert cuts(tale.history(), NODES) == []


def test_two_faults_together_make_a_cut_for_as_long_as_both_are_in_force() -> None:
    tale = Tale()
    tale.fault("partition", ("n1",), (100, 100, 5000, 5000), severed=("n1>n2", "n2>n1"))
    tale.fault("partition", ("n1",), (1000, 1000, 9000, 9000), severed=("n1>n3", "n3>n1"))
    (cut,) = cuts(tale.history(), NODES)
    assert (cut.from_ns, cut.to_ns, cut.fault_ids) == (ns(1000), ns(5000), (0, 1))


def test_a_cut_goes_on_when_another_fault_takes_over() -> None:
    all_links = ("n1>n2", "n2>n1", "n1>n3", "n3>n1")
    tale = Tale()
    tale.fault("partition", ("n1",), (100, 100, 5000, 5000), severed=all_links)
    tale.fault("partition", ("n1",), (4000, 4000, 9000, 9000), severed=all_links)
    (cut,) = cuts(tale.history(), NODES)
    assert (cut.from_ns, cut.to_ns) == (ns(100), ns(9000))


# Stalls


@pytest.mark.parametrize(("lag_ms", "validity"), [(500, Validity.INVALID), (501, Validity.UNKNOWN)])
def test_a_stall_of_the_harness_makes_it_unknown(lag_ms: float, validity: Validity) -> None:
    tale = tale_of([4000, 4600, 5001])
    tale.sample(3200, lag_ms=lag_ms)
    verdict = judged(tale)
    assert verdict.validity is validity
    assert ("stalled" in verdict.reason) is (validity is Validity.UNKNOWN)


@pytest.mark.parametrize(
    ("stall_at", "validity"),
    [(900, Validity.INVALID), (1001, Validity.UNKNOWN), (5300, Validity.UNKNOWN), (5900, Validity.INVALID)],
)
def test_only_a_stall_between_cut_and_last_claim_matters(stall_at: float, validity: Validity) -> None:
    tale = Tale()
    tale.claims("n1", 1, [100, 200], length=10)
    tale.claim("n2", 2, 1490, 1500)
    tale.claims("n1", 1, [4000, 4600, 5001], length=0)
    tale.cut("n1", 1000, 9000)
    tale.health(0, 12_000, step_ms=50)
    tale.sample(stall_at, lag_ms=600)
    assert judged(tale).validity is validity


@pytest.mark.parametrize(("share", "validity"), [(0.89, Validity.INVALID), (0.91, Validity.UNKNOWN)])
def test_a_starved_machine_makes_it_unknown(share: float, validity: Validity) -> None:
    tale = tale_of([4000, 4600, 5001], step=3000)
    tale.sample(3100)
    tale.sample(3400, cpu_stall_ms=300 * share)
    tale.sample(3500, cpu_stall_ms=100 * share)
    tale.sample(3900, cpu_stall_ms=400 * share)
    assert judged(tale).validity is validity


def test_without_health_samples_nobody_knows_that_there_was_no_stall() -> None:
    tale = Tale()
    tale.claims("n1", 1, [100, 200], length=10)
    tale.claim("n2", 2, 1490, 1500)
    tale.claims("n1", 1, [4000, 4600, 5001], length=0)
    tale.cut("n1", 1000, 9000)
    tale.health(0, 5000)
    assert judged(tale).validity is Validity.UNKNOWN
    tale.sample(5001)
    assert judged(tale).validity is Validity.INVALID


# What is said when nothing failed


def test_a_leader_that_gives_up_in_time_is_valid_by_what_was_observed() -> None:
    tale = tale_of([1600, 2000, 2500])
    tale.deny("n1", 5000, 5001)  # not yet beyond the limit
    tale.deny("n1", 5001, 5002)
    tale.deny("n1", 6000, 6001)
    verdict = judged(tale)
    assert (verdict.validity, verdict.exposure) == (Validity.VALID, 2)


def test_without_observation_beyond_the_bound_it_is_unknown() -> None:
    tale = tale_of([1600, 2000, 2500])
    tale.deny("n1", 4900, 4901)
    verdict = judged(tale)
    assert (verdict.validity, verdict.exposure) == (Validity.UNKNOWN, 0)
    assert "observed" in verdict.reason


def test_a_cut_follower_is_no_exposure() -> None:
    tale = Tale()
    tale.deny("n1", 100, 110)
    tale.claim("n2", 2, 100, 110)
    tale.cut("n1", 1000, 9000)
    tale.deny("n1", 8000, 8010)
    assert judged(tale).exposure == 0


@pytest.mark.parametrize("given", [None, bound(None)])
def test_without_a_bound_claims_are_figures_only(given: Any) -> None:
    verdicts = leadership.check(tale_of([4000, 4600, 5001]).history(), facts(leadership=given))
    assert GUARANTEE not in {v.guarantee for v in verdicts}
    (figures,) = [v.figures.plain() for v in verdicts]
    assert figures["claimed_count"] == 1


def test_a_bound_that_nobody_promises_is_named_as_policy() -> None:
    verdict = judged(tale_of([4000, 4600, 5001]), leadership=bound(2000, standing=Standing.MEASURED))
    assert verdict.validity is Validity.INVALID
    assert "policy" in verdict.reason
