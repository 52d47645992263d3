"""`fencepost gate`: the flags made values, the runs that a policy needs carried out, and the decision in words."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from fencepost.campaigns.commands.carrying_out import carry_out, night_options, say_end, wishes_of
from fencepost.campaigns.gate.decision import decide
from fencepost.campaigns.gate.demand import demand_of
from fencepost.campaigns.gate.documents import PAGE, document, files_of
from fencepost.campaigns.gate.evidence import GateEvidence, MeasureFiles
from fencepost.campaigns.gate.planned import Candidate, PlannedGate, plan_gate
from fencepost.campaigns.gate.requirement import Decision, RequirementKind, RequirementStatus
from fencepost.campaigns.night.documents import Files
from fencepost.campaigns.night.night import Night
from fencepost.campaigns.night.pool import Demand, WaitingRun
from fencepost.campaigns.night.session import NightWishes
from fencepost.campaigns.night.strategy import Strategy
from fencepost.campaigns.night.telling import finding_lines, from_here
from fencepost.harness.cli.output.help import Documented, HelpExample, PathValue, pairs

EXAMPLES = (
    HelpExample(
        "fencepost gate docs/how-to/policy.toml --candidate 1.0.0 --baseline 1.0.0 --budget 10m",
        "Hold the example system to a small policy",
    ),
    HelpExample(
        "fencepost gate docs/how-to/policy.toml --candidate 1.0.0 --baseline 1.0.0 -O defect=stale-reads",
        "The same with a defect switched on: red",
    ),
    HelpExample(
        "fencepost gate docs/how-to/policy.toml --candidate 1.0.0 --baseline 1.0.0 --resume",
        "Go on where a gate was stopped or killed",
    ),
)


class GateStrategy(Strategy):
    """Makes the runs that a policy still needs."""

    page = PAGE

    def __init__(self, gate: PlannedGate) -> None:
        issues = [each.issue for each in gate.policy.exceptions if each.fingerprint]
        super().__init__(gate.policy.name, gate.campaign, gate.checked, issues=issues)
        self._policy = gate.policy

    def open(self, folder: Path, say: Callable[[str], None]) -> None:
        super().open(folder, say)
        self._measures = MeasureFiles(folder)

    def evidence(self, night: Night) -> GateEvidence:
        """Collect what a night shows by now."""
        return self._measures.evidence(self._policy, night)

    def demand(self, night: Night, turn: WaitingRun) -> Demand:
        return demand_of(self.evidence(night), turn)

    def files(self, night: Night, expected_end_s: float | None = None) -> Files:
        return files_of(self.evidence(night), self.folder, expected_end_s)


def run_gate(gate: PlannedGate, wishes: NightWishes, *, resume: bool, as_json: bool) -> int:
    """Make the runs that the policy needs; returns the gate's exit code."""
    strategy = GateStrategy(gate)
    night = carry_out(strategy, wishes, resume=resume)
    evidence = strategy.evidence(night)
    decision = decide(evidence)
    folder, made = strategy.folder, document(evidence, decision) if as_json else None
    say_end(night, folder / PAGE, _lines(decision, folder), made)
    return int(decision.exit_code)


def _lines(decision: Decision, folder: Path) -> Iterator[str]:
    indent = " " * 14
    for each in decision.requirements:
        yield f"  {each.status.sign} {each.status:9} {each.name}: {each.need}"
        yield f"{indent}{each.reason}"
        if each.status is RequirementStatus.FAILED and each.kind is RequirementKind.CELL:
            yield from (f"{indent}{line}" for a in each.attempts for line in finding_lines(a, from_here(folder)))
    yield from (f"  not shown: {text}" for text in decision.reach)
    if decision.is_certainly_red:
        yield "Red is certain, so it stopped early."
    yield f"{'green' if decision.is_green else 'RED'}: {decision.sentence}"


@click.command("gate", cls=Documented, examples=EXAMPLES)
@click.argument("policy", type=PathValue(), metavar="POLICY")
@click.option(
    "--candidate",
    required=True,
    metavar="RELEASE|PATH|IMAGE",
    help="What is tested. On containers, a name with a colon or a slash is an image.",
)
@click.option("--baseline", default="", metavar="RELEASE", help="What the policy's budgets compare with.")
@click.option(
    "-O",
    "--system-option",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the candidate's system, not of the baseline's. May be repeated.",
)
@night_options
def command(policy: Path, candidate: str, baseline: str, system_option: tuple[str, ...], **flags: Any) -> int:
    """Decide whether a candidate meets a policy.

    POLICY names required cells, guarantees with the number of tests that each needs, canaries, budgets against a
    baseline, and exceptions. The gate makes the runs that are missing, stops early when red is certain, and writes
    gate.html, gate.json and junit.xml below results/nights.

    Exits 0 green, 1 for a violation without an exception, an expired exception or an exceeded budget, 2 when evidence
    is missing (a run, a canary, tests of a guarantee, pairs for a budget), 130 stopped twice, 254 refused before the
    start.
    """
    again = ["gate", str(policy), "--candidate", candidate]
    again += ["--baseline", baseline] * bool(baseline)
    for text in system_option:
        again += ["-O", text]
    gate = plan_gate(
        policy, Candidate(name=candidate, baseline=baseline, options=pairs(system_option, "--system-option"))
    )
    resume, as_json = flags.pop("resume"), flags.pop("as_json")
    return run_gate(gate, wishes_of(again, **flags), resume=resume, as_json=as_json)
