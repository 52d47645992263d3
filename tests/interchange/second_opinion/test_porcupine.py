"""The real Porcupine, through our Go program, against our own verdict on random small histories."""

import io
import json
import random
import subprocess
from pathlib import Path

import msgspec
import pytest

from fencepost.checkers.storage.register_anomalies import encode
from fencepost.checkers.storage.register_proofs import CAS, NEVER, READ, ProofRow
from fencepost.checkers.storage.registers import search
from fencepost.harness.history import Operation, Outcome
from fencepost.harness.interchange.formats.family import choose
from fencepost.harness.interchange.formats.imported import Imported, ImportedHistory
from fencepost.harness.interchange.formats.jepsen import read_edn
from fencepost.harness.interchange.second_opinion.opinion import ToolQuestion, ToolSkip, ToolStanding, standing
from fencepost.harness.interchange.second_opinion.porcupine import MODELS, OUT_OF_MEMORY, OUT_OF_TIME, Porcupine, write
from fencepost.harness.judging.stand_alone import judge_foreign
from fencepost.harness.verdict import SearchBudget, Validity
from tests.histories.simulate import Shape, bend, valid_history
from tests.interchange.formats.test_objects import CASES, both, edn
from tests.interchange.second_opinion.go import program_or_skip
from tests.interchange.second_opinion.objects import FUNCTIONS, history
from tests.seeds import seeds

#: For each seed.
HISTORIES = 120
#: Of each other object.
OBJECTS = 14
_MORE = [("add-remove-set", both("0 add 1", "0 remove 1", "1 read nil -> []"), "valid")]


def operations(rows: list[ProofRow], key: str) -> list[Operation]:
    """The rows as operations of one key; every place in time is an event."""
    found = []
    for process, row in enumerate(rows):
        known = row.returned != NEVER
        value = None if row.f == READ else [row.a or None, row.b or None] if row.f == CAS else row.a or None
        found.append(
            Operation(
                invoke_index=round(row.invoked * 2),
                complete_index=round(row.returned * 2) if known else None,
                process=process,
                f=("read", "write", "cas")[row.f],
                node="n1",
                type=Outcome.OK if known else Outcome.INFO,
                invoked_ns=round(row.invoked * 2),
                completed_ns=round(row.returned * 2) if known else None,
                key=key,
                value=value,
                result=row.a or None if row.f == READ else None,
            )
        )
    return found


def ours(found: list[Operation]) -> Validity:
    said = {result.verdict for result in search(encode(found), SearchBudget())}
    return Validity("invalid" if "invalid" in said else "unknown" if "unknown" in said else "valid")


def question(found: list[Operation], validity: Validity) -> ToolQuestion:
    return ToolQuestion(events=(), operations=found, model="cas-register", guarantee="linearizable", validity=validity)


@pytest.mark.parametrize("seed", seeds(12, quick=1))
def test_it_agrees_on_random_histories(seed: int) -> None:
    program_or_skip()
    rng = random.Random(seed)
    said = {Validity.VALID: 0, Validity.INVALID: 0}
    for number in range(HISTORIES):
        values = rng.choice((0, 2, 3, 5))
        shape = Shape(operations=rng.randrange(2, 24), clients=rng.randrange(2, 5), values=values, info=0.15)
        found: list[Operation] = []
        for key in ("a", "b")[: rng.randrange(1, 3)]:
            rows = valid_history(rng, shape)
            for _ in range(rng.randrange(3)):
                rows = bend(rng, rows, values)
            found += operations(rows, key)
        validity = ours(found)
        answer = Porcupine().ask(question(found, validity), 60.0, None)
        assert standing(validity, answer.validity) is ToolStanding.AGREES, (number, validity, answer, found)
        said[validity] += 1
    assert min(said.values()) > HISTORIES // 8, said


@pytest.mark.parametrize("model", list(FUNCTIONS))
@pytest.mark.parametrize("seed", seeds(12, quick=1))
def test_it_agrees_on_other_objects(model: str, seed: int) -> None:
    program_or_skip()
    rng = random.Random(seed)
    said = {Validity.VALID: 0, Validity.INVALID: 0, Validity.UNKNOWN: 0}
    name, _, parameter = model.partition(":")
    family = choose(model, {f for f, _ in (FUNCTIONS[model](rng) for _ in range(50))}, lambda f: (), "a test")
    for number in range(OBJECTS):
        events = history(rng, model, rng.randrange(6, 20), 3, 0.15, rng.choice((0, 0, 1, 2)))
        found = Imported(history=ImportedHistory(events, family, source="a test"), form="edn", keyed=False)
        validity = judge_foreign(found, "a test").validity
        asked = ToolQuestion(
            events=events,
            operations=found.history.operations,
            model=name,
            parameter=parameter,
            guarantee="linearizable",
            validity=validity,
        )
        answer = Porcupine().ask(asked, 60.0, None)
        # Unknown: too little was put to the test. There is nothing to compare.
        wanted = ToolStanding.UNDECIDED if validity is Validity.UNKNOWN else ToolStanding.AGREES
        assert standing(validity, answer.validity) is wanted, (number, validity, answer, events)
        said[validity] += 1
    assert said[Validity.VALID] + said[Validity.INVALID] > OBJECTS // 4, said


