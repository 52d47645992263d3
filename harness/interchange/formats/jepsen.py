"""Reader and writer of Jepsen's EDN histories.

`:f` names the operation. In a keyed history (as by `jepsen.independent`) a value is [key value], and a read is invoked
with [key nil]; a history is keyed if every read is invoked in that way. An operation may instead name its key by `:key`
beside the value; a `:key` that no model would use is refused. The nemesis's operations become notes, so that event i of
the history is operation i of the file. docs/how-to/judge-other-histories.md has the whole mapping.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, BinaryIO, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from fencepost.harness.base.errors import UsageError
from fencepost.harness.history import (
    UNNAMED_NODE,
    Event,
    FaultEvent,
    NoteEvent,
    Operation,
    OpEvent,
    Outcome,
)
from fencepost.harness.interchange.formats.edn import (
    EdnEvents,
    edn_string,
    edn_text,
    form_text,
    is_edn,
    key_text,
    kind_of,
    malformed,
    plain,
)
from fencepost.harness.interchange.formats.family import SAMPLES_MAX, Family, ModelChoice, choose, tells
from fencepost.harness.interchange.formats.imported import (
    BATCH,
    CheckedEvents,
    Imported,
    ImportedHistory,
    InFile,
    check_values,
    conversions,
    elements_of,
    kinds_written,
)
from fencepost.harness.interchange.formats.operation_maps import MapReader, ReadingChoices, read_edn_rows

FORM: Final = "edn"
NEMESIS: Final = -1
_NONE: Final = 2**32 - 1
_INVOKE: Final = 0
_OK: Final = 1
_INFO: Final = 3
_OUTCOMES: Final = (Outcome.INVOKE, Outcome.OK, Outcome.FAIL, Outcome.INFO)
#: Functions without a key.
_KEYLESS: Final = ("sync", "txn")
#: The ends of the tags that may mark a pair of key and value.
_PAIR_TAGS: Final = ("tuple", "Tuple", "MapEntry")
#: Functions whose values a model compares: in invocations, in ok completions.
_WRITES: Final = ("write", "cas", "add")
_SEEN: Final = ("read",)
_STRINGS: Final = "key-value"
_NO_CHOICES: Final = ReadingChoices()
#: Functions that some tests give to transactions.
_TRANSACTIONS: Final = {"read", "write", "txn"}
_MICROS: Final = ("r", "w", "append")


def read_edn(
    stream: BinaryIO,
    source: str,
    *,
    model: ModelChoice = None,
    keyed: bool | None = None,
    choices: ReadingChoices = _NO_CHOICES,
    read_rows: MapReader = read_edn_rows,
) -> Imported:
    """Read and check the history in `stream`; `read_rows` reads another notation of the same operations.

    `model` is as `family.choose` takes it. Raises UsageError with the position for a history without a meaning.
    """
    columns, notes = read_rows(stream, source, choices)
    reading = _Reading(columns, source, notes)
    return msgspec.structs.replace(reading.imported(model, keyed), notes=tuple(notes))


class _Reading:
    """The conversion of columns into events.

    Size: each form that values can have is one check over the same columns, and its message names their rows.
    """

    def __init__(self, columns: EdnEvents, source: str, notes: list[str]) -> None:
        self.columns = columns
        self._source = source
        self._notes = notes
        self.forms: list[Any] = list(columns.forms)
        names = [form.text if is_edn(form) else form for form in self.forms]
        self._clients: NDArray[np.bool_] = columns.process != NEMESIS
        used = np.unique(columns.function[self._clients]).tolist()
        self.functions = {int(i): str(names[i]) for i in used}
        #: Whether operations name their key by `:key`, beside the value.
        self.named = bool((columns.key[self._clients] != _NONE).any())

    def imported(self, model: ModelChoice, keyed: bool | None) -> Imported:
        if self.named:
            self._check_named_keys(keyed)
        if "broadcast" in self.functions.values():
            self.functions = {i: "add" if f == "broadcast" else f for i, f in self.functions.items()}
            self._notes.append("a broadcast is taken for an add to a set")
        if self._are_transactions():
            named = sorted(set(self.functions.values()) - {"txn"})
            self._notes.append(f"operations {', '.join(named)} are transactions, by their values")
            self.functions = dict.fromkeys(self.functions, "txn")
        transactions = "txn" in self.functions.values() and not self._maps("txn")
        if transactions:
            self.forms = [_with_third(form) for form in self.forms]
        pairs = not transactions and not self.named and self._keyed(keyed, model)
        if pairs:
            rows = np.concatenate([self._rows(("cas",), kind) for kind in range(len(_OUTCOMES))])
            _pair_cas(self.forms, np.unique(self.columns.value[rows]).tolist(), self._notes)
        keys, values = self._split(pairs)
        family = choose(model, self.functions.values(), lambda f: self._samples(f, values), self._source)
        if not family.is_users:
            self._check_missing()
        if pairs:
            self._check_pairs()
        answers: dict[int, Any] = {}
        if family.checker and not family.is_users:
            kinds = self._check_kinds(pairs)
            ids = np.unique(self.columns.value[self._rows(("txn",), _INVOKE)]).tolist()
            requests = [self.forms[i] for i in ids if i != _NONE]
            answers = self._answers(family, pairs, kinds | kinds_written(requests))
        history = ImportedHistory(
            _EventRows(self, keys, values, answers, pairs),
            family,
            source=self._source,
            in_file=InFile(self._line_and_column, lambda row: _value_text(self.columns, row)),
        )
        check_values(history, self._place)
        return Imported(history=history, form=FORM, keyed=pairs)

    # --- reading the columns

    def _place(self, row: int) -> str:
        return f"{self._source}: {self._line_and_column(row)}"

    def _line_and_column(self, row: int) -> str:
        return f"line {self.columns.line[row]}, column {self.columns.column[row]}"

    def _wrong(self, row: int, message: str) -> UsageError:
        return malformed(self._source, int(self.columns.line[row]), int(self.columns.column[row]), message)

    def _rows(self, functions: Iterable[str], kind: int) -> NDArray[np.int64]:
        """Return the clients' rows of this type and of these functions."""
        of = np.zeros(len(self.columns.kind), np.bool_)
        for i, name in self.functions.items():
            if name in functions:
                of |= self.columns.function == i
        return np.flatnonzero(of & self._clients & (self.columns.kind == kind))

    def _samples(self, f: str, values: list[Any]) -> list[Any]:
        # The request of a transaction also shows what it does; a failed transaction may have nothing else.
        requests = self._rows((f,), _INVOKE).tolist() if f == "txn" else []
        ids = (int(self.columns.value[row]) for row in [*requests, *self._rows((f,), _OK).tolist()])
        return list(islice((values[i] for i in ids if i != _NONE and tells(f, values[i])), SAMPLES_MAX))

    def _are_transactions(self) -> bool:
        """Whether operations are transactions by every request, whatever their `:f`."""
        named = set(self.functions.values()) - {"txn"}
        ids = np.unique(self.columns.value[self._rows(_TRANSACTIONS, _INVOKE)]).tolist()
        is_all = ids and all(i != _NONE and _is_transaction(self.forms[i]) for i in ids)
        return bool(named and named < _TRANSACTIONS and is_all)

    def _maps(self, f: str) -> bool:
        """Say whether the requests of a function are maps."""
        ids = self.columns.value[self._rows((f,), _INVOKE)].tolist()
        forms = (self.forms[i] for i in ids if i != _NONE)
        return all(is_edn(form) and form.kind == "map" for form in forms if form is not None)

    # --- keys

    def _keyed(self, keyed: bool | None, model: ModelChoice) -> bool:
        """Say whether values are [key value]; the user's choice `keyed` wins."""
        if keyed is not None:
            return keyed
        # What a user's model gets may be a pair of its own.
        of_strings = model is None or (isinstance(model, str) and model.partition(":")[0] == _STRINGS)
        reads = self._rows((*_SEEN, "get") if of_strings else _SEEN, _INVOKE)
        if len(reads):
            wrong = np.isin(self.columns.value[reads], self._unpaired(self.columns.value[reads]))
            if wrong.any() and not wrong.all():
                row = int(reads[np.argmax(wrong)])
                raise self._wrong(row, "a read without a key among reads with one; expected [key nil], or nil, in all")
            return not wrong.any()
        writes = self.columns.value[self._rows(_WRITES, _INVOKE)]
        if len(writes) and not len(self._unpaired(writes)):
            example = edn_text(plain(self.forms[int(writes[0])]))
            raise UsageError(
                f"{self._source}: no read shows whether values such as {example} are [key value]",
                hint="choose --keyed or --no-keyed",
            )
        return False

    def _unpaired(self, ids: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return those of the values that are not [key value]."""
        unpaired = [i for i in np.unique(ids).tolist() if i == _NONE or _pair(self.forms[i]) is None]
        return np.array(unpaired, dtype=np.int64)

    def _split(self, pairs: bool) -> tuple[list[str | None], list[Any]]:
        """Return every form as a key and as a value; with `pairs`, return the two parts of each pair."""
        keys: list[str | None] = []
        values: list[Any] = []
        for form in self.forms:
            both = _pair(form) if pairs else None
            keys.append(key_text(form) if self.named else key_text(both[0]) if both else None)
            values.append(plain(both[1] if both else form))
        return keys, values

    # --- refusals

    def _first_named(self) -> int:
        return int(np.argmax(self._clients & (self.columns.key != _NONE)))

    def _check_named_keys(self, keyed: bool | None) -> None:
        """Check that every request with a key names one, all of one kind, and that the others name none."""
        if keyed:
            raise self._wrong(self._first_named(), "a :key, although --keyed says that values are [key value]")
        key, clients = self.columns.key, self._clients
        keyless = np.isin(self.columns.function, [i for i, f in self.functions.items() if f in _KEYLESS])
        has = clients & keyless & (key != _NONE)
        if has.any():
            raise self._wrong(int(np.argmax(has)), "a :key on an operation that has no key, or several keys")
        lacks = clients & ~keyless & (self.columns.kind == _INVOKE) & (key == _NONE)
        if lacks.any():
            raise self._wrong(int(np.argmax(lacks)), "an operation without :key among some that have one")
        first: dict[str, tuple[str, int]] = {}
        rows = np.flatnonzero(clients & (key != _NONE) & (self.columns.kind == _INVOKE))
        for i, at in zip(*(column.tolist() for column in np.unique(key[rows], return_index=True)), strict=True):
            self._check_kind("key", self.forms[i], int(rows[at]), first)

    def _check_missing(self) -> None:
        """Check that every request that must have a value has one."""
        rows = self._rows((*_WRITES, "txn"), _INVOKE)
        lacking = rows[self.columns.value[rows] == _NONE]
        if len(lacking):
            raise self._wrong(int(lacking[0]), "an operation without :value; expected :type, :process, :f and :value")

    def _check_pairs(self) -> None:
        keyed = [f for f in self.functions.values() if f not in _KEYLESS]
        rows = self._rows(keyed, _INVOKE)
        ids = self.columns.value[rows]
        wrong = np.isin(ids, self._unpaired(ids))
        if wrong.any():
            raise self._wrong(int(rows[np.argmax(wrong)]), "a value without its key; expected [key value]")

    def _check_kinds(self, pairs: bool) -> set[str]:
        """Refuse requests with values, or keys, of two kinds, and return the kind of the values, if there is one.

        Those of two kinds may be equal as JSON but not in EDN, such as a keyword and its text.
        """
        first: dict[str, tuple[str, int]] = {}
        for rows, parts in (
            (self._rows(("write", "add", "remove", "contains", "enqueue", "append", "put", "create"), _INVOKE), _whole),
            (self._rows(("cas",), _INVOKE), elements_of),
            (self._rows(_SEEN, _INVOKE), _nothing),
        ):
            rows = rows[self.columns.value[rows] != _NONE]
            ids, at = np.unique(self.columns.value[rows], return_index=True)
            for i, place in zip(ids.tolist(), at.tolist(), strict=True):
                key, value = (_pair(self.forms[i]) or (None, None)) if pairs else (None, self.forms[i])
                for role, part in (("key", key), *(("value", part) for part in parts(value))):
                    self._check_kind(role, part, int(rows[place]), first)
        return {first["value"][0]} if "value" in first else set()

    def _answers(self, family: Family, pairs: bool, kinds: set[str]) -> dict[int, Any]:
        """Map forms to their values in ok answers, where another kind of value would look like one that was written.

        A keyword and its text, for example, are equal as JSON.
        """
        answers: dict[int, Any] = {}
        for f, convert in conversions(family, kinds).items():
            for i in np.unique(self.columns.value[self._rows((f,), _OK)]).tolist():
                form = None if i == _NONE else self.forms[i]
                pair = _pair(form) if pairs else None
                form = pair[1] if pair else form
                if type(form) is not int and form is not None:
                    answers[i] = convert(form)
        return answers

    def _check_kind(self, role: str, part: Any, row: int, first: dict[str, tuple[str, int]]) -> None:
        if part is None:
            return
        kind, line = first.setdefault(role, (kind_of(part), int(self.columns.line[row])))
        if kind_of(part) != kind:
            shown = edn_text(plain(part))[:80]
            raise self._wrong(row, f"the {role} {shown} is {kind_of(part)}; expected {kind} as in line {line}")


class _EventRows(CheckedEvents):
    """The events of columns, each made when it is asked for: of a valid history most never are."""

    def __init__(
        self, reading: "_Reading", keys: list[str | None], values: list[Any], answers: dict[int, Any], pairs: bool
    ) -> None:
        self._columns, self._functions, forms = reading.columns, reading.functions, reading.forms
        self._keys, self._values, self._answers = [*keys, None], [*values, None], answers
        self._forms, self._named, self._pairs = forms, reading.named, pairs
        # Keys of two kinds may have one text.
        self._kinds = [*(_kind_of_key(form, pairs) if pairs or self._named else "" for form in forms), ""]
        columns = self._columns
        last = len(forms)
        self._ids = {
            name: np.where(column == _NONE, last, column)
            for name, column in {
                "value": columns.value,
                "key": columns.key if self._named else columns.value,
                "node": columns.node,
                "error": columns.error,
            }.items()
        }
        self._untimed = bool(len(columns.time)) and int(columns.time[0]) < 0

    def __len__(self) -> int:
        return len(self._columns.kind)

    def rename(self, old: str, new: str) -> None:
        self._functions = {i: new if f == old else f for i, f in self._functions.items()}

    def _iterated(self, start: int, stop: int) -> Iterator[Event]:
        columns, ids = self._columns, self._ids
        places = np.arange(start, stop)
        invoked = columns.invocation[start:stop]
        first = np.where(invoked == _NONE, places, invoked)
        rows = zip(
            places.tolist(),
            self._times(places),
            *(column[start:stop].tolist() for column in (columns.kind, columns.process, columns.function)),
            *(ids[name][start:stop].tolist() for name in ("value", "key", "error")),
            *(ids[name][first].tolist() for name in ("key", "node")),
            strict=True,
        )
        for index, time_ns, kind, process, function, value, own, error, key, node in rows:
            if process == NEMESIS:
                yield NoteEvent(index=index, time_ns=time_ns, topic="nemesis", text=self._nemesis_text(index))
                continue
            yield OpEvent(
                index=index,
                time_ns=time_ns,
                type=_OUTCOMES[kind],
                process=process,
                f=self._functions[function],
                node=self._text(node) or "",
                key=self._keys[key],
                value=self._answer(kind, value, own, key, function),
                error=self._text(error),
            )

    def paired(self, the_one: str | None) -> list[Operation]:
        columns, ids = self._columns, self._ids
        begun = np.flatnonzero((columns.kind == _INVOKE) & (columns.process != NEMESIS))
        done = np.flatnonzero(columns.invocation != _NONE)
        end_of = np.full(len(columns.kind), -1)
        end_of[columns.invocation[done]] = done
        out: list[Operation] = []
        add = out.append
        for start in range(0, len(begun), BATCH):
            first = begun[start : start + BATCH]
            end = end_of[first]
            rows = zip(
                first.tolist(),
                end.tolist(),
                self._times(first),
                self._times(end),
                *(column[first].tolist() for column in (columns.process, columns.function)),
                *(ids[name][first].tolist() for name in ("value", "key", "node")),
                columns.kind[end].tolist(),
                *(ids[name][end].tolist() for name in ("value", "key", "error")),
                strict=True,
            )
            for index, ended, time_ns, end_ns, process, function, value, key, node, kind, reply, own, error in rows:
                name = self._keys[key]
                is_open = ended < 0
                add(
                    Operation(
                        invoke_index=index,
                        complete_index=None if is_open else ended,
                        process=process,
                        f=self._functions[function],
                        node=self._text(node) or UNNAMED_NODE,
                        type=Outcome.INFO if is_open else _OUTCOMES[kind],
                        invoked_ns=time_ns,
                        completed_ns=None if is_open or kind == _INFO else end_ns,
                        ended_ns=None if is_open else end_ns,
                        key=the_one if name is None else name,
                        value=self._values[value],
                        result=None if is_open else self._answer(kind, reply, own, key, function),
                        error="never completed" if is_open else self._text(error),
                    )
                )
        return out

    def _times(self, places: NDArray[np.int64]) -> list[int]:
        times: list[int] = (places if self._untimed else self._columns.time[places]).tolist()
        return times

    def _text(self, i: int) -> str | None:
        if i == len(self._forms):
            return None
        form = self._forms[i]
        return (form if type(form) is str else "") or edn_text(self._values[i])

    def _answer(self, kind: int, value: int, own: int, key: int, function: int) -> Any:
        """Return the value of an event with the key `own`; `key` is that of its invocation."""
        answer = self._answers.get(value, self._values[value]) if kind == _OK else self._values[value]
        if kind != _OK or own == key:
            return answer
        # A `:key` is not always repeated.
        name = self._keys[own]
        is_other = name != self._keys[key] or (name is not None and self._kinds[own] != self._kinds[key])
        if not is_other or not (self._pairs or name is not None):
            return answer
        if name is None and answer is None and self._functions[function] not in (*_SEEN, "members"):
            return None
        whole = plain(self._forms[value]) if value < len(self._forms) else None
        flaw = "an answer without its key" if name is None else "an answer to another key"
        return {flaw: [name, whole] if self._named else whole}

    def _nemesis_text(self, row: int) -> str:
        """Describe what the nemesis did, as EDN."""
        columns = self._columns
        value = int(columns.value[row])
        f = edn_text(plain(self._forms[columns.function[row]]))
        shown = "nil" if value == _NONE else edn_text(plain(self._forms[value]))
        return f":{_OUTCOMES[columns.kind[row]].value} {f} {shown}"


def _pair_cas(forms: list[Any], ids: Iterable[int], notes: list[str]) -> None:
    """Take `[k old new]` of a cas for `[k [old new]]`."""
    triples = [i for i in ids if i != _NONE and type(forms[i]) is list and len(forms[i]) == 3]
    for i in triples:
        key, *both = forms[i]
        forms[i] = [key, both]
    if triples:
        notes.append("a cas [key old new] is taken for [key [old new]]")


def _value_text(columns: EdnEvents, row: int) -> str:
    """Return the value of an event as EDN; of one without a value, nil. A key beside it is shown where it changed."""
    value, key, invoked = int(columns.value[row]), int(columns.key[row]), int(columns.invocation[row])
    text = "nil" if value == _NONE else form_text(columns.forms[value])
    is_other = key != _NONE and invoked != _NONE and key != columns.key[invoked]
    return f":key {form_text(columns.forms[key])} :value {text}" if is_other else text


def _pair(form: Any) -> tuple[Any, Any] | None:
    """Return key and value if the form is [key value]."""
    if is_edn(form) and form.kind == "tagged" and form.text.endswith(_PAIR_TAGS):
        form = form.items[0]
    return (form[0], form[1]) if type(form) is list and len(form) == 2 and form[0] is not None else None


def _micro_function(micro: Any) -> str:
    """Return what a micro-operation does; empty if the form is none."""
    f = micro[0] if type(micro) is list and len(micro) in (2, 3) else None
    f = f.text if is_edn(f) and f.kind == "keyword" else f
    return f if type(f) is str and f in _MICROS and (len(micro) == 3 or f == "r") else ""


def _is_transaction(form: Any) -> bool:
    return type(form) is list and bool(form) and all(map(_micro_function, form))


def _with_third(form: Any) -> Any:
    """Return a transaction whose reads `[:r k]` have nil as the third element; another form as it is."""
    if type(form) is not list or not any(type(m) is list and len(m) == 2 for m in form):
        return form
    return [[*m, None] if _micro_function(m) == "r" and len(m) == 2 else m for m in form]


def _kind_of_key(form: Any, pairs: bool) -> str:
    """Return the kind of a key; Clojure's lists equal its vectors."""
    key = (_pair(form) or (None, None))[0] if pairs else form
    kind = "" if key is None else kind_of(key)
    return "a vector" if kind == "a list" else kind


def _nothing(form: Any) -> list[Any]:
    return []


def _whole(form: Any) -> list[Any]:
    return [form]


def write_edn(events: Iterable[Event]) -> Iterator[str]:
    """Write one operation per line, and faults as operations of the nemesis; leave out all other events.

    `:history-index` is the event's number in our history, which reports use; `:index` counts without gaps.
    """
    events = list(events)
    index = 0
    for event in events:
        if type(event) is OpEvent:
            value: Any = event.value if event.key is None else [event.key, event.value]
            process, f = str(event.process), "read" if event.f == "members" else event.f
            more = f", :node {edn_string(event.node)}" * bool(event.node)
            more += f", :error {edn_string(event.error)}" if event.error is not None else ""
            kind = event.type.value
        elif type(event) is FaultEvent:
            process, f, kind, more = ":nemesis", f"{event.action.value}-{event.fault}", "info", ""
            value = {"stage": event.stage.value, "outcome": event.outcome.value, "nodes": list(event.nodes)}
        else:
            continue
        yield (
            f"{{:index {index}, :time {event.time_ns}, :type :{kind}, :process {process}, :f :{f}, "
            f":value {edn_text(value)}{more}, :history-index {event.index}}}\n"
        )
        index += 1
