"""The operations of a key-value store with numbered writes, as the rules read them.

What a reply says stands in the event's own columns (`position`, `value_position`, `session`), as a run's history has
it, or in a map that is the completion's value, as another tool's: {:value 5, :revision 9, :mod-revision 7}. The fields
are listed in docs/models.md.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, NoReturn

import msgspec

from checkers.objects.calls import Numbers
from harness.errors import MalformedHistory, unknown_choice
from harness.operation import Operation, Outcome, Value
from harness.verdict import Facts

_HINT: Final = "nothing of this history was judged; docs/models.md says what each model understands"


class Kind(StrEnum):
    READ = "read"
    PUT = "put"
    DELETE = "delete"
    SYNC = "sync"


class Condition(StrEnum):
    """What a conditional write compares with: the key's value, last write or version, or that there is none."""

    VALUE = "value"
    MADE = "made"
    VERSION = "version"
    ABSENT = "absent"


class Expected(NamedTuple):
    condition: Condition
    number: int


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """One store's words. `number`, `made` and `created` are fields of a reply; `sign` is what a read may ask for.

    `current`: reads are held to real time unless they carry the sign; else only those that carry it are, by `sync`.
    """

    name: str
    number: str
    made: str
    created: str
    sign: str
    others: frozenset[str]
    conditions: dict[str, Condition]
    functions: dict[str, Kind]
    first_version: int
    current: bool


class Act(msgspec.Struct, kw_only=True, gc=False):
    """One operation that ended ok, or a write of unknown outcome (`done` is None).

    `at` is the position of the state that a reply tells of, and of an ok write its own; None where it is unknown. For
    reads, `made` is the position of the write that made what was read, None where there was nothing; `value`, `created`
    and `version` are what was read of it. Values are numbers, equal where the values are. `current`: held to real time;
    `fresh`: a read behind a `sync` of its own.
    """

    op: Operation
    kind: Kind
    invoked: int
    done: int | None
    key: str | None
    at: int | None = None
    value: int = -1
    made: int | None = None
    created: int | None = None
    version: int | None = None
    expected: Expected | None = None
    current: bool = True
    fresh: bool = False
    session: tuple[str, int] = ("", 0)
    children: int | None = None

    @property
    def row(self) -> int:
        """By which a proof names it."""
        return self.invoked

    @property
    def ended(self) -> int:
        """The event of its reply."""
        assert self.done is not None
        return self.done

    @property
    def known(self) -> int:
        """The position of an ok write, or of a reply that told it."""
        assert self.at is not None
        return self.at

    @property
    def reached(self) -> int:
        """A position that the store had certainly reached when this was answered."""
        return max(self.at or 0, self.made or 0)

    @property
    def writes(self) -> bool:
        return self.kind is Kind.PUT or self.kind is Kind.DELETE


def acts_of(operations: Sequence[Operation], dialect: Dialect, facts: Facts) -> list[Act]:
    """In the order of invocation; raises MalformedHistory for an operation that cannot be read, with its event."""
    parameter = facts.options.get("parameter", "")
    if parameter not in ("", dialect.sign):
        raise unknown_choice(f"parameter of the model {dialect.name}", parameter, [dialect.sign])
    return operations_as_acts(operations, dialect, signed=bool(parameter))


def operations_as_acts(operations: Sequence[Operation], dialect: Dialect, *, signed: bool) -> list[Act]:
    """`signed`: every read asks for what `dialect.sign` says."""
    numbers = Numbers()
    numbers.number(None)
    found = [_act(op, dialect, numbers, signed=signed) for op in operations if op.f in dialect.functions]
    return [act for act in found if act is not None]


def _act(op: Operation, dialect: Dialect, numbers: Numbers, *, signed: bool) -> Act | None:
    kind = dialect.functions[op.f]
    answered = op.type is Outcome.OK and op.complete_index is not None
    if op.type is Outcome.FAIL or (not answered and kind in (Kind.READ, Kind.SYNC)):
        return None
    asked, value, expected = _asked(op, kind, dialect, numbers)
    act = Act(
        op=op,
        kind=kind,
        invoked=op.invoke_index,
        done=op.complete_index if answered else None,
        key=op.key,
        value=value,
        expected=expected,
        current=kind is not Kind.READ or dialect.current,
        session=("session", op.session) if op.session is not None else ("process", op.process),
    )
    if not answered:
        return act
    told = _told(op, kind, dialect)
    if (session := told.get("session")) is not None:
        act.session = ("session", session)
    if kind is Kind.SYNC:
        return act
    act.created, act.version = told.get(dialect.created), told.get("version")
    if told.get(dialect.made) == 0 or act.created == 0:
        # So etcd's own comparisons say that there is no key; a reply has no key-value pair then.
        _wrong(op, f"{dialect.made} or {dialect.created} is 0; expected an integer from 1, or no such field")
    act.children = told.get("pzxid")
    number, made = told.get(dialect.number), told.get(dialect.made)
    if kind is Kind.READ:
        sign = bool(asked.get(dialect.sign, signed))
        act.current, act.fresh = dialect.current and not sign, not dialect.current and sign
        act.at, act.made = number, made
        act.value = numbers.number(told["value"])
        _check_read(act, told["value"], dialect)
        return act
    if kind is Kind.DELETE and told.get("deleted") == 0:
        if number is None:
            _wrong(op, f"a delete that found nothing has no {dialect.number}; expected that of the reply's header")
        act.kind, act.at = Kind.READ, number
        return act
    act.at = number if made is None else made
    if act.at is None:
        _wrong(op, f"an ok {op.f} has no {dialect.number}; expected the one that the store gave to it")
    if act.at == 0:
        _wrong(op, f"the {dialect.number} of an ok {op.f} is 0; expected an integer from 1")
    return act


