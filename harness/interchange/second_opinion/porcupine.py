"""Porcupine (github.com/anishathalye/porcupine), through a small Go program of ours that is built on first use.

The program's source is in porcupine_go. The user's own `go` builds it with the user's settings for proxy, checksum
database and caches; the cache folder keeps the program under the digest of its source.

It reads operations as columns of numbers (history.go, steps.go). What writes them shares no code with our own checker's
input: a second opinion that shares the reader would share its mistakes. It leaves out operations that constrain
nothing: failed ones, and reads of unknown outcome.
"""

import hashlib
import json
import platform
import shutil
import tempfile
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.harness.base.errors import MachineError
from fencepost.harness.history import Operation, Outcome
from fencepost.harness.interchange.second_opinion.opinion import LINEARIZABLE, ToolAnswer, ToolQuestion, ToolSkip
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


#: Numbers of a register's functions: read, write, cas; other objects use the same numbers for their functions.
_READ: Final = 0
_WRITE: Final = 1
_CAS: Final = 2
_ADD: Final = 1
_REMOVE: Final = 2
_CONTAINS: Final = 3
_LACKS: Final = 4
_ACQUIRE: Final = 0
_RELEASE: Final = 1
_ENQUEUE: Final = 0
_DEQUEUE: Final = 1
_EMPTY: Final = 2
_TOKENS: Final = ("fence", "token", ":fence", ":token")


class _Layout:
    """The rows that go into a file."""

    def __init__(self) -> None:
        self._keys: dict[str | None, int] = {}
        self._values: dict[bytes, int] = {b"null": 0}
        self._columns = [array("q") for _ in range(6)]
        self.elements = array("q")

    def number(self, value: Any) -> int:
        """Return the number of a value, by its text as JSON; nil is 0."""
        return self._values.setdefault(msgspec.json.encode(value, order="deterministic"), len(self._values))

    def nobodys(self) -> int:
        """Return a number that no value has."""
        return self._values.setdefault(b"", len(self._values))

    def add(self, op: Operation, f: int, a: int = 0, b: int = 0) -> None:
        returned = op.complete_index if is_ok(op) and op.complete_index is not None else -1
        row = (self._keys.setdefault(op.key, len(self._keys)), f, a, b, op.invoke_index, returned)
        for column, number in zip(self._columns, row, strict=True):
            column.append(number)

    def write(self, file: Path, model: str, permits: int) -> None:
        header = {
            "model": model,
            "rows": len(self._columns[0]),
            "keys": len(self._keys),
            "elements": len(self.elements),
            "permits": permits,
        }
        with file.open("wb") as stream:
            stream.write(json.dumps(header).encode() + b"\n")
            for column in (*self._columns, self.elements):
                stream.write(column.tobytes())


def is_ok(op: Operation) -> bool:
    return op.type is Outcome.OK and op.complete_index is not None


def _register(layout: _Layout, op: Operation) -> None:
    if op.f == "read":
        if is_ok(op):
            layout.add(op, _READ, layout.number(op.result))
    elif op.f == "write":
        layout.add(op, _WRITE, layout.number(op.value))
    elif op.f == "cas":
        layout.add(op, _CAS, layout.number(op.value[0]), layout.number(op.value[1]))


def _counter(layout: _Layout, op: Operation) -> None:
    if op.f == "read":
        if is_ok(op):
            layout.add(op, _READ, _small(op.result))
    else:
        by = _small(1 if op.value is None else op.value)
        layout.add(op, _ADD, -by if op.f == "decrement" else by)


def _small(number: int) -> int:
    """Refuse a number so large that a history's sum could overflow 64 bits."""
    if abs(number) >= 2**40:
        raise ToolSkip(f"its sums have 64 bits, and {number} is added or read")
    return number


def _lock(layout: _Layout, op: Operation, number: int = 0) -> None:
    layout.add(op, _ACQUIRE if op.f == "acquire" else _RELEASE, number)


def _fenced_mutex(layout: _Layout, op: Operation) -> None:
    if op.f == "release":
        layout.add(op, _RELEASE, op.process)
    elif is_ok(op):
        value = op.result
        if isinstance(value, dict):
            value = next(value[name] for name in _TOKENS if name in value)
        layout.add(op, _ACQUIRE, op.process, value)


def _queue(layout: _Layout, op: Operation) -> None:
    if op.f == "drain":
        raise ToolSkip("a drain takes many steps, and it has no model for that", "leave out the drains")
    if op.f == "enqueue":
        layout.add(op, _ENQUEUE, layout.number(op.value))
    elif is_ok(op) and op.result is None:
        layout.add(op, _EMPTY)
    else:
        layout.add(op, _DEQUEUE, layout.number(op.result) if is_ok(op) else 0)


def _set(layout: _Layout, op: Operation) -> None:
    if op.f in ("add", "remove"):
        layout.add(op, _ADD if op.f == "add" else _REMOVE, layout.number(op.value))
    elif is_ok(op) and op.f == "contains":
        layout.add(op, _CONTAINS if op.result else _LACKS, layout.number(op.value))
    elif is_ok(op):
        shown = [layout.number(element) for element in op.result]
        if len(set(shown)) < len(shown):
            shown = [layout.nobodys()]  # no set holds an element twice
        layout.add(op, _READ, len(layout.elements), len(shown))
        layout.elements.extend(shown)


#: For each model of ours: the program's name for it, and the function that writes its operations.
MODELS: Final[Mapping[str, tuple[str, Callable[[_Layout, Operation], None]]]] = {
    "register": ("register", _register),
    "cas-register": ("register", _register),
    "counter": ("counter", _counter),
    "queue": ("queue", _queue),
    "mutex": ("mutex", _lock),
    "owner-mutex": ("owner-mutex", lambda layout, op: _lock(layout, op, op.process)),
    "fenced-mutex": ("fenced-mutex", _fenced_mutex),
    "semaphore": ("semaphore", lambda layout, op: _lock(layout, op, 1 if op.value is None else op.value)),
    "grow-only-set": ("set", _set),
    "add-remove-set": ("set", _set),
}


def write(file: Path, model: str, operations: Iterable[Operation], *, permits: int = 1) -> None:
    """Write the operations to `file`; raise Skip for operations that the program cannot express."""
    name, add = MODELS[model]
    layout = _Layout()
    for op in operations:
        if op.type is not Outcome.FAIL:
            add(layout, op)
    layout.write(file, name, permits)
