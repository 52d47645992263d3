"""Knossos and Elle: commands that the user has installed, such as elle-cli, which contains both.

The contract (docs/how-to/second-opinions.md): we call the command with `--model MODEL`, options if need be, and one or
more EDN files, each a history of one object; for each file it prints a line with the file's name, then `true`, `false`
or `unknown`. `knossos.cli` and elle-cli do so. Neither splits keys, so each key of a history has its own file.

For Knossos a read of nil is a read with an unknown result. So if an operation reads nil or compares with nil, each file
begins with a write of a value that stands for nil: the question stays the same, and Knossos can answer it.
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
from fencepost.harness.interchange.second_opinion.opinion import ToolAnswer, ToolQuestion, ToolSkip
from fencepost.harness.runtime.artifacts import tool
from fencepost.harness.verdict import Validity

#: Replaces nil, the first value of every register. No history contains this keyword.
NOTHING: Final = ":fencepost/nothing"
#: The placeholder in a tool's options for the guarantee in question.
GUARANTEE: Final = "{guarantee}"
_SAYS: Final = {"true": Validity.VALID, "false": Validity.INVALID, "unknown": Validity.UNKNOWN}
#: The most files for one tool: command lines have a limit, and some tools start a JVM for each file.
_FILES_MAX: Final = 2000


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """One such tool. `asked` maps guarantee and model to the tool's own name of the model."""

    name: str
    programs: tuple[str, ...]
    questions: dict[str, dict[str, str]]
    options: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        return f"FENCEPOST_{self.name.upper()}"

    def models(self) -> Mapping[str, Sequence[str]]:
        return {guarantee: tuple(models) for guarantee, models in self.questions.items()}

    def ask(self, question: ToolQuestion, time_limit_s: float, command: str | None) -> ToolAnswer:
        command_line = self._command(command)
        model = self.questions[question.guarantee][question.model]
        with tempfile.TemporaryDirectory(prefix="fencepost-opinion-") as folder:
            files = _files(question, Path(folder))
            if len(files) > _FILES_MAX:
                raise ToolSkip(f"{len(files)} keys, each in its own file; at most {_FILES_MAX} files are possible")
            options = [question.guarantee if option == GUARANTEE else option for option in self.options]
            command_line += ["--model", model, *options, *map(str, files)]
            try:
                ended = tool.wait_for_end(tool.Command(argv=command_line, timeout_s=time_limit_s, cwd=Path(folder)))
            except OSError as error:
                raise ToolSkip(f"{command_line[0]} does not start: {error.strerror}", self._remedy()) from None
            return _answer(ended, files, time_limit_s)

    def _command(self, given: str | None) -> list[str]:
        """Return the user's command, else that of the variable, else a program with a known name on the PATH."""
        text = given or os.environ.get(self.variable, "")
        try:
            command_line = shlex.split(text)
        except ValueError as error:
            raise ToolSkip(f"the command {text!r}: {error}", self._remedy()) from None
        if command_line:
            return command_line
        for program in self.programs:
            path = shutil.which(program)
            if path is not None:
                return [path]
        raise ToolSkip(f"no {' or '.join(self.programs)} on the PATH", self._remedy())

    def _remedy(self) -> str:
        return (
            f'install elle-cli, or name its command: --also-command {self.name}="java -jar elle-cli.jar", '
            f"or set the variable {self.variable}"
        )


def _files(question: ToolQuestion, folder: Path) -> list[Path]:
    """Write the history as EDN: one file for each key, or one file if it has no keys."""
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
    """Yield the events without their key; if need be, a keyword replaces nil in a register."""
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
    """Return the value with `NOTHING` in place of nil, except for reads without a result."""
    if event.f == "read":
        return NOTHING if event.type is Outcome.OK and event.value is None else event.value
    if event.f == "write":
        return NOTHING if event.value is None else event.value
    if event.f == "cas" and event.value is not None:
        return [NOTHING if value is None else value for value in event.value]
    return event.value


def _answer(ended: tool.ToolEnd, files: Sequence[Path], time_limit_s: float) -> ToolAnswer:
    """Combine the answers: one `false` is enough for invalid; valid needs `true` for every file."""
    answers = {}
    for file in files:
        line = re.search(rf"^{re.escape(str(file))}\s+:?(true|false|unknown)\s*$", ended.stdout, re.MULTILINE)
        if line:
            answers[file] = _SAYS[line.group(1)]
    if Validity.INVALID in answers.values():
        return ToolAnswer(validity=Validity.INVALID)
    if ended.status is None:
        return ToolAnswer(validity=None, reason=f"no answer within {time_limit_s:g} s")
    if ended.status != 0 or len(answers) < len(files):
        last = tool.last_lines(ended.stdout + ended.stderr).splitlines()
        heard = f": {last[-1].strip()[:200]}" if last else ""
        return ToolAnswer(
            validity=None,
            reason=f"{len(answers)} of {len(files)} answers could be read; it ended with {ended.status}{heard}",
        )
    if Validity.UNKNOWN in answers.values():
        return ToolAnswer(validity=Validity.UNKNOWN, reason="it answered unknown")
    return ToolAnswer(validity=Validity.VALID)
