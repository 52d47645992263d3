"""`python -m tests.cli.mutants COUNT [FORM] [SEED]`: the command against bent files of every form.

Every form that a person or another tool hands to fencepost has small valid files here. A mutant changes one of them, in
its bytes or in a value, and one command reads it, in this process. Whatever the mutant, the command ends with 0, 1, 2
or 254 and prints no traceback. A mutant that ends otherwise is left in the folder that is named.
"""

import contextlib
import copy
import io
import json
import random
import re
import shutil
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w

from fencepost.harness.base.errors import ExitCode
from fencepost.harness.cli import main as fencepost
from fencepost.harness.plan import Plan, dump_plan
from fencepost.harness.results.reader import seal
from tests.docs.pages import DOCS
from tests.fakes.runs import run_fake
from tests.interchange.formats.fuzz import _TEXTS, mutate
from tests.interchange.formats.histories import edn
from tests.interchange.formats.test_operation_maps import _BANK, _ELLE, _ELLE_CLI, _PAIRS
from tests.interchange.tables.operations_tables import generate

SEED: Final = 20261128
ALLOWED: Final = frozenset({ExitCode.VALID, ExitCode.INVALID, ExitCode.UNKNOWN, ExitCode.USAGE})
#: What nobody expects at the place of a value.
_ODD: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1, 3, 2**31, 2**63, -(2**63), 10**30, 10**4999, 1.5, -0.0, 1e308, float("nan")),
    *("", " ", "x" * 5000, "9" * 5000, "\0", "\ud7ff", "../..", "/", "n1", "ü", "5s", "-1s", "1e9s", "leader", "all"),
    *([], [[]], [None], [0], ["n1"], {}, {"": ""}, {"a": 1}, [{"a": []}]),
)
_EVENTS: Final = 400
_SCHEDULE_LINE: Final = {
    **{"format": 2, "fault_id": 0, "worker": 0, "number": 0, "part_of": None, "spec": "partition:leader:for=2s"},
    **{"action": "inject", "stage": "begin", "outcome": "pending", "nominal_ns": 10**9, "at_ns": 10**9},
    **{"time_ns": 10**9, "duration_ns": 2 * 10**9, "draw_seed": 6, "when": None, "end": None, "waited_ns": 2},
    **{"nodes": ["n1"], "severed": ["n1>n2"], "details": {}, "leader": "n1", "epoch": 1, "proof": "shut", "why": None},
}
_RUN: Final = {
    **{"format": 1, "run_id": "ecf4d99f514a4aff91ca4dab1f85b126", "system": "example", "system_version": "0.1.0"},
    **{"seed": 3, "started_at": "2026-11-27T23:44:14Z", "links": "auto", "check_ns": 5, "plugins": []},
    "artifacts": {"version": "0.1.0", "paths": {"python": "/usr/bin/python3"}, "sha256": {}},
    "other_artifacts": {"0.1.0": {"version": "0.1.0", "paths": {}, "sha256": {}}},
    "nemesis": {"workers": [[["partition:leader:for=2s"]]], "kinds": ["partition"], "left_out": [], "without_time": []},
    "machine": {"kernel": "6", "architecture": "x86_64", "cores": 2, "python": "3.11.7", "git_commit": "2807d41f"},
    "zero": {"wall_clock_s": 1795823055.5},
    "phases": {"main": {"from_ns": 0, "to_ns": 10**9}},
}
_SCHEDULE: Final = "# two faults\nn1 kill 2s..28s\nleader partition:direction=in 3s..4s\nall pause 5s..6s\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Files of one form, and the commands that read them; "{}" stands for their folder."""

    files: Callable[[random.Random], Mapping[str, bytes]]
    commands: tuple[tuple[str, ...], ...]


def _edn(draw: random.Random) -> Mapping[str, bytes]:
    texts = [text for text in _TEXTS if '"ClientId"' not in text]
    return {"a.edn": draw.choice([*texts, _ELLE, _PAIRS, edn("0(w1 0) 1(r 1)1 0(w2 0) 1(r 1)1")]).encode()}


def _operations(draw: random.Random) -> Mapping[str, bytes]:
    return {"a.json": draw.choice((f"[{_BANK[:-1].replace(chr(10), chr(44))}]", _ELLE_CLI)).encode()}


def _json_lines(draw: random.Random) -> Mapping[str, bytes]:
    return {"history.jsonl": _run()["history.jsonl"]}


def _porcupine(draw: random.Random) -> Mapping[str, bytes]:
    return {"a.json": next(text for text in _TEXTS if '"ClientId"' in text).encode()}


