"""A tiny language for histories: one case a line, one event a word, one millisecond a word.

    invalid stale-read: a:w1 a:w2 b:r1

The line begins with the verdict wanted and, when invalid, the anomalies. Then, with a letter for each caller:

    a:w1    invoke and complete `ok`: w1 writes 1; r1 reads and gets 1, r_ gets nothing; c1,2 compares 1 and sets 2;
            +1 adds 1 to a set; m1,2 reads a set's members and gets 1 and 2 (m_ none)
    a(w1    invoke only (a read is invoked bare: `a(r`, `a(m`; a critical section that adds 1: `a(k1`)
    a)      complete `ok`; `a)1` with the result (a read's value, members, a critical section's token)
    a!  a?  complete `fail`; `info` (the caller then goes on as a new process)
    a[  a]  the critical section's client now believes that it holds the lock; no longer
    |       healing is complete; what follows comes after it
    @x      at an invocation's end: on key x
    #       the rest of the line is a remark
"""

from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.harness.history import Event, History, OpEvent, Outcome, PhaseEvent, PhaseName, Value

FOLDER: Final = Path(__file__).parent
_MS: Final = 1_000_000
_FUNCTIONS: Final = {"w": "write", "r": "read", "c": "cas", "+": "add", "m": "members", "k": "critical"}


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a file, and what a checker must say of it."""

    name: str
    line: str
    verdict: str
    anomalies: tuple[str, ...]
    history: History


def cases(suffix: str) -> list[Case]:
    """Every case of the files `*.suffix`; a file is named for the bug that its cases show."""
    found = []
    for path in sorted(FOLDER.glob(f"*.{suffix}")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            text = line.partition("#")[0].strip()
            if text:
                wanted, _, words = text.partition(": ")
                verdict, *anomalies = wanted.split()
                found.append(
                    Case(
                        name=f"{path.name}:{number}",
                        line=text,
                        verdict=verdict,
                        anomalies=tuple(anomalies),
                        history=parse(words),
                    )
                )
    return found


def parse(words: str) -> History:
    """The history that the words tell."""
    teller = _Teller()
    for at_ms, word in enumerate(words.split(), start=1):
        teller.tell(word, at_ms * _MS)
    return History(teller.events)


class _Teller:
    """Turns words into events; a caller is a letter, played by one process after another."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._process: dict[str, int] = {}
        self._open: dict[str, OpEvent] = {}
        self._held: dict[str, list[int]] = {}

    def tell(self, word: str, time_ns: int) -> None:
        if word == "|":
            self.events.append(PhaseEvent(index=len(self.events), time_ns=time_ns, phase=PhaseName.SETTLE))
            return
        caller, mark, rest = word[0], word[1], word[2:]
        match mark:
            case ":":
                body, at, key = rest.partition("@")
                asked = body[0] if body[0] in "rm" else body
                self._invoke(caller, asked + at + key, time_ns)
                self._complete(caller, Outcome.OK, body[1:] if body[0] in "rm" else "", time_ns)
            case "(":
                self._invoke(caller, rest, time_ns)
            case ")":
                self._complete(caller, Outcome.OK, rest, time_ns)
            case "!":
                self._complete(caller, Outcome.FAIL, "", time_ns)
            case "?":
                self._complete(caller, Outcome.INFO, "", time_ns)
                del self._process[caller]
            case "[" | "]":
                self._held.setdefault(caller, []).append(time_ns)
            case _:
                raise ValueError(f"{word!r}: no such mark {mark!r}")

    def _invoke(self, caller: str, text: str, time_ns: int) -> None:
        body, _, key = text.partition("@")
        process = self._process.setdefault(caller, 100 * len(self.events) + ord(caller))
        node = f"n{ord(caller) % 3 + 1}"
        f = _FUNCTIONS[body[0]]
        value = None if f in ("read", "members") else _value(body[1:])
        self._open[caller] = self._event(Outcome.INVOKE, time_ns, process, f, node, key or "x", value)
        self._held.pop(caller, None)

    def _complete(self, caller: str, outcome: Outcome, result: str, time_ns: int) -> None:
        invoke = self._open.pop(caller)
        value: Value = invoke.value
        if outcome is Outcome.OK and invoke.f == "critical":
            value = [int(result), *self._held[caller]]
        elif outcome is Outcome.OK and invoke.f == "members":
            value = [] if result == "_" else [int(part) for part in result.split(",")]
        elif outcome is Outcome.OK and invoke.f == "read":
            value = _value(result)
        self._event(outcome, time_ns, invoke.process, invoke.f, invoke.node, invoke.key, value)

    def _event(self, outcome: Outcome, time_ns: int, *fields: Any) -> OpEvent:
        process, f, node, key, value = fields
        event = OpEvent(
            index=len(self.events), time_ns=time_ns, type=outcome, process=process, f=f, node=node, key=key, value=value
        )
        self.events.append(event)
        return event


def _value(text: str) -> Value:
    """1, [1, 2] for `1,2`, None for `_`."""
    parts = [None if part == "_" else int(part) for part in text.split(",")]
    return parts if len(parts) > 1 else parts[0]
