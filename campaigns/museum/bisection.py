"""`fencepost bisect`: in which release a bug of the museum begins or ends.

Releases stand in order, each is tested until it is decided, and the next one is chosen by halving. Each is a night of
one cell below results/nights/bisect-ID; a later command reads what earlier ones measured, so one that was stopped is
given again and goes on.

A release is tested by Wald's sequential test ("Sequential Tests of Statistical Hypotheses", 1945): either the bug
shows in `share` of its runs, estimated from the exhibit's measured rate, or in `FALSE_SHARE` of them at most. It stops
as soon as one of the two is out of question. The risk of a wrong answer is split over all tests of a bisection, so the
answer as a whole keeps `RISK`, on condition that no bad release shows the bug more rarely than `share`.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

import click
import msgspec

from fencepost.campaigns.commands.carrying_out import carry_out
from fencepost.campaigns.museum.documents import rate_in_words
from fencepost.campaigns.museum.exhibits import TRIES_MAX, Exhibit, all_exhibits, chosen
from fencepost.campaigns.museum.museum import SightingFiles, Tally, tally_below, tally_of
from fencepost.campaigns.night.cells import NightCell, cell_id, checked_cell
from fencepost.campaigns.night.night import Night, NightState
from fencepost.campaigns.night.pool import Demand, WaitingRun
from fencepost.campaigns.night.session import NightWishes
from fencepost.campaigns.night.strategy import CellStrategy
from fencepost.harness.base.errors import ExitCode, MachineError, UsageError
from fencepost.harness.base.quantities import parse_budget_s
from fencepost.harness.cli.output.help import Documented, HelpExample, seed_or_drawn, shared_flags
from fencepost.harness.findings.rate import Rate
from fencepost.harness.plan.checked_plan import CheckedPlan
from fencepost.harness.plugins import registry

#: The chance that the answer of a bisection is wrong, at most.
RISK: Final = 0.05
#: So often a release without the bug may show its fingerprint, for another reason.
FALSE_SHARE: Final = 0.01
#: A share near 1 would call a release clean after one run.
_SHARE_MAX: Final = 0.9


class ReleaseState(StrEnum):
    BAD = "bad"
    CLEAN = "clean"
    OPEN = "undecided"


class SequentialTest(msgspec.Struct, frozen=True, kw_only=True):
    """The test of one release: `share` of the runs of a bad one show the bug; `risk` of a wrong answer either way."""

    share: float
    risk: float

    def state(self, rate: Rate) -> ReleaseState:
        """What `rate` says of a release."""
        clean = rate.runs - rate.seen
        likelihood = rate.seen * math.log(self.share / FALSE_SHARE)
        likelihood += clean * math.log((1 - self.share) / (1 - FALSE_SHARE))
        bound = math.log((1 - self.risk) / self.risk)
        if abs(likelihood) < bound:
            return ReleaseState.OPEN
        return ReleaseState.BAD if likelihood > 0 else ReleaseState.CLEAN

    @property
    def clean_runs(self) -> int:
        """After so many runs without the bug a release is clean."""
        return next(n for n in range(1, 10_000) if self.state(Rate(0, n)) is ReleaseState.CLEAN)


def sequential_test(rate: Rate, releases: int) -> SequentialTest:
    """The test for a bug that was measured at `rate`, where a bisection has so many releases to choose from."""
    tests = 2 + max(1, math.ceil(math.log2(max(2, releases - 1))))
    return SequentialTest(share=min(_SHARE_MAX, (rate.seen + 0.5) / (rate.runs + 1)), risk=RISK / tests)


class Bisection(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: `last` is the last release like the first one, `turn` the first one that is not.

    `skipped` are releases between the two that could not be decided, each with the reason. Without `turn` the ends do
    not differ as was said, or could not be decided: `problem` says so.
    """

    last: str = ""
    turn: str = ""
    skipped: Mapping[str, str] = {}
    problem: str = ""


