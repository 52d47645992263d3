"""What decides is one thing: the verdict, JUnit and the page never disagree on it."""

from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from fencepost.harness.judging.judgement import conclude
from fencepost.harness.report.documents import junit_of
from fencepost.harness.report.section import ReportCase
from fencepost.harness.verdict import Cause, Facts, Guarantee, Standing, Validity, Verdict
from fencepost.harness.verdict.by_guarantee import COVERAGE, decides
from tests.checkers.build import Tale

FACTS = Facts(
    system="etcd",
    workload="register",
    nodes=("n1", "n2", "n3"),
    read_guarantee="linearizable",
    required=("asked-for",),
    guarantees=tuple(
        Guarantee(name=name, standing=standing, text="a statement", source="somebody")
        for name, standing in (
            ("linearizable", Standing.PROMISED),
            ("kept", Standing.PROMISED),
            ("asked-for", Standing.MEASURED),
            ("beside", Standing.MEASURED),
        )
    ),
)
#: "of nobody" is no guarantee that the system has a word on.
NAMES = ("linearizable", "kept", "asked-for", "beside", "of nobody", COVERAGE)
verdicts = st.builds(
    Verdict,
    checker=st.sampled_from(["linearizable", "another", COVERAGE]),
    guarantee=st.sampled_from(NAMES),
    validity=st.sampled_from(Validity),
    reason=st.just("so it ended"),
    cause=st.sampled_from([None, Cause.FAILED, Cause.NO_EXPOSURE]),
    weighs=st.booleans(),
)


@given(st.lists(verdicts, min_size=1, max_size=5).map(tuple))
def test_junit_fails_for_the_verdicts_that_decide_and_for_no_other(found: tuple[Verdict, ...]) -> None:
    history = Tale().history()
    judgement = conclude(history, FACTS, found)
    case = ReportCase(
        history=history,
        facts=FACTS,
        verdicts=found,
        validity=judgement.validity,
        headline=judgement.headline,
        run={},
        command="fencepost run plan.toml",
        plan_toml="",
    )
    cases = ET.fromstring(junit_of(case)).findall("testsuite/testcase")
    judged = list(dict.fromkeys(verdict.guarantee for verdict in found))
    told = [one.find("failure") is not None or one.find("error") is not None for one in cases[: len(judged)]]
    assert told == [any(decides(v, FACTS) for v in found if v.guarantee == name) for name in judged]
    every = not any(told) and {"linearizable", "asked-for"} <= {*judged}
    # What nobody calls valid is not, whatever weighs.
    every = every and any(verdict.validity is Validity.VALID for verdict in found)
    assert (judgement.validity is Validity.VALID) == every


def test_who_knows_no_such_guarantee_is_told_of_it_and_nothing_is_decided_by_it() -> None:
    unknown = Verdict(checker="another", guarantee="of nobody", validity=Validity.UNKNOWN, reason="so it ended")
    assert not decides(unknown, FACTS)
