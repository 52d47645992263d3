"""`fencepost gate`: the flags made values, the runs that a policy needs carried out, and the decision in words."""

import sys
from pathlib import Path
from typing import Any

import click

from fencepost.campaigns.commands.carrying_out import NightStrategy, carry_out, night_options, wishes_of
from fencepost.campaigns.gate.decision import decide
from fencepost.campaigns.gate.demand import demand_of
from fencepost.campaigns.gate.documents import PAGE, GateDocuments, document
from fencepost.campaigns.gate.evidence import GateEvidence, MeasureFiles
from fencepost.campaigns.gate.planned import Candidate, PlannedGate, plan_gate
from fencepost.campaigns.gate.requirement import Decision, RequirementKind, RequirementStatus
from fencepost.campaigns.night.night import Night
from fencepost.campaigns.night.pool import Demand, WaitingRun
from fencepost.campaigns.night.session import InFolder, NightWishes
from fencepost.campaigns.night.telling import about, finding_lines, from_here
from fencepost.harness.cli.output.help import Documented, HelpExample, PathValue, pairs, print_document
from fencepost.harness.cli.output.progress import shorten

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


def run_gate(gate: PlannedGate, wishes: NightWishes, *, resume: bool, as_json: bool) -> int:
    """Make the runs that the policy needs; returns the gate's exit code."""

    def opened(folder: Path, say: object) -> InFolder:
        files = MeasureFiles(folder)

        def demand(night: Night, turn: WaitingRun) -> Demand:
            return demand_of(files.evidence(gate.policy, night), turn)

        return InFolder(demand, GateDocuments(gate.policy, files))

    strategy = NightStrategy(
        name=gate.policy.name,
        campaign=gate.campaign,
        checked=gate.checked,
        cells=gate.checked.cells,
        issues=[each.issue for each in gate.policy.exceptions if each.fingerprint],
        page=PAGE,
        opened=opened,
    )
    folder, night = carry_out(strategy, wishes, resume=resume)
    evidence = MeasureFiles(folder).evidence(gate.policy, night)
    decision = decide(evidence)
    _say(evidence, decision, folder, as_json=as_json)
    return int(decision.exit_code)


def _say(evidence: GateEvidence, decision: Decision, folder: Path, *, as_json: bool) -> None:
    if as_json:
        print_document(document(evidence, decision))
        return
    for each in decision.requirements:
        click.echo(f"  {each.status.sign} {each.status:9} {each.name}: {each.need}")
        click.echo(f"              {each.reason}")
        if each.status is RequirementStatus.FAILED and each.kind is RequirementKind.CELL:
            for line in (line for a in each.attempts for line in finding_lines(a, from_here(folder))):
                click.echo(f"              {line}")
    for text in decision.reach:
        click.echo(f"  not shown: {text}")
    if decision.is_certainly_red:
        click.echo("Red is certain, so it stopped early.")
    click.echo(f"{'green' if decision.is_green else 'RED'}: {decision.sentence}")
    sys.stdout.flush()
    sys.stderr.write(f"{about(evidence.night)}\npage: {shorten(str(folder / PAGE))}\n")
    if evidence.night.command:
        sys.stderr.write(f"repeat with: {evidence.night.command}\n")


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