def test_it_agrees_on_known_verdicts() -> None:
    program_or_skip()
    asked_about = 0
    for model, said, wanted in (*CASES, *_MORE):
        found = read_edn(io.BytesIO(edn(*said).encode()), "a.edn", model=model)
        family = found.family
        validity = Validity.VALID if wanted == "valid" else Validity.INVALID
        if family.parameter and family.name != "semaphore":
            continue
        if family.name not in MODELS or "drain" in {op.f for op in found.history.operations}:
            continue
        asked_about += 1
        operations = found.history.operations
        asked = msgspec.structs.replace(question(operations, validity), model=family.name, parameter=family.parameter)
        answer = Porcupine().ask(asked, 60.0, None)
        assert answer.validity is validity, (model, said, answer)
    assert asked_about > 30


def test_what_it_is_not_asked(tmp_path: Path) -> None:
    """A drain is no step; sums have an end."""
    base = Operation(
        invoke_index=0, complete_index=1, process=0, f="drain", node="", type=Outcome.OK, invoked_ns=0, completed_ns=1
    )
    with pytest.raises(ToolSkip, match="a drain takes many steps"):
        write(tmp_path / "history", "queue", [base])
    with pytest.raises(ToolSkip, match="64 bits"):
        write(tmp_path / "history", "counter", [msgspec.structs.replace(base, f="add", value=2**62)])


def test_what_its_program_refuses(tmp_path: Path) -> None:
    program = program_or_skip()
    path = tmp_path / "history"
    rows = operations(valid_history(random.Random(1), Shape(operations=8, clients=2, values=3)), "a")
    write(path, "register", rows)
    whole = path.read_bytes()
    header, _, columns = whole.partition(b"\n")

    def asked(content: bytes, *arguments: str) -> tuple[int, str, str]:
        path.write_bytes(content)
        words = [program, *(arguments or ("check", str(path), "5", str(1 << 30)))]
        done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
        return done.returncode, done.stdout, done.stderr

    assert json.loads(asked(whole)[1])["result"] == "Ok"
    told = json.loads(header)
    for content, said in (
        (b"", "no header"),
        (b"{\n" + columns, "header"),
        (whole[:-1], "columns"),
        (whole + b"1", "longer than its header says"),
        (json.dumps({**told, "model": "stack"}).encode() + b"\n" + columns, 'no model "stack"'),
        (json.dumps({**told, "keys": 0}).encode() + b"\n" + columns, "row 0: key 0 of 0"),
    ):
        status, out, err = asked(content)
        assert (status, out) == (1, "") and said in err
    assert "usage" in asked(whole, "check")[2]
    assert "expected a positive number" in asked(whole, "check", str(path), "-1", "1")[2]


def too_hard(tmp_path: Path) -> Path:
    """Forty concurrent clients and unique values: far more than it can search."""
    path = tmp_path / "history"
    rows = valid_history(random.Random(3), Shape(operations=1500, clients=40, values=0))
    rows[-1] = ProofRow(READ, rows[0].a or 1, 0, rows[-1].invoked, rows[-1].invoked + 0.5)
    write(path, "register", operations(rows, "a"))
    return path


def test_it_keeps_its_memory(tmp_path: Path) -> None:
    words = [program_or_skip(), "check", str(too_hard(tmp_path)), "50", str(1 << 20)]
    assert subprocess.run(words, capture_output=True, timeout=60, check=False).returncode == OUT_OF_MEMORY


def test_it_keeps_its_time(tmp_path: Path) -> None:
    program, path = program_or_skip(), too_hard(tmp_path)
    for seconds in ("0.2", "1", "5"):
        words = [program, "check", str(path), seconds, str(4 << 30)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        # Kept off the processor until half as much time again and a second more are over, it is ended without a word.
        if done.returncode != OUT_OF_TIME:
            break
    assert done.returncode == 0 and json.loads(done.stdout)["result"] == "Unknown"