def _text(draw: random.Random) -> Mapping[str, bytes]:
    log = "\n".join(f"1\t:{kind}\t:write\t{i}" for i in range(4) for kind in ("invoke", "ok"))
    awdit = "w 0 0\nw 1 0\n=====\nr 1 0\nw 0 1\n-----\nr 0 1\n=====\nr 0 1\nr 1 0\n"
    return {
        "a.txt": draw.choice((log, awdit, "w(0,1,1,1)\nr(0,0,2,2)\nw(0,2,2,2)\nr(0,2,1,3)\nw(0,9,3,-1)\n")).encode()
    }


def _reports(draw: random.Random) -> Mapping[str, bytes]:
    put = {"Type": "put-operation", "Put": {"Key": "a", "Value": {"Value": "x"}, "LeaseID": 7}}
    change = {"Type": "txn", "Txn": {"Conditions": [{"Key": "a", "ExpectedRevision": 0}], "OperationsOnSuccess": [put]}}
    told = {"Txn": {"Failure": False, "Results": [{}]}, "Revision": 2}
    row = {"Key": "a", "Value": {"Value": "x"}, "ModRevision": 2, "Version": 1}
    read = {"Range": {"KVs": [row], "Count": 1}, "Revision": 2}
    rows = [
        {"ClientId": 1, "Input": change, "Call": 1, "Output": told, "Return": 5},
        {"ClientId": 1, "Input": {"Type": "range", "Range": {"Start": "a"}}, "Call": 6, "Output": read, "Return": 7},
        {
            "ClientId": 1,
            "Input": {"Type": "leaseRevoke", "LeaseRevoke": {"LeaseID": 7}},
            "Call": 8,
            "Output": {},
            "Return": 9,
        },
    ]
    return {"client-1/operations.json": b"".join(json.dumps(each).encode() + b"\n" for each in rows)}


