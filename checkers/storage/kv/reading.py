"""Operations as acts.

What a reply says stands in the event's own columns (`position`, `value_position`, `session`), as a run's history has
it, or in a map that is the completion's value, as another tool's: {:value 5, :revision 9, :mod-revision 7}. The fields
are listed in docs/reference/models.md.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.checkers.findings.numbers import Numbers
from fencepost.checkers.storage.kv.acts import Act, Condition, Dialect, Expected, Kind
from fencepost.checkers.storage.kv.fields import fields_of, number_of, wrong_with
from fencepost.checkers.storage.kv.txns import txn_acts
from fencepost.harness.base.errors import unknown_choice
from fencepost.harness.history import Operation, Outcome, Value
from fencepost.harness.verdict import Facts


def acts_of(operations: Sequence[Operation], dialect: Dialect, facts: Facts) -> list[Act]:
    """In the order of invocation; raises MalformedHistory for an operation that cannot be read, with its event."""
    parameter = facts.options.get("parameter", "")
    if parameter not in ("", dialect.sign):
        raise unknown_choice(f"parameter of the model {dialect.name}", parameter, [dialect.sign])
    return operations_as_acts(operations, dialect, signed=bool(parameter))


def operations_as_acts(operations: Sequence[Operation], dialect: Dialect, *, signed: bool) -> list[Act]:
    """Read operations as acts, in the order of invocation.

    Args:
        signed: whether every read asks for what `dialect.sign` says.

    Raises:
        MalformedHistory: a request or a reply that cannot be read; names the event.
    """
    numbers = Numbers()
    numbers.number(None)
    own = (op for op in operations if op.f in dialect.functions)
    return [act for op in own for act in _acts(op, dialect, numbers, signed=signed)]


def _acts(op: Operation, dialect: Dialect, numbers: Numbers, *, signed: bool) -> list[Act]:
    if dialect.functions[op.f] is Kind.TXN:
        return txn_acts(op, dialect, numbers, signed=signed)
    act = _act(op, dialect, numbers, signed=signed)
    return [] if act is None else [act]


def _act(op: Operation, dialect: Dialect, numbers: Numbers, *, signed: bool) -> Act | None:
    kind = dialect.functions[op.f]
    answered = op.type is Outcome.OK and op.complete_index is not None
    if op.type is Outcome.FAIL or (not answered and kind in (Kind.READ, Kind.SYNC)):
        return None
    request, value, expected = _request_of(op, kind, dialect, numbers)
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
    reply = _reply_of(op, kind, dialect)
    if (session := reply.get("session")) is not None:
        act.session = ("session", session)
    if kind is Kind.SYNC:
        return act
    act.created, act.version = reply.get(dialect.created), reply.get("version")
    if reply.get(dialect.made) == 0 or act.created == 0:
        # So etcd's own comparisons say that there is no key; a reply has no key-value pair then.
        wrong_with(op, f"{dialect.made} or {dialect.created} is 0; expected an integer from 1, or no such field")
    act.children = reply.get("pzxid")
    number, made = reply.get(dialect.number), reply.get(dialect.made)
    if kind is Kind.READ:
        sign = bool(request.get(dialect.sign, signed))
        act.current, act.fresh = dialect.current and not sign, not dialect.current and sign
        act.at, act.made = number, made
        act.value = numbers.number(reply["value"])
        _check_read(act, reply["value"], dialect)
        return act
    if kind is Kind.DELETE and reply.get("deleted") == 0:
        if number is None:
            wrong_with(op, f"a delete that found nothing has no {dialect.number}; expected that of the reply's header")
        act.kind, act.at = Kind.READ, number
        return act
    act.at = number if made is None else made
    if act.at is None:
        wrong_with(op, f"an ok {op.f} has no {dialect.number}; expected the one that the store gave to it")
    if act.at == 0:
        wrong_with(op, f"the {dialect.number} of an ok {op.f} is 0; expected an integer from 1")
    return act


def _check_read(act: Act, value: Value, dialect: Dialect) -> None:
    if act.made is None and value is not None:
        wrong_with(act.op, f"a read of {value!r:.80} has no {dialect.made}; expected that of the key")
    if act.at is None and dialect.current:
        wrong_with(act.op, f"a read has no {dialect.number}; expected that of the reply's header")


def _request_of(
    op: Operation, kind: Kind, dialect: Dialect, numbers: Numbers
) -> tuple[Mapping[str, Any], int, Expected | None]:
    """The fields of a request, the number of the value to write, and what it compares with."""
    given = op.value
    if kind is Kind.READ or kind is Kind.SYNC or kind is Kind.DELETE:
        if given is None:
            return {}, -1, None
        expected = {dialect.sign} if kind is Kind.READ else set(dialect.conditions) if kind is Kind.DELETE else set()
        fields = fields_of(op, given, f"the request of a {op.f}", expected)
        if kind is Kind.DELETE:
            return {}, -1, _expected(op, fields, dialect)
        return fields, -1, None
    if op.f == "cas" and isinstance(given, (list, tuple)):
        if len(given) != 2:
            wrong_with(op, f"the value of a cas is {given!r:.80}; expected [old new]")
        return {}, numbers.number(given[1]), Expected(Condition.VALUE, numbers.number(given[0]))
    if not isinstance(given, dict):
        if op.f == "cas" or given is None:
            what = f"[old new], or a map of value and {' or '.join(dialect.conditions)}" if op.f == "cas" else "a value"
            wrong_with(op, f"the value of a {op.f} is {given!r:.80}; expected {what}")
        return {}, numbers.number(given), _needed(op, dialect)
    fields = fields_of(op, given, f"the request of a {op.f}", {"value", *(dialect.conditions if op.f == "cas" else ())})
    if fields.get("value") is None:
        wrong_with(op, f"the request of a {op.f} has no value; expected one")
    condition = _expected(op, fields, dialect)
    if op.f == "cas" and condition is None:
        wrong_with(op, f"a cas compares with nothing; expected one of {', '.join(dialect.conditions)}")
    return fields, numbers.number(fields["value"]), condition or _needed(op, dialect)


def _needed(op: Operation, dialect: Dialect) -> Expected | None:
    """What a write without a compare needs of its key."""
    needs = Condition.ABSENT if op.f == "create" else dialect.write_needs if op.f == "write" else None
    return None if needs is None else Expected(needs, 0)


def _expected(op: Operation, fields: Mapping[str, Any], dialect: Dialect) -> Expected | None:
    compared = [name for name in dialect.conditions if name in fields]
    if not compared:
        return None
    if len(compared) > 1:
        wrong_with(op, f"a {op.f} compares with {' and '.join(compared)}; expected one of them")
    number = number_of(op, compared[0], fields[compared[0]])
    condition = dialect.conditions[compared[0]]
    nothing = number == 0 and (condition is Condition.MADE or dialect.first_version == 1)
    return Expected(Condition.ABSENT, 0) if nothing else Expected(condition, number)


def _reply_of(op: Operation, kind: Kind, dialect: Dialect) -> dict[str, Any]:
    """The fields of a reply, those of its map before those of the columns; a read has its `value` in any case."""
    columns = {dialect.number: op.position, dialect.made: op.value_position}
    if isinstance(op.result, dict):
        allowed = {dialect.number, dialect.made, dialect.created, "version", "value", *dialect.others}
        fields = fields_of(op, op.result, f"the reply of a {op.f}", allowed, at=op.complete_index)
        numbers = {n: number_of(op, n, v) for n, v in fields.items() if n != "value" and v is not None}
        value = fields.get("value")
        return {**columns, **numbers, "value": value}
    if kind is not Kind.READ and op.result is not None and op.result != op.value:
        wrong_with(op, f"a {op.f} completes with {op.result!r:.80}, but was invoked with {op.value!r:.80}")
    return {**columns, "value": op.result}
