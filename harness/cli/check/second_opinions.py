"""`fencepost check --also TOOL`: which tools are asked, what they said, and what that does to the exit code."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from fencepost.harness.base.errors import ExitCode, UsageError
from fencepost.harness.base.quantities import parse_duration_ns
from fencepost.harness.base.signals import interruptible
from fencepost.harness.history import History
from fencepost.harness.interchange.second_opinion.asking import ask, check_names, commands_of
from fencepost.harness.interchange.second_opinion.opinion import Opinion, ToolQuestion, ToolStanding
from fencepost.harness.verdict import Validity

if TYPE_CHECKING:
    from fencepost.harness.interchange.formats.family import Family
    from fencepost.harness.judging.judgement import Judgement

#: The checker of a run that judges what other tools judge too, and the model by which they do.
_OF_A_RUN: Final = {"linearizable": "cas-register", "list-append": "list-append", "rw-register": "rw-register"}
#: Of the document that `--json` prints.
FIELD: Final = "second_opinions"


class OtherTools(msgspec.Struct, frozen=True, kw_only=True):
    """The checkers of `--also`, the commands that start them, and how long each may take."""

    names: tuple[str, ...]
    commands: dict[str, str]
    time_limit_s: float

    def opinions(self, question: ToolQuestion) -> tuple[Opinion, ...]:
        """Ask each tool; Ctrl-C and SIGTERM end the tool and remove its files."""
        with interruptible():
            return ask(self.names, question, time_limit_s=self.time_limit_s, commands=self.commands)


def other_tools(also: Sequence[str], also_command: Sequence[str], also_time_limit: str) -> OtherTools:
    """Check the flags before anything is judged; raises UsageError. A tool with a command is asked, too."""
    commands = commands_of(also_command)
    names = tuple(dict.fromkeys((*also, *commands)))
    check_names(names)
    limit_ns = parse_duration_ns(also_time_limit, what="--also-time-limit")
    if limit_ns <= 0:
        raise UsageError(f"--also-time-limit {also_time_limit!r} leaves no time", hint="give a longer one, such as 60s")
    return OtherTools(names=names, commands=commands, time_limit_s=limit_ns / 1e9)


def question_of_run(history: History, judgement: "Judgement") -> ToolQuestion:
    """What a run's plan asked that other tools can be asked; else what it asked, which they will not know."""
    verdict = next((v for v in judgement.verdicts if v.checker in _OF_A_RUN), None)
    return ToolQuestion(
        events=history.events,
        operations=history.operations,
        model=_OF_A_RUN[verdict.checker] if verdict else judgement.facts.workload,
        guarantee=verdict.guarantee if verdict else judgement.facts.read_guarantee,
        validity=verdict.validity if verdict else judgement.validity,
    )


def question_of_file(history: History, family: "Family", validity: Validity) -> ToolQuestion:
    """What was asked of a history that stands alone."""
    return ToolQuestion(
        events=history.events,
        operations=history.operations,
        model=family.name,
        parameter=family.parameter,
        guarantee=family.guarantee,
        validity=validity,
    )


def say_opinions(opinions: Sequence[Opinion], *, as_json: bool) -> None:
    """Beside our verdict on stdout; with `--json`, where the document has them, on stderr."""
    for opinion in opinions:
        click.echo(opinion_line(opinion), err=as_json)
        if opinion.hint:
            click.echo(f"hint: {opinion.hint}", err=True)
    sys.stdout.flush()


def opinion_line(opinion: Opinion) -> str:
    """One tool's word on one line."""
    theirs = opinion.validity.value if opinion.validity else ""
    match opinion.standing:
        case ToolStanding.AGREES:
            outcome = f"{theirs}, as ours"
        case ToolStanding.DISAGREES:
            outcome = f"{theirs.upper()}, but ours is {opinion.ours.value.upper()}: one of the two is mistaken"
        case ToolStanding.UNDECIDED:
            outcome = f"{theirs}, and ours is {opinion.ours.value}: nothing to compare"
        case ToolStanding.NO_ANSWER:
            outcome = f"no answer: {opinion.reason}"
        case ToolStanding.SKIPPED:
            outcome = f"not asked: {opinion.reason}"
    took = f" ({opinion.took_s:.2f} s)" if opinion.standing is not ToolStanding.SKIPPED else ""
    return f"second opinion of {opinion.tool} on {opinion.guarantee}: {outcome}{took}"


def exit_code(ours: int, opinions: Sequence[Opinion]) -> int:
    """Ours, unless a tool contradicts it: then a defect of one of the two, and neither verdict may stand."""
    return int(ExitCode.INTERNAL) if any(o.standing is ToolStanding.DISAGREES for o in opinions) else ours


def with_opinions(document: dict[str, Any], opinions: Sequence[Opinion], ours: int) -> dict[str, Any]:
    """The document with the opinions, and with the exit code that they make; as it is when nobody was asked."""
    if not opinions:
        return document
    return {
        **document,
        **({"exit_code": exit_code(ours, opinions)} if "exit_code" in document else {}),
        FIELD: [msgspec.to_builtins(opinion) for opinion in opinions],
    }