def _check_read(act: Act, value: Value, dialect: Dialect) -> None:
    if act.made is None and value is not None:
        _wrong(act.op, f"a read of {value!r:.80} has no {dialect.made}; expected that of the key")
    if act.at is None and dialect.current:
        _wrong(act.op, f"a read has no {dialect.number}; expected that of the reply's header")


def _asked(
    op: Operation, kind: Kind, dialect: Dialect, numbers: Numbers
) -> tuple[Mapping[str, Any], int, Expected | None]:
    """The fields of a request, the number of the value to write, and what it compares with."""
    given = op.value
    if kind is Kind.READ or kind is Kind.SYNC or kind is Kind.DELETE:
        if given is None:
            return {}, -1, None
        expected = {dialect.sign} if kind is Kind.READ else set(dialect.conditions) if kind is Kind.DELETE else set()
        fields = _fields(op, given, f"the request of a {op.f}", expected)
        if kind is Kind.DELETE:
            return {}, -1, _expected(op, fields, dialect)
        return fields, -1, None
    if op.f == "cas" and isinstance(given, (list, tuple)):
        if len(given) != 2:
            _wrong(op, f"the value of a cas is {given!r:.80}; expected [old new]")
        return {}, numbers.number(given[1]), Expected(Condition.VALUE, numbers.number(given[0]))
    if not isinstance(given, dict):
        if op.f == "cas" or given is None:
            what = f"[old new], or a map of value and {' or '.join(dialect.conditions)}" if op.f == "cas" else "a value"
            _wrong(op, f"the value of a {op.f} is {given!r:.80}; expected {what}")
        return {}, numbers.number(given), Expected(Condition.ABSENT, 0) if op.f == "create" else None
    fields = _fields(op, given, f"the request of a {op.f}", {"value", *(dialect.conditions if op.f == "cas" else ())})
    if fields.get("value") is None:
        _wrong(op, f"the request of a {op.f} has no value; expected one")
    condition = _expected(op, fields, dialect)
    if op.f == "cas" and condition is None:
        _wrong(op, f"a cas compares with nothing; expected one of {', '.join(dialect.conditions)}")
    if op.f == "create":
        condition = Expected(Condition.ABSENT, 0)
    return fields, numbers.number(fields["value"]), condition


def _expected(op: Operation, fields: Mapping[str, Any], dialect: Dialect) -> Expected | None:
    compared = [name for name in dialect.conditions if name in fields]
    if not compared:
        return None
    if len(compared) > 1:
        _wrong(op, f"a {op.f} compares with {' and '.join(compared)}; expected one of them")
    number = _number(op, compared[0], fields[compared[0]])
    condition = dialect.conditions[compared[0]]
    nothing = number == 0 and (condition is Condition.MADE or dialect.first_version == 1)
    return Expected(Condition.ABSENT, 0) if nothing else Expected(condition, number)


def _told(op: Operation, kind: Kind, dialect: Dialect) -> dict[str, Any]:
    """The fields of a reply, those of its map before those of the columns; a read has its `value` in any case."""
    columns = {dialect.number: op.position, dialect.made: op.value_position}
    if isinstance(op.result, dict):
        allowed = {dialect.number, dialect.made, dialect.created, "version", "value", *dialect.others}
        fields = _fields(op, op.result, f"the reply of a {op.f}", allowed, at=op.complete_index)
        numbers = {n: _number(op, n, v) for n, v in fields.items() if n != "value" and v is not None}
        value = fields.get("value")
        return {**columns, **numbers, "value": value}
    if kind is not Kind.READ and op.result is not None and op.result != op.value:
        _wrong(op, f"a {op.f} completes with {op.result!r:.80}, but was invoked with {op.value!r:.80}")
    return {**columns, "value": op.result}


def _fields(op: Operation, given: Value, what: str, allowed: set[str], at: int | None = None) -> dict[str, Any]:
    """A map's fields by name, written `mod-revision` however EDN or JSON have it."""
    expected = ", ".join(sorted(allowed)) or "nothing"
    if not isinstance(given, dict):
        _wrong(op, f"{what} is {given!r:.80}; expected a map of {expected}")
    fields = {str(name).removeprefix(":").replace("_", "-"): value for name, value in given.items()}
    strange = sorted(set(fields) - allowed)
    if strange:
        _wrong(op, f"{what} has the field {strange[0]!r}; expected {expected}", at)
    return fields


def _number(op: Operation, name: str, value: Value) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        _wrong(op, f"{name} is {value!r:.80}; expected an integer from 0")
    return value


def _wrong(op: Operation, message: str, at: int | None = None) -> NoReturn:
    raise MalformedHistory(f"event {op.invoke_index if at is None else at}: {message}", hint=_HINT)