def _table(draw: random.Random) -> Mapping[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.parquet"
        generate(path, 60, 3, bad=(1,) if draw.random() < 0.5 else ())
        return {"a.parquet": path.read_bytes()}


_KEPT: Final[dict[str, bytes]] = {}


def _run() -> Mapping[str, bytes]:
    """The files of a small run, made and judged once."""
    if not _KEPT:
        plan = Plan(system="example", workload="register", seed=3, nemesis="partition:leader:for=2s", time_limit="6s")
        events = run_fake("register", "stale-read", 3, options={"rate": 60.0}).events[:_EVENTS]
        lines = msgspec.json.Encoder().encode_lines(list(events))
        with tempfile.TemporaryDirectory() as text:
            folder = Path(text)
            (folder / "plan.toml").write_text(dump_plan(plan))
            (folder / "run.json").write_text(json.dumps(_RUN))
            (folder / "schedule.jsonl").write_text(json.dumps(_SCHEDULE_LINE) + "\n")
            (folder / "history.jsonl").write_bytes(lines)
            _command("check", str(folder))
            _KEPT.update({name: (folder / name).read_bytes() for name in ("plan.toml", "run.json", "schedule.jsonl")})
            _KEPT["verdict.json"] = (folder / "verdict.json").read_bytes()
            _KEPT["history.jsonl"] = lines
            seal(folder)
            _KEPT["history.parquet"] = (folder / "history.parquet").read_bytes()
    return _KEPT


def _run_folder(draw: random.Random) -> Mapping[str, bytes]:
    left_out = draw.choice(("history.jsonl", "history.parquet"))
    return {name: data for name, data in _run().items() if name != left_out}


def _campaign(draw: random.Random) -> Mapping[str, bytes]:
    names = ("nightly.toml", "known-issues.toml")
    return {**{name: (DOCS / "how-to" / name).read_bytes() for name in names}, **_last_replica()}


def _last_replica() -> Mapping[str, bytes]:
    path = DOCS / "findings" / "kafka-last-replica.schedule"
    return {"../findings/kafka-last-replica.schedule": path.read_bytes()}


def _small_campaign(schedule: str) -> bytes:
    cell = {"system": "example", "workload": "register", "time_limit": "40s"}
    canary = {"canary": True, "anomaly": "lost-write", "nemesis": "kill:all", "system_options": {"defect": "forgets"}}
    return tomli_w.dumps({"name": "s", "cell": [{**cell, "schedule": schedule}, {**cell, **canary}]}).encode()


def _schedule(draw: random.Random) -> Mapping[str, bytes]:
    lines = "".join(json.dumps({**_SCHEDULE_LINE, "fault_id": i}) + "\n" for i in range(2))
    return {
        "a.schedule": (_SCHEDULE if draw.random() < 0.5 else lines).encode(),
        "c.toml": _small_campaign("a.schedule"),
    }


def _policy(draw: random.Random) -> Mapping[str, bytes]:
    return {"policy.toml": (DOCS / "how-to" / "policy.toml").read_bytes()}


_NO_RUN: Final = ("--budget", "1s", "--seed", "1", "--results", "{}/results")
FORMS: Final = {
    "edn": Form(files=_edn, commands=(("check", "{}/a.edn"),)),
    "operations": Form(files=_operations, commands=(("check", "{}/a.json"),)),
    "json-lines": Form(files=_json_lines, commands=(("check", "{}/history.jsonl"),)),
    "porcupine": Form(files=_porcupine, commands=(("check", "{}/a.json"),)),
    "text": Form(files=_text, commands=(("check", "{}/a.txt"),)),
    "reports": Form(files=_reports, commands=(("check", "{}"),)),
    "table": Form(files=_table, commands=(("check", "{}/a.parquet"),)),
    "run": Form(
        files=_run_folder,
        commands=(("check", "{}"), ("check", "{}", "--json"), ("report", "{}"), ("report", "{}", "--events", "all")),
    ),
    "schedule": Form(files=_schedule, commands=(("campaign", "{}/c.toml", *_NO_RUN),)),
    "campaign": Form(files=_campaign, commands=(("campaign", "{}/nightly.toml", *_NO_RUN),)),
    "policy": Form(
        files=_policy, commands=(("gate", "{}/policy.toml", "--candidate", "1.0.0", "--baseline", "1.0.0", *_NO_RUN),)
    ),
}


def try_mutant(form: Form, folder: Path, draw: random.Random) -> tuple[int, str]:
    """Write a mutant into `folder` and have a command read it; returns its exit code and what is wrong with the end."""
    files = dict(form.files(draw))
    bent = draw.choice([name for name in files if not (name == "c.toml" or name.startswith(".."))])
    data = _bend_file(bent, files[bent], draw)
    write_files({**files, bent: data}, folder)
    code, output = run_command(draw.choice(form.commands), folder)
    if code not in ALLOWED or "Traceback" in output:
        return code, f"{bent} bent: exit code {code}\n{output[-3000:]}"
    return code, ""


def write_files(files: Mapping[str, bytes | None], folder: Path) -> None:
    """Write files below a folder; None stands for a folder in the file's place."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.mkdir()
        else:
            path.write_bytes(content)


def run_command(words: Sequence[str], folder: Path) -> tuple[int, str]:
    """Run a command of a form on the files in `folder`; returns its exit code and what it printed."""
    return _command(*(word.replace("{}", str(folder)) for word in words))


def _command(*arguments: str) -> tuple[int, str]:
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        code = fencepost(list(arguments))
    return code, output.getvalue()


def _bend_file(name: str, data: bytes, draw: random.Random) -> bytes | None:
    """Bend values where the form has some, else bytes; None for a folder in the file's place."""
    if draw.random() < 0.03:
        return draw.choice((None, b"", b"\n", b"[" * 20_000, b'{"a":' * 20_000, b"a = " + b"[" * 20_000))
    has_values = name.endswith((".toml", ".json", ".jsonl", ".parquet")) or data[:2] == b'{"'
    if draw.random() < 0.4:
        return mutate(data, [data], draw)
    if not has_values:
        return _bend_words(data, draw)
    if name.endswith(".parquet"):
        return _bend_table(data, draw)
    if name.endswith(".toml"):
        return _toml(_bend(tomllib.loads(data.decode()), draw))
    if name.endswith((".jsonl", ".schedule", "operations.json")):
        lines = data.splitlines(keepends=True)
        at = draw.randrange(len(lines))
        lines[at] = _json(_bend(json.loads(lines[at]), draw)) + b"\n"
        return b"".join(lines)
    return _json(_bend(json.loads(data), draw))


def _bend_words(data: bytes, draw: random.Random) -> bytes:
    """Put another word of the text in a word's place, or leave a line out, double it or move it."""
    words = list(re.finditer(rb"[\w:.-]+", data))
    lines = data.splitlines(keepends=True)
    at, to = draw.randrange(len(lines)), draw.randrange(len(lines))
    match draw.randrange(6):
        case 0:
            return b"".join(lines[:at] + lines[at + 1 :])
        case 1:
            return b"".join([*lines[:to], lines[at], *lines[to:]])
        case 2:
            lines[at], lines[to] = lines[to], lines[at]
            return b"".join(lines)
        case _:
            place, other = draw.choice(words), draw.choice(words)
            return data[: place.start()] + other.group() + data[place.end() :]


def _bend(tree: Any, draw: random.Random) -> Any:
    """Change one to three values somewhere in a document: another value, none, one more, or another's."""
    tree = copy.deepcopy(tree)
    for _ in range(draw.randint(1, 3)):
        places = list(_places(tree))
        if not places:
            return tree
        holder, key = draw.choice(places)
        match draw.randrange(5):
            case 0:
                del holder[key]
            case 1:
                other, its_key = draw.choice(places)
                holder[key] = copy.deepcopy(other[its_key])
            case 2 if isinstance(holder, dict):
                holder[draw.choice(("", "seed", "name", "x" * 300, f"{key}s"))] = holder[key]
            case 2:
                holder.insert(key, copy.deepcopy(holder[key]))
            case _:
                holder[key] = copy.deepcopy(draw.choice(_ODD))
    return tree


def _places(tree: Any) -> "list[tuple[Any, Any]]":
    """Every (holder, key) below a document."""
    keys = tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    return [place for key in keys for place in ((tree, key), *_places(tree[key]))]


def _json(tree: Any) -> bytes:
    with _long_integers():
        return json.dumps(tree).encode()


def _toml(tree: Any) -> bytes:
    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(each) for key, each in value.items()}
        return [plain(each) for each in value] if isinstance(value, list) else "" if value is None else value

    with _long_integers():
        return tomli_w.dumps(plain(tree)).encode()


