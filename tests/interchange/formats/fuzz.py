"""`python -m tests.interchange.formats.fuzz SECONDS [SEED]`: the readers against inputs that are mutated without end.

Whatever the bytes: the answer is a history or a UsageError that names a place; it does not depend on how the stream is
cut; and what was read, written and read again is the same. The input of a finding, or of a crash, is left in the folder
that is said at the start; what was found so far stands in `seeds/` and is tried by every test run.
"""

import io
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import UsageError
from fencepost.harness.history import Event, NoteEvent, pair
from fencepost.harness.interchange.formats.imported import Imported
from fencepost.harness.interchange.formats.jepsen import read_edn, write_edn
from fencepost.harness.interchange.formats.porcupine import read_porcupine, write_porcupine
from tests.interchange.formats.histories import edn

SEEDS: Final = Path(__file__).parent / "seeds"
_WORDS: Final = (
    *("{", "}", "[", "]", "(", ")", "#{", "#_", "#", "##NaN", "\\", '"', ";", "\n", " ", ",", ":", "/", "-", "+", "."),
    *("nil", "true", ":type", ":invoke", ":ok", ":fail", ":info", ":process", ":nemesis", ":f", ":value", ":read"),
    *(":write", ":cas", ":add", ":txn", ":time", ":index", ":error", ":node", "#inst", "#jepsen.history.Op", "1e9"),
    *("9" * 30, "0x7f", "1/3", "2.50M", "\\u00e9", "\\newline", '"\\ud83d\\ude00"', "ü", "\x00", "\xff", "[1 nil]"),
    *('"ClientId"', '"Input"', '"Call"', '"Return"', '"Output"', '"op"', '"value"', '"key"', '"unknown"', '"read"'),
)
_TEXTS: Final = (
    edn("0(w1 1(r 0) 1)1 0(w2 0? 2(r 2! 3(c1,2 3)"),
    edn("0(w[:x,1] 0) 1(r[:x,nil] 1)[:x,1] 1(r[:y,nil] 1)[:y,nil]"),
    edn("0(a1 0) 0(a2 0) 1(r 1)#{1,2}"),
    edn('0(w"a\\nb" 0) 1(r 1)"a\\nb"').replace("{:type", "#jepsen.history.Op{:type"),
    "[{:type :invoke, :f :txn, :value [[:append :x 1] [:r :y nil]], :process 0, :time 5, :index 0}\n"
    " {:type :ok, :f :txn, :value [[:append :x 1] [:r :y [1 2N]]], :process 0, :time 6, :index 1}]",
    '{:type :info, :process :nemesis, :f :kill, :value {"n1" #{:a \\b}, :at #inst "2026-11-22"}, '
    ':error #object[a 0x1 "b"]}',
    '[{"ClientId": 0, "Input": {"op": "write", "value": 1}, "Call": 0, "Output": {}, "Return": 10},\n'
    ' {"ClientId": 1, "Input": {"op": "read"}, "Call": 5, "Output": {"value": 1}, "Return": 15},\n'
    ' {"ClientId": 1, "Input": {"op": "cas", "from": 1, "to": 2}, "Call": 25, "Output": {"unknown": true}}]',
)


class Finding(Exception):
    """What must not be."""


def try_one(data: bytes) -> str:
    """Read `data` as every form; raises Finding. Says what the readers made of it."""
    return f"{_try_edn(data)} {_try_porcupine(data)}"


def _try_edn(data: bytes) -> str:
    whole = _outcome(read_edn, io.BytesIO(data))
    pieces = _outcome(read_edn, _Pieces(data))
    if isinstance(whole, str) or isinstance(pieces, str):
        if whole != pieces:
            raise Finding(f"whole: {whole}; in pieces: {pieces}")
        return "refused"
    if list(whole.history.events) != list(pieces.history.events):
        raise Finding("other events when read in pieces")
    kept = _operations(whole.history.events)
    text = "".join(write_edn(kept))
    again = read_edn(io.BytesIO(text.encode()), "again", model=whole.family.name, keyed=whole.keyed)
    if _plain(again.history.events) != _plain(kept):
        raise Finding(f"written and read again: {text}")
    return whole.family.name


