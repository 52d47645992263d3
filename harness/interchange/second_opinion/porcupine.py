"""Porcupine (github.com/anishathalye/porcupine), through a small Go program of ours that is built on first use.

The program's source is in porcupine_go. The user's own `go` builds it with the user's settings for proxy, checksum
database and caches; the cache folder keeps the program under the digest of its source.
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
from fencepost.harness.interchange.second_opinion.opinion import LINEARIZABLE, ToolAnswer, ToolQuestion
from fencepost.harness.runtime.artifacts import kept, key_of, say, tool
from fencepost.harness.verdict import Validity

SOURCE: Final = Path(__file__).with_name("porcupine_go")
PROGRAM: Final = "second_opinion"
MEMORY_BYTES: Final = 4 << 30
#: The same values as in main.go.
OUT_OF_MEMORY: Final = 3
OUT_OF_TIME: Final = 4
_SAYS: Final = {"Ok": Validity.VALID, "Illegal": Validity.INVALID, "Unknown": Validity.UNKNOWN}
_BUILD_TIMEOUT_S: Final = 300.0
#: Extra time to start the program and to read the file; the program itself enforces the limit of the check.
_GRACE_S: Final = 10.0


class Porcupine:
    """The tool that `--also porcupine` asks."""

    def models(self) -> Mapping[str, Sequence[str]]:
        return {LINEARIZABLE: tuple(MODELS)}

    def ask(self, question: ToolQuestion, time_limit_s: float, command: str | None) -> ToolAnswer:
        program = built()
        with tempfile.TemporaryDirectory(prefix="fencepost-opinion-") as folder:
            file = Path(folder) / "history"
            write(file, question.model, question.operations, permits=int(question.parameter or 1))
            try:
                argv = [str(program), "check", str(file), f"{time_limit_s:g}", str(MEMORY_BYTES)]
                ended = tool.wait_for_end(tool.Command(argv=argv, timeout_s=time_limit_s * 2 + _GRACE_S))
            except OSError as error:
                raise MachineError(f"{program} does not start: {error.strerror}", hint="remove it") from None
        return _answer(ended, time_limit_s)


def _answer(ended: tool.ToolEnd, time_limit_s: float) -> ToolAnswer:
    if ended.status in (OUT_OF_TIME, None):
        return ToolAnswer(validity=None, reason=f"no answer within {time_limit_s:g} s")
    if ended.status == OUT_OF_MEMORY:
        return ToolAnswer(validity=None, reason=f"no answer within {MEMORY_BYTES >> 30} GiB of memory")
    try:
        validity = _SAYS[json.loads(ended.stdout)["result"]]
    except (ValueError, KeyError, TypeError):
        last = tool.last_lines(ended.stderr).splitlines()
        return ToolAnswer(validity=None, reason=f"it ended with {ended.status}" + (f": {last[-1]}" if last else ""))
    if validity is Validity.UNKNOWN:
        return ToolAnswer(validity=None, reason=f"no answer within {time_limit_s:g} s")
    return ToolAnswer(validity=validity)


def built() -> Path:
    """Return the program, and build it first if need be; raise MachineError without `go` or if the build fails."""
    sources = sorted(path for path in SOURCE.iterdir() if path.suffix in (".go", ".mod", ".sum"))
    digests = [f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in sources]
    key = key_of("porcupine", [*digests, platform.system(), platform.machine()])
    return kept("go", key, _build) / PROGRAM


def _build(target: Path) -> None:
    what = "building the program that asks Porcupine"
    go = tool.path_of("go")
    if go is None:
        raise MachineError(f"{what}: there is no `go` on the PATH", hint="install Go 1.19 or newer")
    say(f"{what}, once")
    with tempfile.TemporaryDirectory(prefix="fencepost-go-") as name:
        folder = Path(name) / "source"
        shutil.copytree(SOURCE, folder)
        argv = [go, "build", "-trimpath", "-o", str(target / PROGRAM), "."]
        environment = {"CGO_ENABLED": "0", "GOWORK": "off"}
        tool.run(
            tool.Command(argv=argv, timeout_s=_BUILD_TIMEOUT_S, cwd=folder, environment=environment),
            what=what,
            hint="check that the network works, and that the proxy named by `go env GOPROXY` can be reached",
        )
