"""Where two looks at one object contradict each other the verdict is unknown, and what is confirmed stands."""

import io
from typing import Any

import msgspec
import pytest

from fencepost.checkers import _core
from fencepost.checkers.objects import judging, sub_history
from fencepost.checkers.objects.locks import Mutex
from fencepost.checkers.objects.sub_history import KeyRows, Objection
from fencepost.checkers.storage import registers
from fencepost.harness.base.errors import Contradiction, ExitCode
from fencepost.harness.interchange.formats.jepsen import read_edn
from fencepost.harness.judging.stand_alone import judge_foreign
from fencepost.harness.plugins import registry
from fencepost.harness.verdict import Cause, Stop, Validity, Verdict
from tests.checkers.objects.object_twins import TWINS, Drawn, Twin, operations_of
from tests.checkers.objects.test_object_proofs import drawn, history_of, judged
from tests.checkers.objects.test_objects import facts
from tests.histories.language import parse


def assert_unknown(verdict: Verdict, *said: str) -> None:
    assert (verdict.validity, verdict.cause) == (Validity.UNKNOWN, Cause.FAILED)
    assert not verdict.anomalies and not verdict.witnesses and not verdict.proofs
    assert all(part in verdict.reason for part in said), verdict.reason


@pytest.mark.parametrize("ordered_max", [5_000, 0])
@pytest.mark.parametrize("twin", TWINS, ids=[type(twin).__name__ for twin in TWINS])
def test_an_order_that_the_plain_object_refuses_is_unknown(
    twin: Twin, ordered_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the history is: an order that is not kept is carried out, too."""
    monkeypatch.setattr(judging, "ORDERED_MAX", ordered_max)
    histories = [drawn(twin, f"planted {seed}", 8, bent=False) for seed in range(4)]
    honest = [judged(model, operations) for operations in histories for model in twin.models]
    monkeypatch.setattr(KeyRows, "explained", lambda *_: "a planted objection")
    planted = [judged(model, operations) for operations in histories for model in twin.models]
    assert not any(verdict.validity is Validity.INVALID for verdict in honest)
    assert any(verdict.validity is Validity.VALID for verdict in honest)
    for verdict in planted:
        assert_unknown(verdict, "the native search found an order", "its model refuses it when asked again: a planted")


@pytest.mark.parametrize("twin", TWINS, ids=[type(twin).__name__ for twin in TWINS])
def test_a_violation_that_the_plain_object_does_not_confirm_is_unknown(
    twin: Twin, monkeypatch: pytest.MonkeyPatch
) -> None:
    histories = [drawn(twin, str(seed), 12, bent=True) for seed in range(30)]
    honest = [judged(model, operations) for operations in histories for model in twin.models]
    monkeypatch.setattr(judging, "objection", lambda *_: Objection(reason="a planted objection"))
    planted = [judged(model, operations) for operations in histories for model in twin.models]
    refuted = 0
    for before, after in zip(honest, planted, strict=True):
        if before.witnesses and all(witness.proof for witness in before.witnesses):
            refuted += 1
            assert_unknown(after, "the search says that no order explains", "does not confirm that: a planted")
        elif before.validity is not Validity.INVALID:
            assert after == before
    assert refuted


def test_a_confirmed_violation_stands_beside_one_that_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    operations = [
        msgspec.structs.replace(op, key=key, invoke_index=op.invoke_index + at, complete_index=op.invoke_index + at + 1)
        for key, at in (("a", 0), ("b", 4))
        for op in operations_of([Drawn(i, "acquire", None, None, 2 * i, 2 * i + 1, True) for i in range(2)])
    ]
    honest = sub_history.objection
    monkeypatch.setattr(
        judging, "objection", lambda own, proof: Objection(reason="planted") if proof.key == "a" else honest(own, proof)
    )
    verdict = judged("mutex", operations)
    assert (verdict.validity, verdict.counts) == (Validity.INVALID, {"two-holders": 1})
    assert [witness.key for witness in verdict.witnesses] == ["b"]


def test_an_order_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    held = operations_of([Drawn(0, f, None, None, at, at + 1, True) for f, at in (("acquire", 0), ("release", 6))])
    native: Any = _core.check_model

    def planted(*given: Any, **budget: Any) -> list[Any]:
        (found,) = native(*given, **budget)
        known = {name: getattr(found, name) for name in dir(found) if not name.startswith("_")}
        answer = _Planted(**known | {"order": [*found.order][::-1]})
        return [answer]

    monkeypatch.setattr(_core, "check_model", planted)
    (verdict,) = judging.judge(Mutex(), history_of(held), facts(""))
    assert_unknown(verdict, "the operation of event 2 cannot follow those before it")


@pytest.mark.parametrize("model", ["register", "mutex"])
def test_a_search_that_the_native_core_does_not_confirm_is_unknown(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One object's defect leaves the answers about the others."""
    native: Any = getattr(_core, "check_registers" if model == "register" else "check_model")

    def planted(*given: Any, **budget: Any) -> list[Any]:
        first, *others = native(*given, **budget)
        names = ("key", "method", "operations", "steps", "order", "failed", "open", "states", "states_count", "proof")
        known = {name: getattr(first, name) for name in (*names, "minimal") if hasattr(first, name)}
        return [_Planted(**known | {"order": [], "failed": None, "minimal": None}), *others]

    monkeypatch.setattr(_core, native.__name__, planted)
    operations = [
        msgspec.structs.replace(op, key=key)
        for key, at in (("a", 0), ("b", 4))
        for op in operations_of([Drawn(0, "acquire", None, None, at, at + 1, True)])
    ]
    if model == "register":
        (verdict,) = registers.check(parse("a:w1@a b:w1@b"), facts(""))
    else:
        (verdict,) = registry.checker("mutex")(history_of(operations), facts(""))
    assert (verdict.validity, verdict.cause, verdict.counts) == (Validity.UNKNOWN, Cause.FAILED, {})
    assert "the native search and the check of its answer contradict each other" in verdict.reason
    assert {proof.key for proof in verdict.proofs} <= {"b"}


class _Planted:
    verdict = "unknown"
    stop = Stop.CONTRADICTED
    reason = Stop.CONTRADICTED.sentence

    def __init__(self, **known: Any) -> None:
        self.__dict__.update(known)


@pytest.mark.parametrize(
    ("model", "f", "value"),
    [
        ("mutex", "acquire", "nil"),
        ("queue", "enqueue", "1"),
        ("cas-register", "write", "1"),
        ("rw-register", "txn", "[[:w :x 1]]"),
        ("list-append", "txn", "[[:append :x 1]]"),
    ],
)
def test_a_checker_of_files_that_contradicts_itself_ends_with_2(
    model: str, f: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planted(*_: object) -> list[Verdict]:
        raise Contradiction("the search found one thing, and its check another")

    monkeypatch.setattr(registry, "checker", lambda name: planted)
    lines = "".join(f"{{:process 0, :type :{kind}, :f :{f}, :value {value}}}\n" for kind in ("invoke", "ok"))
    judgement = judge_foreign(read_edn(io.BytesIO(lines.encode()), "a.edn", model=model), "a.edn")
    assert (judgement.validity, judgement.exit_code) == (Validity.UNKNOWN, ExitCode.UNKNOWN)
    assert_unknown(judgement.verdicts[0], "the search found one thing, and its check another")
    assert "the search found one thing" in judgement.headline
