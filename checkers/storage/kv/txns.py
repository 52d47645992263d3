"""etcd's Txn: compares of several keys, and what is done if all of them hold, or else; all at one revision.

A request is a map of `compare`, `success` and `failure`, a reply one of `revision`, `succeeded` and `responses`. What a
transaction did to a key is a part of it: a write at its revision, or a read of what was there before, the state of the
revision before it. After its own write of a key it sees that.
Source: etcd's API reference, "Transaction"; `server/etcdserver/txn` for what a range sees.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from fencepost.checkers.findings.numbers import Numbers
from fencepost.checkers.storage.kv.acts import Act, Compare, Condition, Dialect, Expected, Kind, Target, Txn
from fencepost.checkers.storage.kv.fields import fields_of, number_of, wrong_with
from fencepost.harness.history import Operation, Outcome, Value

_RESULTS: Final = ("=", "!=", "<", ">")
_DOES: Final = {"put": 3, "get": 2, "delete": 2}
#: Compares for equality that a write of the same key can carry, and a read can stand for.
_CONDITIONS: Final = {
    Target.MADE: Condition.MADE,
    Target.VERSION: Condition.VERSION,
    Target.VALUE: Condition.VALUE,
}


class _Ask(NamedTuple):
    """One operation of a branch; `value` is the number of what is put."""

    does: str
    key: str
    value: int


def txn_acts(op: Operation, dialect: Dialect, numbers: Numbers, *, signed: bool) -> list[Act]:
    """The transaction if it was answered, each branch that writes if its outcome is unknown, nothing if it failed."""
    if op.type is Outcome.FAIL:
        return []
    if op.key is not None:
        wrong_with(op, f"a txn has the key {op.key!r:.80}; expected none, since its operations name theirs")
    fields = fields_of(op, op.value, "the request of a txn", {"compare", "success", "failure", dialect.sign})
    compares = tuple(_compare(op, given, numbers) for given in _items(op, fields, "compare"))
    branches = {True: _branch(op, fields, "success", numbers), False: _branch(op, fields, "failure", numbers)}
    if op.type is not Outcome.OK or op.complete_index is None:
        heads = [_unknown(op, compares, succeeded, asks) for succeeded, asks in branches.items()]
        return [head for head in heads if head.writes]
    reads_only = all(ask.does == "get" for asks in branches.values() for ask in asks)
    if fields.get(dialect.sign) and not reads_only:
        wrong_with(op, f"a txn that is {dialect.sign} may write; expected get alone in both branches")
    serializable = reads_only and bool(fields.get(dialect.sign, signed))
    return [_answered(op, dialect, compares, branches, numbers, current=not serializable)]


def _items(op: Operation, fields: dict[str, Any], name: str) -> Sequence[Any]:
    given = fields.get(name)
    if given is None:
        return ()
    if not isinstance(given, (list, tuple)):
        wrong_with(op, f"{name} of a txn is {given!r:.80}; expected a list")
    return given


def _word(given: Value) -> str:
    return str(given).removeprefix(":").replace("_", "-")


def _key(op: Operation, given: Value) -> str:
    if not isinstance(given, (str, int)) or isinstance(given, bool):
        wrong_with(op, f"a txn names the key {given!r:.80}; expected text")
    return str(given)


def _compare(op: Operation, given: Value, numbers: Numbers) -> Compare:
    if not isinstance(given, (list, tuple)) or len(given) != 4:
        wrong_with(op, f"a txn compares {given!r:.80}; expected [target key result number], as [version x = 3]")
    target, key, result, number = _word(given[0]), _key(op, given[1]), _word(given[2]), given[3]
    if target not in set(Target):
        wrong_with(op, f"a txn compares {target!r:.80}; expected one of {', '.join(Target)}")
    if result not in _RESULTS:
        wrong_with(op, f"a txn compares by {result!r:.80}; expected one of {' '.join(_RESULTS)}")
    if target != Target.VALUE:
        return Compare(key, Target(target), result, number_of(op, target, number))
    if result not in ("=", "!="):
        wrong_with(op, f"a txn compares values by {result}; expected = or !=")
    return Compare(key, Target.VALUE, result, numbers.number(number))


def _branch(op: Operation, fields: dict[str, Any], name: str, numbers: Numbers) -> tuple[_Ask, ...]:
    asks = tuple(_ask(op, given, numbers) for given in _items(op, fields, name))
    puts = [ask.key for ask in asks if ask.does == "put"]
    removed = {ask.key for ask in asks if ask.does == "delete"}
    twice = [key for key in puts if puts.count(key) > 1 or key in removed]
    if twice:
        wrong_with(op, f"{name} of a txn puts {twice[0]} and writes it again; etcd refuses that")
    return asks


def _ask(op: Operation, given: Value, numbers: Numbers) -> _Ask:
    does = _word(given[0]) if isinstance(given, (list, tuple)) and given else ""
    if not isinstance(given, (list, tuple)) or len(given) != _DOES.get(does):
        wrong_with(op, f"an operation of a txn is {given!r:.80}; expected [put key value], [get key] or [delete key]")
    if does == "put" and given[2] is None:
        wrong_with(op, f"a txn puts no value to {given[1]!r:.80}; expected one")
    return _Ask(does, _key(op, given[1]), numbers.number(given[2]) if does == "put" else -1)


def _head(op: Operation, *, done: int | None, at: int | None, current: bool) -> Act:
    return Act(
        op=op,
        kind=Kind.TXN,
        invoked=op.invoke_index,
        done=done,
        key=None,
        at=at,
        current=current,
        session=("process", op.process),
    )


def _part(head: Act, kind: Kind, key: str, at: int | None, value: int = -1) -> Act:
    return Act(
        op=head.op,
        kind=kind,
        invoked=head.invoked,
        done=head.done,
        key=key,
        at=at,
        value=value,
        current=False,
        session=head.session,
        head=head,
    )


def _unknown(op: Operation, compares: tuple[Compare, ...], succeeded: bool, asks: Sequence[_Ask]) -> Act:
    head = _head(op, done=None, at=None, current=True)
    writes = dict.fromkeys(ask for ask in asks if ask.does != "get")
    parts = [_part(head, Kind.PUT if a.does == "put" else Kind.DELETE, a.key, None, a.value) for a in writes]
    for part in parts:
        part.may_miss = part.kind is Kind.DELETE
    head.txn = Txn(compares=compares, succeeded=succeeded, parts=tuple(parts))
    return head


def _answered(
    op: Operation,
    dialect: Dialect,
    compares: tuple[Compare, ...],
    branches: dict[bool, tuple[_Ask, ...]],
    numbers: Numbers,
    *,
    current: bool,
) -> Act:
    reply_fields = fields_of(
        op, op.result, "the reply of a txn", {dialect.number, "succeeded", "responses"}, op.complete_index
    )
    succeeded = reply_fields.get("succeeded")
    if type(succeeded) is not bool:
        wrong_with(op, f"succeeded of a txn is {succeeded!r:.80}; expected true or false", op.complete_index)
    number = reply_fields.get(dialect.number, op.position)
    if number is None:
        wrong_with(op, f"an ok txn has no {dialect.number}; expected that of the reply's header", op.complete_index)
    at = number_of(op, dialect.number, number)
    asks, replies = branches[succeeded], _items(op, reply_fields, "responses")
    if len(replies) != len(asks):
        wrong_with(
            op, f"a txn has {len(replies)} responses; expected {len(asks)}, one of each operation", op.complete_index
        )
    answers = [_response(op, ask, reply, dialect) for ask, reply in zip(asks, replies, strict=True)]
    wrote = {
        a.key for a, t in zip(asks, answers, strict=True) if a.does == "put" or (a.does == "delete" and t["deleted"])
    }
    if wrote and at == 0:
        wrong_with(op, f"the {dialect.number} of a txn that wrote is 0; expected an integer from 1", op.complete_index)
    head = _head(op, done=op.complete_index, at=at, current=current)
    before = at - bool(wrote)
    parts: list[Act] = []
    for ask, reply in zip(asks, answers, strict=True):
        own = any(part.writes and part.key == ask.key for part in parts)
        if ask.does == "put":
            parts.append(_part(head, Kind.PUT, ask.key, at, ask.value))
        elif ask.does == "delete" and reply["deleted"]:
            parts.append(_part(head, Kind.DELETE, ask.key, at))
        else:
            part = _part(head, Kind.READ, ask.key, at if own else before, numbers.number(reply.get("value")))
            part.made, part.created, part.version = (reply.get(n) for n in (dialect.made, dialect.created, "version"))
            parts.append(part)
    guards = _guards(head, compares, parts, before) if succeeded else ()
    head.txn = Txn(compares=compares, succeeded=succeeded, parts=tuple(parts), guards=guards)
    return head


def _response(op: Operation, ask: _Ask, reply: Value, dialect: Dialect) -> dict[str, Any]:
    at = op.complete_index
    allowed = {
        "put": set[str](),
        "delete": {"deleted"},
        "get": {"value", dialect.made, dialect.created, "version"},
    }[ask.does]
    fields = {} if reply is None else fields_of(op, reply, f"the response to a {ask.does} of a txn", allowed, at)
    numbers = {name: number_of(op, name, v) for name, v in fields.items() if name != "value" and v is not None}
    if ask.does == "delete":
        return {"deleted": numbers.get("deleted", 1)}
    value = fields.get("value")
    if (value is None) != (numbers.get(dialect.made) is None) or 0 in (
        numbers.get(dialect.made),
        numbers.get(dialect.created),
    ):
        wrong_with(
            op, f"a get of {ask.key} has a value without {dialect.made}, or the other way round, or one of 0", at
        )
    return {**numbers, "value": value}


def _guards(head: Act, compares: Sequence[Compare], parts: Sequence[Act], before: int) -> tuple[Act, ...]:
    """Compares for equality as conditions of the writes of their keys, and else as reads where they say as much."""
    written = {part.key: part for part in parts if part.writes}
    guards = []
    for compare in compares:
        if compare.result != "=":
            continue
        absent = compare.target is not Target.VALUE and compare.number == 0
        condition = Condition.ABSENT if absent else _CONDITIONS.get(compare.target)
        write = written.get(compare.key)
        if write is not None and write.expected is None and condition is not None:
            write.expected = Expected(condition, 0 if absent else compare.number)
        elif write is None and condition in (Condition.ABSENT, Condition.MADE):
            guard = _part(head, Kind.READ, compare.key, before)
            guard.made = None if absent else compare.number
            guards.append(guard)
    return tuple(guards)
