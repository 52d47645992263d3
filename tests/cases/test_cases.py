"""Every case of `tests/cases/*.case` is answered as its file says.

`UPDATE_CASES=1 pytest tests/cases` writes the answers of today's checkers into the files instead: read the difference.
"""

import json
import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from fencepost.checkers.derived.derive import derive
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.contract.guarantees import SHARED, read_mechanisms
from fencepost.harness.plugins import registry
from fencepost.harness.verdict import Validity, Verdict
from fencepost.harness.verdict.fact_tables import MECHANISMS
from tests.cases.language import Form, MalformedCase, facts_of, read
from tests.report.proof import figures_of, wrong

FILES: Final = sorted(Path(__file__).parent.glob("*.case"))
#: A line of the answer that asks for what stands at a path: one value, or below it sentences, one a line.
ASKED: Final = re.compile(r"\| (\S+)(?: = .*|:)$")
#: Cases of this "checker" are answered by the table of mechanisms.
MET: Final = "mechanisms"
#: So many guarantees that nothing put to the test are named, more are counted.
_NAMED: Final = 3


@cache
def forms(path: Path) -> list[Form]:
    """The cases of one file, read once."""
    return read(path)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_case_is_answered_as_its_file_says(path: Path) -> None:
    answers = [answer(form) for form in forms(path)]
    if "UPDATE_CASES" in os.environ:
        update(path, forms(path), answers)
        return
    other = [
        "\n    ".join((f"{path.name}:{form.line}: {form.name}", "in the file:", *form.answer, "now:", *said))
        for form, said in zip(forms(path), answers, strict=True)
        if form.answer != said
    ]
    assert not other, "\n".join(other)


def answer(form: Form) -> list[str]:
    """What the checker says of the history, and what the case asks for beside it."""
    history, facts = form.history(), facts_of(form)
    if form.checker == MET:
        return [f"=> met: {', '.join(f'{name}@{short(rows)}' for name, rows in met(form).items()) or 'nothing'}"]
    try:
        verdicts = registry.checker(form.checker)(history, facts)
    except MalformedHistory as error:
        return [f"=> refused: {error}"]
    for verdict in verdicts:
        assert [why for figure in figures_of(verdict) if (why := wrong(figure, history))] == [], (
            f"{form.path.name}:{form.line}: a figure names no rows, or others than it was measured from"
        )
    named = dict(zip(names(verdicts), verdicts, strict=True))
    asked = (match[1] for line in form.answer if (match := ASKED.match(line)))
    return [*summary(named), *(line for path in asked for line in said(named, path))]


def met(form: Form) -> dict[str, list[int]]:
    """The rows of each mechanism that the history meets, of those that systems share and those of the case's system."""
    facts = facts_of(form)
    own = read_mechanisms(registry.system(facts.system).guarantees) if facts.system in registry.SYSTEMS else ()
    declared = (*read_mechanisms(SHARED), *own)
    table = derive(form.history(), msgspec.structs.replace(facts, mechanisms=declared))[MECHANISMS.name].to_pylist()
    assert [row["mechanism"] for row in table] == [one.name for one in declared]
    assert all((row["count"], row["event"]) == (len(row["events"]), min(row["events"], default=None)) for row in table)
    return {row["mechanism"]: row["events"] for row in table if row["count"]}


def test_every_mechanism_is_met_by_a_case_and_not_by_another() -> None:
    by_system: dict[str, list[set[str]]] = {}
    for form in forms(Path(__file__).with_name("mechanisms.case")):
        by_system.setdefault(facts_of(form).system, []).append({*met(form)})
    declared = {system: read_mechanisms(registry.system(system).guarantees) for system in registry.SYSTEMS}
    every = [case for cases in by_system.values() for case in cases]
    for cases, own in ((every, read_mechanisms(SHARED)), *((by_system.get(s, []), own) for s, own in declared.items())):
        for name in (one.name for one in own):
            assert {name in case for case in cases} == {True, False}, name


def names(verdicts: Sequence[Verdict]) -> list[str]:
    """The guarantee of each; with a number from the second on, where one is judged several times."""
    guarantees = [verdict.guarantee for verdict in verdicts]
    before = [guarantees[:i].count(name) for i, name in enumerate(guarantees)]
    return [f"{name}#{n + 1}" if n else name for name, n in zip(guarantees, before, strict=True)]


