"""Every tool that can give a second opinion, and how it is asked.

A tool that is missing, or that lacks the model, is skipped with a remedy. A tool that fails, is late or prints
something unreadable gives no answer. Neither changes our verdict; only a clear contradiction does.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Final

from fencepost.harness.base.errors import MachineError, UsageError, unknown_choice
from fencepost.harness.interchange.second_opinion.installed import GUARANTEE, Installed
from fencepost.harness.interchange.second_opinion.opinion import (
    LINEARIZABLE,
    Opinion,
    Tool,
    ToolAnswer,
    ToolQuestion,
    ToolSkip,
    ToolStanding,
    standing,
)
from fencepost.harness.interchange.second_opinion.porcupine import Porcupine

#: Consistency models for which Elle and our checkers report the same anomalies under the same name.
_OF_ELLE: Final = (
    "strict-serializable",
    "serializable",
    "snapshot-isolation",
    "repeatable-read",
    "consistent-view",
    "read-committed",
    "read-uncommitted",
)
TOOLS: Final[Mapping[str, Tool]] = {
    "porcupine": Porcupine(),
    "knossos": Installed(
        name="knossos",
        programs=("knossos", "elle-cli"),
        questions={LINEARIZABLE: {"register": "cas-register", "cas-register": "cas-register", "mutex": "mutex"}},
    ),
    "elle": Installed(
        name="elle",
        programs=("elle-cli",),
        questions={guarantee: {"list-append": "list-append", "rw-register": "rw-register"} for guarantee in _OF_ELLE},
        options=("--consistency-models", GUARANTEE),
    ),
}


#: The model whose parameter the tools know.
_WITH_PERMITS: Final = "semaphore"


def commands_of(given: Sequence[str]) -> dict[str, str]:
    """Read `NAME=COMMAND` of each `--also-command`; raise UsageError for another shape."""
    commands = {}
    for text in given:
        name, mark, command = text.partition("=")
        if name == "porcupine":
            raise UsageError("--also-command porcupine: it has no command", hint="use --also porcupine")
        if name not in TOOLS:
            raise unknown_choice("tool", name, [tool for tool in TOOLS if tool != "porcupine"])
        if not mark or not command.strip():
            raise UsageError(
                f"--also-command {text!r}: expected NAME=COMMAND", hint='for example knossos="java -jar elle-cli.jar"'
            )
        commands[name] = command
    return commands


def check_names(names: Sequence[str]) -> None:
    """Raise UsageError for an unknown tool."""
    for name in names:
        if name not in TOOLS:
            raise unknown_choice("tool", name, list(TOOLS))


def check_asked(name: str, model: str, guarantee: str) -> None:
    """Raise Skip for a tool that does not know the model for that guarantee."""
    by_guarantee = TOOLS[name].models()
    if model not in by_guarantee.get(guarantee, ()):
        models = dict.fromkeys(known for of in by_guarantee.values() for known in of)
        about = f"{', '.join(models)}; for {', '.join(by_guarantee)}"
        raise ToolSkip(f"it has no model {model} for {guarantee}", f"{name} can judge {about}")


def ask(
    names: Sequence[str], question: ToolQuestion, *, time_limit_s: float, commands: Mapping[str, str]
) -> tuple[Opinion, ...]:
    """Ask each tool for its opinion, in this order; each tool has the whole time limit."""
    return tuple(_ask(name, question, time_limit_s, commands.get(name)) for name in dict.fromkeys(names))


def _ask(name: str, question: ToolQuestion, time_limit_s: float, command: str | None) -> Opinion:
    tool = TOOLS[name]
    began = time.monotonic()
    answer = ToolAnswer(validity=None)
    stands, hint = ToolStanding.SKIPPED, ""
    try:
        check_asked(name, question.model, question.guarantee)
        if question.parameter and question.model != _WITH_PERMITS:
            raise ToolSkip(f"it has no {question.model} that holds {question.parameter} at first", "use --initial")
        answer = tool.ask(question, time_limit_s, command)
        stands = standing(question.validity, answer.validity)
    except ToolSkip as skip:
        answer, hint = ToolAnswer(validity=None, reason=skip.reason), skip.hint
    except MachineError as error:
        answer, hint = ToolAnswer(validity=None, reason=error.message), error.hint or ""
    return Opinion(
        tool=name,
        standing=stands,
        ours=question.validity,
        guarantee=question.guarantee,
        validity=answer.validity,
        reason=answer.reason,
        hint=hint,
        took_s=round(time.monotonic() - began, 3),
    )