def bisect(
    releases: Sequence[str], first: ReleaseState, decide: Callable[[str], tuple[ReleaseState, str]]
) -> Bisection:
    """Find where releases, in order, change from the state of the `first` one to the other.

    Args:
        decide: tests a release; its state, and why it is open where it is.
    """
    wanted = {releases[0]: first, releases[-1]: _other(first)}
    for release, claim in wanted.items():
        state, why = decide(release)
        if state is not claim:
            about = f" ({why})" if why else ""
            return Bisection(problem=f"{release} was to be {claim}, and is {state}{about}")
    low, high, skipped = 0, len(releases) - 1, dict[str, str]()
    while untried := [n for n in range(low + 1, high) if releases[n] not in skipped]:
        middle = min(untried, key=lambda n: (abs(2 * n - low - high), n))
        state, why = decide(releases[middle])
        if state is ReleaseState.OPEN:
            skipped[releases[middle]] = why
        elif state is first:
            low = middle
        else:
            high = middle
    between = {releases[n]: skipped[releases[n]] for n in range(low + 1, high)}
    return Bisection(last=releases[low], turn=releases[high], skipped=between)


def _other(state: ReleaseState) -> ReleaseState:
    return ReleaseState.BAD if state is ReleaseState.CLEAN else ReleaseState.CLEAN


EXAMPLES = (
    HelpExample(
        "fencepost bisect etcd-single-member --bad 3.5.1 --good 3.5.13",
        "Which release repaired it, and which had it last",
    ),
    HelpExample("fencepost bisect etcd-loses-writes --bad 3.5.1 --good 3.5.4 --budget 2h", "One that shows rarely"),
    HelpExample(
        "fencepost bisect etcd-single-member --bad 3.5.4 --good build/b --builds 3.5.4,build/a,build/b",
        "Between builds of your own",
    ),
)


class ReleaseStrategy(CellStrategy):
    """Makes runs of one release until its test is decided, by `earlier` runs too."""

    def __init__(
        self,
        campaign: str,
        cell: tuple[NightCell, CheckedPlan],
        exhibit: Exhibit,
        earlier: Tally,
        test: SequentialTest,
    ) -> None:
        super().__init__(cell[0].name, [cell], campaign)
        self._cell, self._exhibit, self._earlier, self._test = cell[0].id, exhibit, earlier, test

    def open(self, folder: Path, say: Callable[[str], None]) -> None:
        super().open(folder, say)
        self._sightings = SightingFiles(folder)

    def tally(self, night: Night) -> Tally:
        """What the runs of this night say."""
        return tally_of(night, self._cell, self._exhibit, self._sightings)

    def demand(self, night: Night, turn: WaitingRun) -> Demand:
        is_open = self._test.state((self._earlier + self.tally(night)).rate) is ReleaseState.OPEN
        return Demand.NOW if is_open else Demand.NEVER


class ReleaseTests:
    """Tests the releases of one bisection, within its budget."""

    def __init__(self, exhibit: Exhibit, test: SequentialTest, wishes: NightWishes) -> None:
        self._exhibit, self._test, self._wishes = exhibit, test, wishes
        self._ends = time.monotonic() + wishes.budget_s
        self._runs = test.clean_runs + TRIES_MAX
        self.stopped = False

    def decide(self, release: str) -> tuple[ReleaseState, str]:
        """Test a release until it is decided; else why it is not."""
        name = f"bisect-{self._exhibit.id}"
        plan = self._exhibit.on(release)
        earlier = tally_below(self._wishes.nights / name, cell_id(plan), self._exhibit)
        tally, why = earlier, ""
        left_s = self._ends - time.monotonic()
        if self._test.state(tally.rate) is ReleaseState.OPEN and left_s > 0 and not self.stopped:
            try:
                cell = checked_cell(f"{self._exhibit.id} {release}", plan, runs=self._runs)
                # Each session draws its own seeds: the same runs again would say nothing new.
                seed = self._wishes.seed + len(earlier.sightings)
                wishes = msgspec.structs.replace(self._wishes, budget_s=left_s, seed=seed)
                strategy = ReleaseStrategy(name, cell, self._exhibit, earlier, self._test)
                night = carry_out(strategy, wishes)
            except (MachineError, UsageError) as error:
                why = error.message
            else:
                self.stopped = night.state is NightState.STOPPED
                tally += strategy.tally(night)
        state = self._test.state(tally.rate)
        undecided = f", {tally.undecided} runs without a decision" if tally.undecided else ""
        click.echo(f"  {release}: {state}, {rate_in_words(tally.rate)}{undecided}{f': {why}' if why else ''}")
        return state, why or f"{rate_in_words(tally.rate)}{undecided}"