def _try_porcupine(data: bytes) -> str:
    found = _outcome(read_porcupine, io.BytesIO(data))
    if isinstance(found, str):
        return "refused"
    operations = pair(found.history.events)
    text = "".join(write_porcupine(operations))
    again = read_porcupine(io.BytesIO(text.encode()), "again", model=found.family.name)
    kept = [op for op in operations if op.type != "fail"]
    if [(op.f, op.value, op.result, op.type) for op in pair(again.history.events)] != [
        (op.f, op.value, op.result, op.type) for op in kept
    ]:
        raise Finding(f"written and read again: {text}")
    return found.family.name


def _outcome(read: "Callable[..., Imported]", stream: object) -> Imported | str:
    try:
        return read(stream, "a")
    except UsageError as error:
        if not error.message.startswith("a: "):
            raise Finding(f"an error without its place: {error.message}") from error
        return error.message


def _operations(events: object) -> list[Event]:
    return [event for event in events if type(event) is not NoteEvent]  # type: ignore[attr-defined]


def _plain(events: object) -> list[object]:
    """Events without their numbers, which close up where notes were left out, and times that stood in for them."""
    return [
        (e.type, e.process, e.f, e.node, e.key, repr(e.value), e.error)  # type: ignore[union-attr]
        for e in _operations(events)
    ]


class _Pieces:
    """A stream that gives one to seven bytes at a time."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def read(self, size: int = -1) -> bytes:
        begun = self._at
        self._at += begun % 7 + 1
        return self._data[begun : self._at]


def mutate(data: bytes, others: list[bytes], draw: random.Random) -> bytes:
    """One to four small changes."""
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(data) + 1)
        to = min(len(data), at + draw.choice((1, 1, 2, 5, 20, 100)))
        match draw.randrange(6):
            case 0:
                data = data[:at] + data[to:]
            case 1:
                data = data[:at] + data[at:to] + data[at:]
            case 2:
                data = data[:at] + draw.choice(_WORDS).encode("latin-1", "replace") + data[to:]
            case 3:
                data = data[:at] + draw.choice(_WORDS).encode() + data[at:]
            case 4:
                data = data[:at] + bytes((draw.randrange(256),)) + data[at + 1 :]
            case _:
                other = draw.choice(others)
                begun = draw.randrange(len(other) + 1)
                data = data[:at] + other[begun : begun + 100] + data[to:]
    return data[:20_000]


def main(seconds: float, seed: int) -> int:
    draw = random.Random(seed)
    corpus = [text.encode() for text in _TEXTS] + [path.read_bytes() for path in sorted(SEEDS.glob("*"))]
    seen: set[str] = set()
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    print(f"seed {seed}; findings go to {folder}", flush=True)
    ends, tries, findings = time.monotonic() + seconds, 0, 0
    last = folder / "last"
    while time.monotonic() < ends:
        data = mutate(draw.choice(corpus), corpus, draw)
        last.write_bytes(data)  # what crashed the process is still there
        tries += 1
        try:
            said = try_one(data)
        except Exception as error:
            findings += 1
            (folder / f"finding-{findings}").write_bytes(data)
            print(f"finding {findings}: {type(error).__name__}: {error}"[:300], flush=True)
            continue
        shape = f"{said} {len(data).bit_length()}"
        if said != "refused refused" and (shape not in seen or draw.random() < 0.01) and len(corpus) < 2_000:
            seen.add(shape)
            corpus.append(data)
    last.unlink()
    print(f"{tries} inputs in {seconds:g} s, {len(corpus)} kept to mutate further, {findings} findings", flush=True)
    if not findings:
        folder.rmdir()
    return 1 if findings else 0


if __name__ == "__main__":
    raise SystemExit(main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1))
