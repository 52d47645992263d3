"""Rules as declarations: what a guarantee forbids, and which answers could have shown it.

A rule names its guarantee, the anomaly that breaks it, and what puts it to the test. It is of one of these shapes, over
a view of the history (what answers said of which thing, each as an interval where only a part of the order is known):

    NothingOlder   no answer stands before what was known of the thing when it was asked for
    GivenOnce      nothing is given to two
    Agree          all who speak of one thing say the same of it
    Survives       what was acknowledged, and then put at risk, is in the final view

A shape goes over its view once, and yields the violations and every chance to find one. From these two follows what a
verdict says: anomalies, witnesses, exposure, why it was not tested, and its words. A rule of no shape is a plain
`Rule`: whoever looks for its violations and chances gives both to `tally`.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, Union

import msgspec

from fencepost.checkers.derived.evidence import Newest, grouped, row, rows
from fencepost.checkers.violations.finding import (
    WITNESSES_MAX,
    Doubt,
    Finding,
    conclude,
    describe,
    duration,
    no_chance,
    one_of_each_first,
    rule,
    too_few,
    violations,
)
from fencepost.harness.history import History, Operation
from fencepost.harness.verdict import Facts, Guarantee, Verdict, VerdictProof, in_words
from fencepost.harness.verdict.figures import Figures, Rows, Traced, tally

if TYPE_CHECKING:
    from fencepost.checkers.derived.reigns import LeaderSample

#: What a rule is found to be broken by: an operation, or what a node said of leading.
Answer = Union[Operation, "LeaderSample"]


class Statement(NamedTuple):
    """`by` said that `of` stands between `low` and `high`; asked at `asked_ns`, known from `known_ns` on.

    None in place of `low`: it tells nothing of what is known. None in place of `high`: it may stand anywhere.
    `because` are operations that a witness needs besides: who wrote what `by` shows.
    """

    by: Answer
    of: Hashable
    low: Any
    high: Any
    asked_ns: int
    known_ns: int
    because: tuple[Operation, ...] = ()


def says(by: Answer, low: Any, *, of: Hashable = None) -> Statement:
    """Return what an answer says of `of`, by default of its key: it stands exactly at `low`."""
    if not isinstance(by, Operation):
        return Statement(by, of, low, low, by.asked_ns, by.answered_ns)
    assert by.completed_ns is not None, "it was answered"
    return Statement(by, by.key if of is None else of, low, low, by.invoked_ns, by.completed_ns)


class Judged(NamedTuple):
    """What a rule found: the violations, and every chance to find one, by rows unless only their number is known."""

    rule: "Rule"
    findings: Sequence[Finding]
    chances: Rows | int

    @property
    def number(self) -> int:
        """The number of chances."""
        return self.chances if isinstance(self.chances, int) else len(self.chances)


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """What a guarantee forbids. `tested` are the things that could have shown it, as a plural: "reads after a write".

    `lacks` says what a run without any lacks, by default that there were none. A `guarantee` that no system states
    stands here in full.
    """

    guarantee: str | Guarantee
    anomaly: str
    tested: str
    lacks: str = ""

    @classmethod
    def of(cls, guarantee: str, anomaly: str, tested: str, lacks: str = "") -> Self:
        """Return the rule in the order in which tables of rules are read."""
        return cls(guarantee=guarantee, anomaly=anomaly, tested=tested, lacks=lacks)

    @property
    def name(self) -> str:
        """The name of its guarantee."""
        return self.guarantee if isinstance(self.guarantee, str) else self.guarantee.name

    @property
    def lacking(self) -> str:
        """What a run lacks in which the rule could not fire."""
        return self.lacks or f"no {self.tested}"

    def here(self, **fields: str) -> Self:
        """Return the rule with the guarantee, and the words, that this run's options, bounds or lacks give it."""
        return msgspec.structs.replace(self, **{name: text for name, text in fields.items() if text})

    def finding(self, *operations: Operation, steps: Iterable[str], **fields: Any) -> Finding:
        """Return a violation that these operations show, the last of which stands for it."""
        return Finding(anomaly=self.anomaly, operations=operations, steps=tuple(steps), **fields)

    def on_disk(self, history: History, *nodes: str, steps: Iterable[str], **fields: Any) -> Finding:
        """Return a violation that the disks of these nodes show after the run."""
        end_ns = history.end_ns
        return Finding(anomaly=self.anomaly, nodes=nodes, steps=tuple(steps), from_ns=end_ns, to_ns=end_ns, **fields)

    def tally(self, findings: Sequence[Finding], chances: Rows | int) -> Judged:
        """Return what was found by hand."""
        return Judged(self, findings, chances)


