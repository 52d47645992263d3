"""Knossos and Elle: command lines that the user has installed, such as elle-cli, which is both.

The contract (docs/second-opinions.md): the command is called with `--model MODEL`, perhaps options, and one or more EDN
files, each a history of one object; for each file it prints a line with the file's name, then `true`, `false` or
`unknown`. `knossos.cli` and elle-cli do so. A history of keys is a file for each key, since neither splits them.

In Knossos a read of nil is one whose result nobody knows. So where nil was read or compared with, each file begins with
a write of a value that stands for it: the same question, for which Knossos has an answer.
"""

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.harness.history import OpEvent, Outcome
from fencepost.harness.interchange.formats.jepsen import write_edn
from fencepost.harness.interchange.second_opinion.opinion import Answer, Question, Skip
from fencepost.harness.runtime.artifacts import tool
from fencepost.harness.verdict import Validity

#: Stands for nil, which every register holds at first. No history has this keyword.
NOTHING: Final = ":fencepost/nothing"
#: Stands in a tool's options for the guarantee that is asked about.
GUARANTEE: Final = "{guarantee}"
_SAYS: Final = {"true": Validity.VALID, "false": Validity.INVALID, "unknown": Validity.UNKNOWN}
#: A command line has its limits; and a JVM's start for each file has its price.
_FILES_MAX: Final = 2000


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """One such tool. `asked` names, by guarantee and model, the model as the tool has it."""

    name: str
    programs: tuple[str, ...]
    asked: dict[str, dict[str, str]]
    options: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        return f"FENCEPOST_{self.name.upper()}"

    def models(self) -> Mapping[str, Sequence[str]]:
        return {guarantee: tuple(models) for guarantee, models in self.asked.items()}

    def ask(self, question: Question, time_limit_s: float, command: str | None) -> Answer:
        words = self._command(command)
        model = self.asked[question.guarantee][question.model]
        with tempfile.TemporaryDirectory(prefix="fencepost-opinion-") as folder:
            files = _files(question, Path(folder))
            if len(files) > _FILES_MAX:
                raise Skip(f"{len(files)} keys, each a file of its own; at most {_FILES_MAX} are handed over")
            options = [question.guarantee if option == GUARANTEE else option for option in self.options]
            words += ["--model", model, *options, *map(str, files)]
            try:
                ended = tool.wait_for_end(words, timeout_s=time_limit_s, cwd=Path(folder))
            except OSError as error:
                raise Skip(f"{words[0]} does not start: {error.strerror}", self._remedy()) from None
            return _answer(ended, files, time_limit_s)

    def _command(self, given: str | None) -> list[str]:
        """What the user gave, else the variable, else a program of a known name on the PATH."""
        text = given or os.environ.get(self.variable, "")
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise Skip(f"the command {text!r}: {error}", self._remedy()) from None
        if words:
            return words
        for program in self.programs:
            path = shutil.which(program)
            if path is not None:
                return [path]
        raise Skip(f"no {' or '.join(self.programs)} on the PATH", self._remedy())

    def _remedy(self) -> str:
        return (
            f'install elle-cli, or say how it is called: --also-command {self.name}="java -jar elle-cli.jar", '
            f"or the variable {self.variable}"
        )


def _files(question: Question, folder: Path) -> list[Path]:
    """The history in EDN, a file for each key where it has keys."""
    shares: dict[str | None, list[OpEvent]] = {}
    for event in question.client_events():
        shares.setdefault(event.key, []).append(event)
    files = []
    for number, events in enumerate(shares.values()):
        files.append(folder / f"history-{number}.edn")
        with files[-1].open("w", encoding="utf-8") as file:
            file.writelines(write_edn(_one_object(events)))
    return files


def _one_object(events: Sequence[OpEvent]) -> Iterator[OpEvent]:
    """The events without their key, and with a name for nil where a register would otherwise have none."""
    change = msgspec.structs.replace
    if not any(_meets_nothing(event) for event in events):
        yield from (change(event, key=None) for event in events)
        return
    first = change(
        events[0],
        type=Outcome.INVOKE,
        process=1 + max(event.process for event in events),
        f="write",
        key=None,
        value=NOTHING,
        error=None,
    )
    yield first
    yield change(first, type=Outcome.OK)
    for event in events:
        yield change(event, key=None, value=_named(event))


def _meets_nothing(event: OpEvent) -> bool:
    if event.f == "read":
        return event.type is Outcome.OK and event.value is None
    return (event.f == "write" and event.value is None) or (event.f == "cas" and None in (event.value or ()))


def _named(event: OpEvent) -> Any:
    """The value with `NOTHING` for nil, but for reads that have no result."""
    if event.f == "read":
        return NOTHING if event.type is Outcome.OK and event.value is None else event.value
    if event.f == "write":
        return NOTHING if event.value is None else event.value
    if event.f == "cas" and event.value is not None:
        return [NOTHING if value is None else value for value in event.value]
    return event.value


def _answer(ended: tool.Ended, files: Sequence[Path], time_limit_s: float) -> Answer:
    """One `false` is an answer, whatever became of the others; `true` must be said of every file."""
    said = {}
    for file in files:
        line = re.search(rf"^{re.escape(str(file))}\s+:?(true|false|unknown)\s*$", ended.stdout, re.MULTILINE)
        if line:
            said[file] = _SAYS[line.group(1)]
    if Validity.INVALID in said.values():
        return Answer(validity=Validity.INVALID)
    if ended.status is None:
        return Answer(validity=None, reason=f"no answer within {time_limit_s:g} s")
    if ended.status != 0 or len(said) < len(files):
        last = tool.last_lines(ended.stdout + ended.stderr).splitlines()
        heard = f": {last[-1].strip()[:200]}" if last else ""
        return Answer(
            validity=None, reason=f"{len(said)} of {len(files)} answers understood; it ended with {ended.status}{heard}"
        )
    if Validity.UNKNOWN in said.values():
        return Answer(validity=Validity.UNKNOWN, reason="it says unknown")
    return Answer(validity=Validity.VALID)