def releases_between(exhibit: Exhibit, good: str, bad: str, builds: Sequence[str]) -> tuple[str, ...]:
    """Those to test, in order, both ends with them; raises UsageError for an end that is not among them."""
    known = tuple(builds) or registry.system(exhibit.system).releases.known()
    for flag, release in (("--good", good), ("--bad", bad)):
        if release not in known:
            hint = "name it in --builds" if builds else "`fencepost list systems` has the releases; or give --builds"
            raise UsageError(f"{flag} {release}: it is not among the releases to test", hint=hint)
    if good == bad:
        raise UsageError(f"--good and --bad are both {good}", hint="give two releases")
    low, high = sorted((known.index(good), known.index(bad)))
    return known[low : high + 1]


@click.command("bisect", cls=Documented, examples=EXAMPLES)
@click.argument("exhibit", metavar="EXHIBIT")
@click.option("--good", required=True, metavar="RELEASE", help="A release without the bug.")
@click.option("--bad", required=True, metavar="RELEASE", help="A release with it.")
@click.option(
    "--builds", default="", metavar="LIST", help="Releases or paths in order, joined by commas. Default: all known."
)
@shared_flags("seed", "results", budget="1h")
def command(exhibit: str, good: str, bad: str, builds: str, budget: str, seed: int | None, results: Path) -> int:
    """Find the release in which a bug begins or ends.

    Each release is run until the bug shows, or has stayed away so often that its measured rate is out of question;
    the next release is chosen by halving. Given again, it reads the earlier runs and goes on.

    Exits 0 when the release was found, 2 when the budget or a release left it open, 254 refused before the start.
    """
    (one,) = chosen(all_exhibits(), [exhibit])
    if one.unjudged:
        raise UsageError(f"{one.id} cannot be bisected: {one.unjudged}")
    releases = releases_between(one, good, bad, [part.strip() for part in builds.split(",") if part.strip()])
    test = sequential_test(one.bug_rate, len(releases))
    budget_s = parse_budget_s(budget)
    wishes = NightWishes(budget_s=budget_s, seed=seed_or_drawn(seed), results=results, jobs=1)
    click.echo(
        f"{len(releases)} releases; one is clean after {test.clean_runs} runs without the bug, "
        f"if it shows in {100 * test.share:.0f} % of the runs of a bad one"
    )
    first = ReleaseState.BAD if releases[0] == bad else ReleaseState.CLEAN
    answer = bisect(releases, first, ReleaseTests(one, test, wishes).decide)
    click.echo(in_words(answer, first))
    return int(ExitCode.VALID if answer.turn and not answer.skipped else ExitCode.UNKNOWN)


def in_words(answer: Bisection, first: ReleaseState) -> str:
    """The answer in one sentence, with its certainty."""
    if answer.problem:
        return f"undecided: {answer.problem}"
    certainty = f"certainty at least {100 * (1 - RISK):.0f} %"
    if answer.skipped:
        names = ", ".join(f"{name} ({why})" for name, why in answer.skipped.items())
        return f"it changes between {answer.last} and {answer.turn} ({certainty}); open between them: {names}"
    if first is ReleaseState.CLEAN:
        return f"first bad release: {answer.turn}; {answer.last} is clean ({certainty})"
    return f"last bad release: {answer.last}; {answer.turn} is clean ({certainty})"