class Shape(Rule, frozen=True, kw_only=True):
    """A rule of one shape. `steps` explains a violation by the answers that show it; `view` gives them.

    With a view it is a checker of its own.
    """

    steps: Callable[..., Iterable[str]] | None = None
    view: Callable[[History, Facts], Iterable[Any]] | None = None

    @property
    def about(self) -> str:
        """What it judges, in one sentence."""
        return self.name if isinstance(self.guarantee, str) else self.guarantee.text

    def judge(self, view: Iterable[Any]) -> Judged:
        """Go over the view; return the violations and every chance."""
        raise NotImplementedError

    def __call__(self, history: History, facts: Facts) -> list[Verdict]:
        """Judge a history, as every checker does."""
        assert self.view is not None, "a rule without a view is judged by the checker that it is a part of"
        return [verdict(facts, self.judge(self.view(history, facts)))]

    def pair(self, first: Statement, second: Statement) -> Finding:
        """Return the violation that two answers show; the second one stands for it."""
        steps = tuple(self.steps(first, second) if self.steps else _sentences(first, second))
        if isinstance(first.by, Operation) and isinstance(second.by, Operation):
            shown = {o.invoke_index: o for o in (*second.because, *first.because, first.by, second.by)}
            return Finding(anomaly=self.anomaly, operations=tuple(shown.values()), steps=steps)
        return Finding(
            anomaly=self.anomaly,
            events=(_row(first), _row(second)),
            counted_by=_row(second),
            steps=steps,
            from_ns=first.asked_ns,
            to_ns=second.known_ns,
            nodes=(second.by.node,),
        )


class NothingOlder(Shape, frozen=True, kw_only=True):
    """No answer stands before what was known when it was asked for, of the same thing.

    `strict`: it may not stand at the same place either. `slack_ns`: what was known for less may be missing.
    An answer about several things is one violation at most.
    """

    strict: bool = False
    slack_ns: int = 0

    def judge(self, view: Iterable[Statement], known: Iterable[Statement] | None = None) -> Judged:
        """Judge the answers of the view by `known`, which they are themselves unless it is given."""
        answers = list(view)
        telling = (statement for statement in (answers if known is None else known) if statement.low is not None)
        of_thing = grouped(telling, lambda statement: statement.of)
        newest = {
            of: Newest((statement.low, statement.known_ns, statement) for statement in own)
            for of, own in of_thing.items()
        }
        findings: dict[int, Finding] = {}
        chances: dict[int, None] = {}
        for later in sorted(answers, key=lambda statement: statement.asked_ns):
            earlier = newest[later.of].before(later.asked_ns - self.slack_ns) if later.of in newest else None
            if earlier is None:
                continue
            chances.setdefault(_row(later))
            older = later.high is not None and (later.high < earlier.low or (self.strict and later.high == earlier.low))
            if older and _row(later) not in findings:
                findings[_row(later)] = self.pair(earlier, later)
        return self.tally([*findings.values()], tuple(chances))


class GivenOnce(Shape, frozen=True, kw_only=True):
    """Nothing is given to two: each answer gives `of` to the holder `low`. Every grant after the first is a chance."""

    def judge(self, view: Iterable[Statement]) -> Judged:
        grants = list(view)
        first: dict[Hashable, Statement] = {}
        held = [(first.setdefault(grant.of, grant), grant) for grant in grants]
        twice = [self.pair(holder, grant) for holder, grant in held if holder.low != grant.low]
        return self.tally(twice, tuple(map(_row, grants[1:])))


class Agree(Shape, frozen=True, kw_only=True):
    """All who speak of one thing say the same of it: of each thing the first contradiction is a violation.

    A chance is an answer about a thing that another answer named before, or another node's with `of_nodes`.
    """

    of_nodes: bool = False

    def judge(self, view: Iterable[Statement]) -> Judged:
        first: dict[Hashable, Statement] = {}
        findings: dict[Hashable, Finding] = {}
        chances: dict[int, None] = {}
        for statement in view:
            other = first.setdefault(statement.of, statement)
            if other is not statement and (not self.of_nodes or other.by.node != statement.by.node):
                chances.setdefault(_row(statement))
            if other.low != statement.low and statement.of not in findings:
                findings[statement.of] = self.pair(other, statement)
        return self.tally([*findings.values()], tuple(chances))


