"""The text form of cases: a short history, and what a checker must say of it (`tests/cases/*.case`).

    checker lease                                   of every case below, until the next such line; or mechanisms
    facts workload=lease nodes=["n1","n2"]          likewise; changes to `tests.checkers.build.facts`
    promises watch-ordered measures log-order       the guarantees, in place of those of `facts`
    let eleven ["changes",11]                       a value that `$eleven` stands for
    story granted                                   lines that several cases have in common
      90..100 n1 grant lease-1 -> ["abc",3000]
    case a lease that nobody keeps ends             the claim; what it is tested by follows
      # why it is so
      given granted                                 the lines of these stories first; `facts`, `promises`: more of them
      6000..6010 n1 look bound strong -> []
      => valid: lease-ends 1                        the answer, written by `UPDATE_CASES=1`: guarantees with exposure,
      | lease-ends.reason = "..."                   anomalies with their witnesses' events; then what the case asks for
    case a case of several forms
      form the lease was kept                       lines and answer of one form, beside the lines that all have
        ...

A line of a history begins with its time in milliseconds: `10`, `10..20`, or `10..` for what never ended. `0..900/300`
is each of 0, 300, 600 and 900, `0..900/300+5` the same with 5 ms each; several times stand with commas. Events at one
time keep the order of their lines. Then comes one of:

    10..20 n1 write x 5 pos=7 p=3       an operation that ended `ok`; `p`: its process, without it one of its own;
                                        `-> 6`: the answer, where it is not the value; `fail fenced`, `info timeout`:
                                        not ok, with its error; `-` in place of the key: none
    10..20 n1 leads 3 | denies | silent the node's answer to the question whether it leads, asked at 10
    10 n1 logs 3                        its log says that epoch 3 began
    10 n1 started | ready | exited      its process
    10 phase main
    10-11..20-21 fault pause n1,n2      inject begun and proven, heal begun and proven; one number is both; no node: `-`
    10..20 n1 clock wall rate=2.0       changed in this time
    10 sample loop_lag_ns_max=1ms       any other event by its tag and its fields

Without a time stands what was found on disks: `on-disk n1,n2 7 3 topic name=t1` is an entry of the logs of both, at
offset 7 and of epoch 3; `in-snapshot`: of their snapshots; `on-disk n1 start_offset=3` is about a log itself.

Values are JSON or bare words; 0x10 and 5ms (in ns) are whole numbers.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.harness.history import Clock, Event, History, NodeChange, NodeLog
from fencepost.harness.verdict import Facts
from tests.checkers import build

Fields = dict[str, Any]
#: An event's time in ms, its tag, its fields.
Told = tuple[float, str, Fields]
KINDS: Final = {kind.__struct_config__.tag: kind for kind in Event.__args__}
CLAIMS: Final = {"leads": "yes", "denies": "no", "silent": "silent"}
#: Short names of fields that most operations have.
SHORT: Final = {"pos": "position", "vpos": "value_position"}
_STEPS: Final = (("inject", "begin"), ("inject", "end"), ("heal", "begin"), ("heal", "end"))
_NAME: Final = re.compile(r"\$([a-z0-9-]+)")


class Form(msgspec.Struct):
    """One history with its answer: a case, or one form of it. `ends`: the last line of the file before the answer."""

    path: Path
    name: str
    line: int
    checker: str
    facts: Fields
    told: list[str]
    answer: list[str] = []
    ends: int = 0

    def history(self) -> History:
        return history_of(self.told)


class MalformedCase(Exception):
    """A line that the language does not have."""


def read(path: Path) -> list[Form]:
    """Read the cases of one file.

    Raises:
        MalformedCase: names the line.
    """
    reader = _Reader(path)
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            reader.take(number, line)
        except (ValueError, KeyError, TypeError) as error:
            raise MalformedCase(f"{path.name}:{number}: {line.strip()!r}: {error!r}") from error
    if reader.unused:
        raise MalformedCase(f"{path.name}: no case uses {', '.join(sorted(reader.unused))}")
    return reader.forms()


class _Reader:
    """Takes one line after the other."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._top = self._empty()
        self._stories: dict[str, list[str]] = {}
        self._forms: list[Form] = []
        self._divided: set[int] = set()
        self._names: dict[str, str] = {}
        #: Stories that no case has begun with so far.
        self.unused: set[str] = set()
        self._case = self._top
        self._form = self._top

    def _empty(self) -> Form:
        return Form(path=self._path, name="", line=0, checker="", facts={}, told=[])

    def forms(self) -> list[Form]:
        """Every history with its answer; a case that has forms is none itself."""
        return [form for form in self._forms if form.line not in self._divided]

    def take(self, number: int, text: str) -> None:
        line = _NAME.sub(lambda match: self._names[match[1]], text.strip())
        word, _, rest = line.partition(" ")
        if word in ("=>", "|"):
            if not self._form.line:
                raise ValueError("an answer without a case")
            self._form.ends = self._form.ends if self._form.answer else number - 1
            self._form.answer.append(text.strip())
        elif not line or word.startswith("#"):
            return
        elif word == "form":
            if not self._case.line:
                raise ValueError("a form without a case")
            self._divided.add(self._case.line)
            self._form = self._begin(number, f"{self._case.name} / {rest or number}", self._case)
        elif text.startswith(" "):
            if self._form.answer:
                raise ValueError("behind an answer begins the next form or case")
            self._form.ends = number
            self._tell(word, rest, line)
        elif word == "case":
            self._case = self._form = self._begin(number, rest, self._top)
        elif word == "story":
            self.unused.add(rest)
            self._form = msgspec.structs.replace(self._top, told=self._stories.setdefault(rest, []))
        elif word == "let":
            name, _, value = rest.partition(" ")
            self._names[name] = value
        else:
            if word == "checker":
                self._top = self._empty()
            self._form = self._top
            self._tell(word, rest, line)

    def _begin(self, number: int, name: str, base: Form) -> Form:
        form = msgspec.structs.replace(base, name=name, line=number, told=list(base.told), answer=[], ends=number)
        self._forms.append(form)
        return form

    def _tell(self, word: str, rest: str, line: str) -> None:
        form = self._form
        match word:
            case "checker":
                form.checker = rest
            case "facts":
                _, given = split(rest)
                if not form.checker or given.keys() - set(Facts.__struct_fields__):
                    raise ValueError("no such facts, or no checker that they are for")
                form.facts = {**form.facts, **given}
            case "promises":
                names, _, measured = rest.partition("measures ")
                standings = {**dict.fromkeys(names.split(), "promised"), **dict.fromkeys(measured.split(), "measured")}
                form.facts = {**form.facts, "guarantees": [_guarantee(*item) for item in standings.items()]}
            case "given":
                for name in rest.split(", "):
                    form.told += self._stories[name]
                    self.unused.discard(name)
            case _:
                if form is self._top:
                    raise ValueError("a history stands in a case, a form or a story")
                form.told.append(line)
                history_of([line])  # what it does not know it refuses here, where the number of the line is known


