"""Which rules about a store with numbered writes could have fired, and how often.

A rule is named for the anomaly that it finds; its chances are the operations by which a wrong answer would have shown
it. What a Txn did to each of its keys counts by itself.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from fencepost.checkers.findings.rules import rule
from fencepost.checkers.storage.kv.acts import Act, Condition, Dialect, Kind, by_key
from fencepost.checkers.storage.kv.floors import Floors
from fencepost.harness.verdict import Rule


def rules_of(acts: Sequence[Act], dialect: Dialect) -> tuple[Rule, ...]:
    """The rules of this store, each with its chances in these acts. Cost: O(n log n)."""
    parts = list(by_key(acts))
    answered = [part for part in parts if part.done is not None and part.kind is not Kind.SYNC]
    reads = [part for part in answered if part.kind is Kind.READ]
    with_others = _with_others(reads, parts)
    return (
        *_of_real_time(acts, dialect),
        *_of_numbers(answered),
        *_of_conditions(parts, dialect),
        rule("phantom-read", sum(map(_tells_of_others, answered)), "no answer tells of another write's version"),
        rule("lost-write", len(with_others), "no read of a key that anything else was asked of was answered"),
        *_of_transactions(parts, reads, acts, dialect),
        rule("non-linearizable", len(answered) if len(parts) > 1 else 0, "fewer than two operations"),
    )


def _tells_of_others(part: Act) -> bool:
    """Whether an answer tells of a version that another write made: read, created before, or compared with."""
    return part.kind is Kind.READ or any(field is not None for field in (part.created, part.version, part.expected))


def _with_others(reads: Sequence[Act], parts: Sequence[Act]) -> list[Act]:
    """Reads of keys about which another operation was asked or answered, too."""
    operations: dict[str | None, set[int]] = {}
    for part in parts:
        if part.kind is not Kind.SYNC:
            operations.setdefault(part.key, set()).add(part.row)
    return [read for read in reads if len(operations[read.key]) > 1]


def _of_real_time(acts: Sequence[Act], dialect: Dialect) -> tuple[Rule, ...]:
    """What may not stand before what was answered earlier, by the whole store, a session or a `sync`."""
    floors = Floors(acts)
    later = [act for act in acts if act.done is not None and floors.before(act.invoked)[1] is not None]
    writes = sum(act.writes for act in later)
    rules = [rule("revision-went-back", writes, "no write was invoked after an answer and acknowledged")]
    if dialect.current:
        reads = sum(act.current and not act.writes for act in later)
        return (*rules, rule("stale-read", reads, "no read that must be current was invoked after an answer"))
    first_end: dict[tuple[str, int], int] = {}
    synced: dict[tuple[str, int], int] = {}
    in_session = behind_sync = 0
    for act in sorted((act for act in acts if act.done is not None), key=lambda act: act.ended):
        if act.kind is not Kind.SYNC:
            first_end.setdefault(act.session, act.ended)
        elif floors.written(act.invoked)[1] is not None:
            synced.setdefault(act.session, act.ended)
    for act in acts:
        if act.kind is Kind.READ and act.done is not None:
            in_session += first_end[act.session] < act.invoked
            after_own = act.fresh and floors.written(act.invoked)[1] is not None
            behind_sync += after_own or synced.get(act.session, act.invoked) < act.invoked
    return (
        *rules,
        rule("session-went-back", in_session, "no session read anything after it had been answered"),
        rule("stale-after-sync", behind_sync, "no read came behind a sync that followed an acknowledged write"),
    )


def _of_numbers(answered: Sequence[Act]) -> tuple[Rule, ...]:
    """What the numbers of one answer, or of two about one version, must have to do with each other."""
    tell = [part for part in answered if part.writes or part.made is not None]
    keys = Counter(part.key for part in answered)
    again = [part for part in tell if keys[part.key] > 1]
    conditions = [part for part in answered if part.expected is not None]
    numbered = sum(part.expected is not None and part.expected.condition is Condition.VERSION for part in answered)
    created = sum(part.created is not None or part.version is not None for part in answered)
    return (
        rule(
            "duplicate-revision",
            len(tell) + len(conditions) if len(tell) + len(conditions) > 1 else 0,
            "fewer than two answers tell the number of a write",
        ),
        rule("two-values", len(again), "no two answers about one key tell the number of a write"),
        rule("impossible-metadata", len(tell), "no answer tells the number of a write"),
        rule("wrong-creation", created, "no answer tells when its key was created, or a version"),
        rule("wrong-version", created + numbered, "no answer tells a version, and no write compared with one"),
    )


def _of_conditions(parts: Sequence[Act], dialect: Dialect) -> tuple[Rule, ...]:
    """What the state that a write found must have been; one of unknown outcome may have been shown by others."""

    def counted(name: str, lacks: str, applies: Callable[[Act, Condition], bool]) -> Rule:
        chances = sum(part.expected is not None and applies(part, part.expected.condition) for part in parts)
        return rule(name, chances, lacks)

    rules = [
        counted(
            "create-over-existing",
            "no create may have taken effect",
            lambda act, condition: condition is Condition.ABSENT and act.op.f == "create",
        ),
        rule(
            "delete-of-nothing",
            sum(part.kind is Kind.DELETE and not part.may_miss for part in parts),
            "no delete may have taken effect",
        ),
    ]
    conditions = {*dialect.conditions.values(), dialect.write_needs}
    if Condition.MADE in conditions:
        rules.append(
            counted(
                "cas-on-wrong-revision",
                "no write that compared with a write may have taken effect",
                lambda act, condition: (
                    condition is Condition.MADE or (condition is Condition.ABSENT and act.op.f != "create")
                ),
            )
        )
    if Condition.VERSION in conditions:
        rules.append(
            counted(
                "cas-on-wrong-version",
                "no write that compared with a version may have taken effect",
                lambda act, condition: condition is Condition.VERSION,
            )
        )
    if Condition.PRESENT in conditions:
        rules.append(
            counted(
                "write-to-nothing",
                "no write that needs its key may have taken effect",
                lambda act, condition: condition is Condition.PRESENT,
            )
        )
    rules.append(
        counted(
            "cas-on-wrong-value",
            "no write that compared with a value may have taken effect",
            lambda act, condition: condition is Condition.VALUE,
        )
    )
    return tuple(rules)


def _of_transactions(
    parts: Sequence[Act], reads: Sequence[Act], acts: Sequence[Act], dialect: Dialect
) -> tuple[Rule, ...]:
    """What transactions of several keys must do as a whole; nothing of a store without them."""
    if Kind.TXN not in dialect.functions.values():
        return ()
    compares = sum(len(act.txn.compares) for act in acts if act.txn is not None and act.done is not None)
    together = {
        part.key
        for act in acts
        if act.txn is not None and len({own.key for own in act.txn.parts if own.writes}) > 1
        for part in act.txn.parts
        if part.writes
    }
    torn = sum(read.key in together for read in reads)
    return (
        rule("torn-transaction", torn, "no read of a key that a transaction wrote with another one was answered"),
        rule("wrong-compare", compares, "no transaction that was answered compared anything"),
    )