def summary(named: dict[str, Verdict]) -> Iterator[str]:
    """One line for all that are valid or unknown, with their exposure; one for each that is not or has an anomaly."""
    calm = {name: verdict for name, verdict in named.items() if not verdict.anomalies}
    for validity in (Validity.VALID, Validity.UNKNOWN):
        tested = [
            (name, verdict.tested)
            for name, verdict in calm.items()
            if verdict.validity is validity and verdict.tested != 0
        ]
        if tested:
            yield f"=> {validity}: {', '.join(f'{name} {exposure}' for name, exposure in tested)}"
    for name, verdict in named.items():
        if verdict.validity is Validity.INVALID or verdict.anomalies:
            counts = ", ".join(f"{anomaly} {count}" for anomaly, count in verdict.counts.items())
            shown = " ".join(f"{witness.anomaly}@{short(witness.events)}" for witness in verdict.witnesses)
            yield f"=> {verdict.validity}: {name} {verdict.tested}: {counts}; {shown}"
    untested = [name for name, verdict in calm.items() if verdict.tested == 0]
    if not named:
        yield "=> no verdict"
    if untested:
        yield f"=> untested: {', '.join(untested) if len(untested) <= _NAMED else f'{len(untested)} others'}"


def short(events: Sequence[int]) -> str:
    """1-3,7 for events 1, 2, 3 and 7."""
    spans: list[list[int]] = []
    for event in events:
        if spans and event == spans[-1][-1] + 1:
            spans[-1][1:] = [event]
        else:
            spans.append([event])
    return ",".join("-".join(map(str, span)) for span in spans)


def said(named: dict[str, Verdict], path: str) -> list[str]:
    """What stands at `guarantee.field.field` of the verdicts: JSON, or sentences below each other."""
    first, *rest = path.split(".")
    if first not in named:
        return [f"| {path} = absent"]
    verdict = named[first]
    found: Any = msgspec.to_builtins(verdict)
    found["rules"] = {rule.name: [rule.chances, rule.lacks] for rule in verdict.rules}
    while rest:
        key = rest[0] if not isinstance(found, dict) or rest[0] in found else ".".join(rest)
        rest = rest[1:] if key == rest[0] else []
        try:
            found = found[int(key)] if isinstance(found, list | tuple) else found[key]
        except (KeyError, IndexError):
            return [f"| {path} = absent"]
    if path.endswith(".steps"):
        return [f"| {path}:", *(f"|   {step}" for step in found)]
    return [f"| {path} = {json.dumps(without_rows(found), ensure_ascii=False)}"]


def without_rows(value: Any) -> Any:
    """The value without the rows of its numbers: that they follow from these is tested for every case."""
    if isinstance(value, dict):
        traced = value.keys() == {"value", "rows"}
        return value["value"] if traced else {name: without_rows(field) for name, field in value.items()}
    return [without_rows(row) for row in value] if isinstance(value, list | tuple) else value


def update(path: Path, forms: Sequence[Form], answers: Sequence[Sequence[str]]) -> None:
    """Write the answers into the file; a form without one gets it behind its last line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for form, now in reversed([*zip(forms, answers, strict=True)]):
        indent = " " * (4 if " / " in form.name else 2)
        lines[form.ends : form.ends + len(form.answer)] = [indent + line for line in now]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_an_answer_is_written_behind_its_case(tmp_path: Path) -> None:
    path = tmp_path / "new.case"
    path.write_text(
        "checker coverage\ncase one\n  1 phase main\n\ncase two\n  form a\n  form b\n    | coverage.cause = ?\n"
    )
    for _ in range(2):
        update(path, read(path), [answer(form) for form in read(path)])
    written = read(path)
    assert [form.answer for form in written] == [answer(form) for form in written]
    assert [len(form.answer) for form in written] == [1, 1, 2]


def test_what_the_language_does_not_have_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wrong.case"
    for line in (
        "10 rumour x=1",
        "10 sample lag=1",
        "x..20 n1 read x",
        "10..20 n1 read x 1 2",
        "given nothing",
        "facts rumours=1",
    ):
        path.write_text(f"checker coverage\ncase one\n  {line}\n")
        with pytest.raises(MalformedCase, match=r"wrong.case:3: "):
            read(path)