def _guarantee(name: str, standing: str) -> Fields:
    return {"name": name, "standing": standing, "text": name, "source": "a test"}


def facts_of(form: Form) -> Facts:
    """What the checker must know beside the history."""
    return msgspec.convert({**msgspec.to_builtins(build.facts()), **form.facts}, Facts)


def history_of(lines: list[str]) -> History:
    """The history that the lines tell."""
    disks: dict[str, Fields] = {}
    told = [(round(at_ms * build.MS), kind, fields) for at_ms, kind, fields in _told(lines, disks)]
    told.sort(key=lambda event: event[0])
    history = History([_event(i, *event) for i, event in enumerate(told)])
    history.logs = {node: msgspec.convert(log, NodeLog) for node, log in disks.items()}
    return history


def _keep(disks: dict[str, Fields], where: str, words: list[Any], fields: Fields) -> None:
    """Add an entry to the logs of some nodes; without a position the fields are those of the logs themselves."""
    nodes, *place = words
    for node in nodes.split(","):
        log = disks.setdefault(node, {"node": node, "start_offset": 0, "entries": [], "snapshot": []})
        if place:
            offset, epoch, kind = place
            entry = {"offset": offset, "epoch": epoch, "type": kind, "fields": fields}
            log["entries" if where == "on-disk" else "snapshot"].append(entry)
        else:
            log.update(fields)


def _event(index: int, time_ns: int, kind: str, fields: Fields) -> Event:
    known = KINDS[kind]
    unknown = fields.keys() - set(known.__struct_fields__)
    if unknown:
        raise ValueError(f"{kind} has no {', '.join(sorted(unknown))}")
    event: Event = msgspec.convert({**fields, "kind": kind, "index": index, "time_ns": time_ns}, known)
    return event


def _told(lines: list[str], disks: dict[str, Fields]) -> Iterator[Told]:
    """Every event of the lines; `disks` gets what stands on them."""
    process, faults = 1000, 0
    for line in lines:
        when, _, rest = line.partition(" ")
        words, fields = split(rest)
        if when in ("on-disk", "in-snapshot"):
            _keep(disks, when, words, fields)
        elif words[0] == "fault":
            yield from _fault(when, words[1:], {"fault_id": faults, **fields})
            faults += 1
        else:
            for start, end in _times(when):
                process += 1
                yield from _one(start, end, words, fields, process)