class Fate(NamedTuple):
    """What became of an acknowledged change that a final answer tells of; `shown` by which it is gone, if it is."""

    change: Operation
    at_risk: bool
    lost: Finding | None


class Survives(Shape, frozen=True, kw_only=True):
    """What was acknowledged, and then put at risk, is in the final view; what nothing disturbed says nothing."""

    def judge(self, view: Iterable[Fate]) -> Judged:
        fates = list(view)
        lost = [fate.lost for fate in fates if fate.lost is not None]
        return self.tally(lost, rows(fate.change for fate in fates if fate.at_risk))


def _row(statement: Statement) -> int:
    return row(statement.by) if isinstance(statement.by, Operation) else statement.by.index


def _sentences(first: Statement, second: Statement) -> tuple[str, ...]:
    who = [describe(s.by) if isinstance(s.by, Operation) else s.by.node for s in (first, second)]
    later = duration(max(0, second.asked_ns - first.known_ns))
    return f"{who[0]} said {first.low!r}.", f"{later} later {who[1]} said {second.low!r}."


def sorted_out(findings: Iterable[Finding], chances: Mapping[Rule, Rows | int]) -> list[Judged]:
    """Return what each of these rules found, by the chances of each; the first takes what has no rule of its own."""
    own: dict[str, list[Finding]] = {rule.anomaly: [] for rule in chances}
    of_none = next(iter(own.values()))
    for finding in findings:
        own.get(finding.anomaly, of_none).append(finding)
    return [rule.tally(own[rule.anomaly], number) for rule, number in chances.items()]


def verdict(  # noqa: PLR0913  # everything that a verdict is made of
    facts: Facts,
    *judged: Judged,
    broken: str = "",
    doubt: Doubt | None = None,
    exposed: Rows | Traced[int] | None = None,
    exposure_of: str = "",
    untested: str = "",
    kept: str = "",
    shown: Sequence[Finding] | None = None,
    figures: Figures = MappingProxyType({}),
    proofs: Sequence[VerdictProof] = (),
    complete: bool = False,
) -> Verdict:
    """Return the verdict on the guarantee of the first rule, by the plan's threshold of exposure.

    `broken`, `untested` and `kept` are the reasons of an invalid verdict, of one with too little exposure, and of a
    valid one. `exposed` are the times that the guarantee was tested: by default the chances of the first rule. If no
    rule could have fired, the verdict is `unknown`, whatever the exposure. `shown` become witnesses, by default a few
    findings, one of each anomaly first. `figures`, `proofs` and `complete` mean the same as in `Verdict`.
    """
    first = judged[0]
    findings = [finding for each in judged for finding in each.findings]
    anomalies = violations(findings)
    counts = {name: number.value for name, number in anomalies.items()}
    tests = first.chances if exposed is None else exposed
    exposure = tests if isinstance(tests, Traced) else Traced(tests) if isinstance(tests, int) else tally(tests)
    exposure_of = exposure_of or first.rule.tested
    # A violation was a chance, however chances are counted.
    rules = tuple(
        rule(each.rule.anomaly, max(each.number, counts.get(each.rule.anomaly, 0)), each.rule.lacking)
        for each in judged
    )
    validity, reason, cause = conclude(
        broken=(broken or in_words(counts)) if findings else "",
        doubt=doubt,
        untested=too_few(exposure.value, exposure_of, facts, untested or first.rule.lacking) or no_chance(rules, facts),
        kept=kept or f"{exposure.value} {exposure_of}, and no violation",
    )
    return Verdict(
        checker=first.rule.name,
        guarantee=first.rule.name,
        validity=validity,
        reason=reason,
        cause=cause,
        exposure=exposure,
        exposure_of=exposure_of,
        rules=rules,
        anomalies=anomalies,
        witnesses=tuple(f.witness() for f in (one_of_each_first(findings)[:WITNESSES_MAX] if shown is None else shown)),
        figures=dict(figures),
        proofs=tuple(proofs),
        complete=complete,
    )
