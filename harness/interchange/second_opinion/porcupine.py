"""Porcupine (github.com/anishathalye/porcupine), by a small Go program of ours that is built on first use.

The program's source stands in porcupine_go. It is built by the user's own `go`, with its proxy,
checksum database and caches as they are set, and kept in the cache folder under the digest of the source.
"""

import hashlib
import json
import platform
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import MachineError
from fencepost.harness.interchange.second_opinion.layout import MODELS, write
from fencepost.harness.interchange.second_opinion.opinion import LINEARIZABLE, Answer, Question
from fencepost.harness.runtime.artifacts import tool
from fencepost.harness.runtime.artifacts.cache import kept, key_of, say
from fencepost.harness.verdict import Validity

SOURCE: Final = Path(__file__).with_name("porcupine_go")
PROGRAM: Final = "second_opinion"
MEMORY_BYTES: Final = 4 << 30
#: As main.go has them.
OUT_OF_MEMORY: Final = 3
OUT_OF_TIME: Final = 4
_SAYS: Final = {"Ok": Validity.VALID, "Illegal": Validity.INVALID, "Unknown": Validity.UNKNOWN}
_BUILD_TIMEOUT_S: Final = 300.0
#: For starting it and reading the file; the program itself keeps the limit of the check.
_GRACE_S: Final = 10.0


class Porcupine:
    """The tool, as `--also porcupine` names it."""

    def models(self) -> Mapping[str, Sequence[str]]:
        return {LINEARIZABLE: tuple(MODELS)}

    def ask(self, question: Question, time_limit_s: float, command: str | None) -> Answer:
        program = built()
        with tempfile.TemporaryDirectory(prefix="fencepost-opinion-") as folder:
            file = Path(folder) / "history"
            write(file, question.model, question.operations, permits=int(question.parameter or 1))
            try:
                ended = tool.wait_for_end(
                    [str(program), "check", str(file), f"{time_limit_s:g}", str(MEMORY_BYTES)],
                    timeout_s=time_limit_s * 2 + _GRACE_S,
                )
            except OSError as error:
                raise MachineError(f"{program} does not start: {error.strerror}", hint="remove it") from None
        return _answer(ended, time_limit_s)


def _answer(ended: tool.Ended, time_limit_s: float) -> Answer:
    if ended.status in (OUT_OF_TIME, None):
        return Answer(validity=None, reason=f"no answer within {time_limit_s:g} s")
    if ended.status == OUT_OF_MEMORY:
        return Answer(validity=None, reason=f"no answer within {MEMORY_BYTES >> 30} GiB of memory")
    try:
        validity = _SAYS[json.loads(ended.stdout)["result"]]
    except (ValueError, KeyError, TypeError):
        last = tool.last_lines(ended.stderr).splitlines()
        return Answer(validity=None, reason=f"it ended with {ended.status}" + (f": {last[-1]}" if last else ""))
    if validity is Validity.UNKNOWN:
        return Answer(validity=None, reason=f"no answer within {time_limit_s:g} s")
    return Answer(validity=validity)


def built() -> Path:
    """The program, built if this source never was; raises MachineError without `go` or where the build fails."""
    sources = sorted(path for path in SOURCE.iterdir() if path.suffix in (".go", ".mod", ".sum"))
    digests = [f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in sources]
    key = key_of("porcupine", [*digests, platform.system(), platform.machine()])
    return kept("go", key, _build) / PROGRAM


def _build(target: Path) -> None:
    what = "building the program that asks Porcupine"
    go = tool.found("go")
    if go is None:
        raise MachineError(f"{what}: there is no `go` on the PATH", hint="install Go 1.19 or newer")
    say(f"{what}, once")
    with tempfile.TemporaryDirectory(prefix="fencepost-go-") as name:
        folder = Path(name) / "source"
        shutil.copytree(SOURCE, folder)
        tool.run(
            [go, "build", "-trimpath", "-o", str(target / PROGRAM), "."],
            what=what,
            timeout_s=_BUILD_TIMEOUT_S,
            hint="is there a network, and does `go env GOPROXY` name a proxy that it reaches?",
            cwd=folder,
            environment={"CGO_ENABLED": "0", "GOWORK": "off"},
        )