def _one(start: float, end: float | None, words: list[Any], fields: Fields, process: int) -> Iterator[Told]:
    subject, verb = words[0], words[1] if len(words) > 1 else ""
    if verb in CLAIMS:
        asked = {"subject": "leader", "incarnation": 0, "source": "a test", "asked_ns": build.ns(start)}
        answer = {"node": subject, "claims": CLAIMS[verb], "answered_ns": build.ns(end or start)}
        epoch = {"epoch": words[2]} if words[2:] else {}
        yield end or start, "belief", {**asked, **answer, **epoch, **fields}
    elif verb == "logs":
        yield start, "epoch", {"node": subject, "incarnation": 0, "source": "log", "epoch": words[2], **fields}
    elif verb == "clock":
        since = {"asked_ns": build.ns(start), "since_ns": build.ns(start), "incarnation": 0}
        yield end or start, "clock", {"node": subject, "clock": Clock(words[2]), **since, **fields}
    elif verb in list(NodeChange):
        yield start, "node", {"node": subject, "change": verb, "incarnation": 0, **fields}
    elif subject == "phase":
        yield start, "phase", {"phase": verb}
    elif len(words) == 1 and subject in KINDS:
        yield start, subject, fields
    else:
        yield from _operation(start, end, words, fields, process)


def _operation(start: float, end: float | None, words: list[Any], fields: Fields, process: int) -> Iterator[Told]:
    node, f, key, *more = words
    value = more.pop(0) if more and more[0] not in ("->", "fail", "info") else None
    outcome = more.pop(0) if more and more[0] in ("fail", "info") else "ok"
    stamps = {SHORT.get(name, name): given for name, given in fields.items() if name != "p"}
    same = {"process": fields.get("p", process), "f": f, "node": node, "key": None if key == "-" else key}
    if more and more[0] != "->":
        stamps["error"] = more.pop(0)
    answer = more[1] if more else value
    if more[2:]:
        raise ValueError(f"{more[2:]} behind the value")
    yield start, "op", {**same, "type": "invoke", "value": value}
    if end is not None:
        yield end, "op", {**same, "type": outcome, "value": answer, **stamps}


def _fault(when: str, words: list[Any], fields: Fields) -> Iterator[Told]:
    injected, _, healed = when.partition("..")
    moments = [*_pair(injected), *(_pair(healed) if healed else (None, None))]
    fault, nodes = words
    links = [pair.partition("<>") for pair in fields.pop("severed", "").split(",") if pair]
    # `n1<>n2`: in both directions.
    severed = [
        f"{a}>{b}"
        for one, both, other in links
        for a, b in ([(one, other), (other, one)] if both else [one.split(">")])
    ]
    outcomes = ("pending", fields.pop("outcome", "installed"), "pending", fields.pop("healed", "healed"))
    same = {
        "fault": fault,
        "target": "leader",
        "nodes": [] if nodes == "-" else nodes.split(","),
        "severed": severed,
        "effects": None,
        **fields,
    }
    for at_ms, (action, stage), outcome in zip(moments, _STEPS, outcomes, strict=True):
        if at_ms is not None:
            yield at_ms, "fault", {**same, "action": action, "stage": stage, "outcome": outcome}


def _pair(text: str) -> tuple[float, float | None]:
    begin, dash, end = text.partition("-")
    return float(begin), float(end) if end else None if dash else float(begin)


def _times(text: str) -> Iterator[tuple[float, float | None]]:
    for part in text.split(","):
        start, dots, end = part.partition("..")
        last, _, step = end.partition("/")
        if step:
            every, _, length = step.partition("+")
            for i in range(int((float(last) - float(start)) // float(every)) + 1):
                at_ms = float(start) + i * float(every)
                yield at_ms, at_ms + float(length or 0)
        else:
            yield float(start), float(end) if end else None if dots else float(start)


def split(text: str) -> tuple[list[Any], Fields]:
    """The words of a line, and its fields `name=value`, in the order of the line."""
    words: list[Any] = []
    fields: Fields = {}
    at = 0
    while at < len(text):
        name = re.compile(r"([a-z_]+)=").match(text, at)
        value, end = _value(text, name.end() if name else at)
        if name:
            fields[name[1]] = value
        else:
            words.append(value)
        at = end + 1
    return words, fields


def _value(text: str, at: int) -> tuple[Any, int]:
    """The value that begins at `at`, and where it ends."""
    if text[at : at + 1] in ("[", "{", '"'):
        return json.JSONDecoder().raw_decode(text, at)
    word = re.compile(r"\S*").match(text, at)
    assert word
    return _plain(word[0]), word.end()


def _plain(word: str) -> Any:
    if re.fullmatch(r"0x[0-9a-f]+", word):
        return int(word, 16)
    if re.fullmatch(r"[\d.]+ms", word):
        return build.ns(float(word.removesuffix("ms")))
    if re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?|true|false|null", word):
        return json.loads(word)
    return word
