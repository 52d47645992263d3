"""Judge KIP-30's `put`, `update` and `fetch`: what a caller may take each answer for. Nothing is ever deleted.

  one-put-per-key       of all puts of a key one is acknowledged at most.
  update-needs-key      an update of a key that nobody has asked to put is refused and leaves no key behind; an update
                        that is sent after an acknowledged put is not refused as absent.
  update-loses-none     of two updates that were computed from one value one is acknowledged at most. The interface
                        compares nothing, so no store can keep that behind it: this shows what it costs.
  own-put-is-settled    a caller whose own put has no known outcome, and that is told that the key exists, fetches a
                        value that somebody asked to store: its own one, or another's.

Whether values are current is the question of other workloads (`register`).

Source: KIP-30, section Public Interfaces, Storage (put: "error if the key exists"; update: "error if it does not").
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from fencepost.checkers.derived.evidence import number_of, rows
from fencepost.checkers.derived.positions import by_key
from fencepost.checkers.rules import Rule, verdict
from fencepost.checkers.violations.finding import Finding, seconds
from fencepost.harness.base.quantities import NEVER_NS
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict import Facts, Verdict


def _rule(guarantee: str, anomaly: str, tested: str) -> Rule:
    return Rule(guarantee=guarantee, anomaly=anomaly, tested=tested)


TWICE: Final = _rule(
    "one-put-per-key", "double-create", "puts of keys that another put was asked for before they were answered"
)
CREATED: Final = _rule("update-needs-key", "update-created", "answers about keys that nobody had asked to put")
DENIED: Final = _rule("update-needs-key", "denied-present-key", "answers about keys that were certainly present")
LOST: Final = _rule(
    "update-loses-none",
    "lost-update",
    "updates that were computed from a value from which another one had been computed",
)
UNEXPLAINED: Final = _rule(
    "own-put-is-settled",
    "unexplained-conflict",
    "fetches after an own put without a known outcome and the answer that the key exists",
)

_EXISTS: Final = "exists"
_ABSENT: Final = "absent"


class _Key:
    """The operations of one key, in the order of invocation."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.puts = [o for o in operations if o.f == "put"]
        self.updates = [o for o in operations if o.f == "update"]
        self.fetches = [o for o in operations if o.f == "fetch" and o.type is Outcome.OK]
        self.acknowledged = [o for o in self.puts if o.type is Outcome.OK]

    def others_asked_before(self, operation: Operation) -> bool:
        """Whether another put was sent before this operation was answered."""
        return any(o is not operation and o.invoked_ns < _end_ns(operation) for o in self.puts)

    def put_before(self, operation: Operation) -> Operation | None:
        """A put that was acknowledged before the operation was sent."""
        return next((o for o in self.acknowledged if _end_ns(o) < operation.invoked_ns), None)


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge what callers of the interface were told.

    Returns:
        Four verdicts, in the order of this module's docstring.

    Cost: O(n) in operations, and the square of how many puts and updates one key has.
    """
    keys = [_Key(own) for own in by_key(o for o in history.operations if o.f in ("put", "update", "fetch")).values()]
    contended = [o for key in keys for o in key.puts if _answered(o) and key.others_asked_before(o)]
    about_absent = [(o, key) for key in keys for o in (*key.updates, *key.puts) if _answered(o) and _is_new(key, o)]
    about_present = [(o, put) for key in keys for o in key.updates if _answered(o) and (put := key.put_before(o))]
    computed = [pair for key in keys for pair in _computed_twice(key)]
    settling = [case for key in keys for case in _settling(key)]
    created = [_created(o) for o, _ in about_absent if o.error != _ABSENT and (o.f == "update" or o.error == _EXISTS)]
    denied = [_denied(put, o) for o, put in about_present if o.error == _ABSENT]
    lost = [_lost(first, second) for first, second in computed if first.type is second.type is Outcome.OK]
    unexplained = [_unexplained(put, fetch) for put, fetch, numbers in settling if fetch.result not in numbers]
    own = [fetch for put, fetch, _ in settling if fetch.result in _earlier(put)]
    return [
        verdict(facts, TWICE.tally([f for key in keys for f in _twice(key)], rows(contended))),
        verdict(
            facts,
            CREATED.tally(created, len(about_absent)),
            DENIED.tally(denied, len(about_present)),
            exposed=rows(o for o, _ in (*about_absent, *about_present)),
            exposure_of="answers about keys that nobody had asked to put, or that were certainly present",
        ),
        verdict(facts, LOST.tally(lost, rows(second for _, second in computed))),
        verdict(
            facts,
            UNEXPLAINED.tally(unexplained, rows(fetch for _, fetch, _ in settling)),
            figures={"conflicts_with_own_put": number_of(own)},
        ),
    ]


def _answered(operation: Operation) -> bool:
    return operation.type is Outcome.OK or operation.error in (_EXISTS, _ABSENT)


def _end_ns(operation: Operation) -> int:
    """When the answer came; an operation without one never ends."""
    return NEVER_NS if operation.completed_ns is None else operation.completed_ns


def _is_new(key: _Key, operation: Operation) -> bool:
    """Whether nobody else had asked to put the key when the operation was answered."""
    return not key.others_asked_before(operation) and not (operation.f == "put" and operation.type is Outcome.OK)


def _earlier(put: Operation) -> list[Any]:
    earlier: list[Any] = put.value[1] or []
    return earlier


def _twice(key: _Key) -> Iterator[Finding]:
    for second in key.acknowledged[1:]:
        first = key.acknowledged[0]
        steps = (f"{_request(first)} and it was acknowledged.", f"{_request(second)} and it was acknowledged, too.")
        yield TWICE.finding(first, second, steps=steps)


def _created(operation: Operation) -> Finding:
    answer = "it was acknowledged" if operation.f == "update" else "was told that the key exists"
    steps = (f"{_request(operation)} and {answer}.", "Nobody else had asked to put this key by then.")
    return CREATED.finding(operation, steps=steps)


def _denied(put: Operation, update: Operation) -> Finding:
    steps = (
        f"{_request(put)} and it was acknowledged by {seconds(_end_ns(put))}.",
        f"{_request(update)}, later, and was told that there is no such key.",
    )
    return DENIED.finding(put, update, steps=steps)


def _computed_twice(key: _Key) -> Iterator[tuple[Operation, Operation]]:
    """Pairs of updates from one value: the first one that did not fail, and each later one."""
    firsts: dict[Any, Operation] = {}
    for update in key.updates:
        seen = update.value[1]
        if seen is None or not (_answered(update) or update.type is Outcome.INFO):
            continue
        first = firsts.get(seen)
        if first is not None and first.type is not Outcome.FAIL:
            yield first, update
        else:
            firsts[seen] = update


def _lost(first: Operation, second: Operation) -> Finding:
    steps = (
        f"Two callers fetched {first.value[1]} of {first.key}.",
        f"{_request(first)} and it was acknowledged.",
        f"{_request(second)} and it was acknowledged, too: whatever the one changed, the other one did not see.",
    )
    return LOST.finding(first, second, steps=steps)


def _settling(key: _Key) -> Iterator[tuple[Operation, Operation, frozenset[Any]]]:
    """Refused puts after an own one of unknown outcome, the fetch that follows, and what that may show."""
    numbers = frozenset(o.value[0] for o in (*key.puts, *key.updates))
    for put in key.puts:
        if put.error == _EXISTS and _earlier(put):
            after = (o for o in key.fetches if o.process == put.process and o.invoked_ns >= _end_ns(put))
            fetch = next(after, None)
            if fetch is not None:
                yield put, fetch, numbers


def _unexplained(put: Operation, fetch: Operation) -> Finding:
    shown = "no value" if fetch.result is None else f"{fetch.result}, which nobody had asked to store"
    steps = (
        f"{_request(put)}, after its own put of {_earlier(put)[-1]} had no known outcome, and was told that it exists.",
        f"A fetch of {seconds(fetch.invoked_ns)} showed {shown}.",
    )
    return UNEXPLAINED.finding(put, fetch, steps=steps)


def _request(operation: Operation) -> str:
    return (
        f"Process {operation.process} asked {operation.node} at {seconds(operation.invoked_ns)} to {operation.f} "
        f"{operation.value[0]} to {operation.key} (event {operation.invoke_index})"
    )