@contextlib.contextmanager
def _long_integers() -> Iterator[None]:
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(limit)


def _bend_table(data: bytes, draw: random.Random) -> bytes:
    """Another type, name, order or value of a column, or rows left out, doubled or in another order."""
    table = pq.read_table(io.BytesIO(data))
    at = draw.randrange(table.num_columns)
    name, column = table.column_names[at], table.column(at)
    match draw.randrange(7):
        case 0:
            table = table.drop_columns([name])
        case 1:
            table = table.rename_columns([f"{each}s" if each == name else each for each in table.column_names])
        case 2:
            kind = draw.choice((pa.string(), pa.float64(), pa.int8(), pa.uint64(), pa.binary(), pa.int64()))
            with contextlib.suppress(pa.ArrowException):
                table = table.set_column(at, name, column.cast(kind))
        case 3:
            values = column.to_pylist()
            for _ in range(draw.randint(1, 3)):
                values[draw.randrange(len(values))] = draw.choice((None, -1, 0, 1, 2**40, 2**63 - 1, -(2**63), "", "x"))
            with contextlib.suppress(pa.ArrowException):
                table = table.set_column(at, name, pa.array(values, column.type))
        case 4:
            rows = list(range(table.num_rows))
            draw.shuffle(rows)
            table = table.take(rows)
        case 5:
            table = table.slice(draw.randrange(table.num_rows), draw.randrange(table.num_rows))
        case _:
            table = table.append_column(draw.choice((name, "more")), column)
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def main(count: int, names: list[str], seed: int) -> int:
    """Try mutants of each form; returns how many ended as none may."""
    wrong = 0
    for name in names:
        kept = Path(tempfile.mkdtemp(prefix=f"mutants-{name}-"))
        print(f"{name}: {count} mutants, seed {seed}; those that end wrongly are left in {kept}", flush=True)
        wrong += len(wrong_mutants(name, count, seed, kept))
    return min(wrong, 1)


def wrong_mutants(name: str, count: int, seed: int, kept: Path) -> list[str]:
    """Try so many mutants of a form; returns what was wrong, with the folder in which each such mutant was left."""
    wrong = []
    codes: Counter[int] = Counter()
    for number in range(count):
        folder = kept / str(number) / "files"
        folder.mkdir(parents=True)
        code, reason = try_mutant(FORMS[name], folder, random.Random(f"{seed} {name} {number}"))
        codes[code] += 1
        if reason:
            wrong.append(f"{name} {number} of seed {seed}, left in {folder}: {reason}")
            print(wrong[-1], flush=True)
        else:
            shutil.rmtree(folder.parent)
    ends = ", ".join(f"{times} with {code}" for code, times in sorted(codes.items()))
    print(f"{name}: {count} mutants of seed {seed} ended: {ends}", flush=True)
    return wrong


if __name__ == "__main__":
    chosen = sys.argv[2:3] if sys.argv[2:3] not in ([], ["all"]) else list(FORMS)
    raise SystemExit(main(int(sys.argv[1]), chosen, int(sys.argv[3]) if len(sys.argv) > 3 else SEED))
