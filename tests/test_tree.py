"""What the tree and its tests keep to, where ruff, mypy and import-linter cannot say it.

`tools/imports.toml` says who may import whom, `[tool.ruff.lint]` which imports stand inside functions and how many
parameters a function has, `tools/budgets.txt` how many lines a folder has.
"""

import ast
import io
import re
import shutil
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import group_of
from tools.lines import FOLDERS, budgets, counted, table

ROOT: Final = Path(__file__).resolve().parent.parent
#: Made by a tool.
_GENERATED: Final = ("rpc_pb2.py",)

CLASS_LINES_MAX: Final = 250
#: A budget that is larger by more than this share gives lines away that nobody argued for.
_SLACK: Final = 0.05
_SLACK_LINES: Final = 100

#: Names that say what was done to a thing, or nothing, instead of what it is; nothing binds them.
NAMES: Final = frozenset({"asked", "found", "had", "looked", "said", "taken", "told", "words"})
#: Words and phrases that a reader in a hurry reads twice; none stands in a docstring, a comment or a page.
#: docs/reference/glossary.md has the words to use.
ARCHAIC: Final = re.compile(
    r"(?<![-\w])(anew|heed\w*|befall\w*|befell|bear out|bears out|borne out|be had|was had|is had|such a one|such one"
    r"|that which|the one of them|thereby|wherein|whereby|hither|ere|lest|whosoever)\b"
)

#: Events that facts are derived from: what nodes claim and log of their reigns, servers' lives, clocks, acts of the
#: nemesis, the harness's health. Nothing can tell them apart from other events without their types.
RAW: Final = frozenset(
    {"BeliefEvent", "CatchUpEvent", "ClockEvent", "EpochEvent", "FaultEvent", "NodeEvent", "SampleEvent"}
)
#: They read facts, as values or as tables.
READ_FACTS: Final = ("checkers", "harness/verdict", "systems/kafka/checkers", "systems/kafka/report", "warehouse")


@cache
def _sources() -> dict[str, str]:
    paths = (path for folder in (*FOLDERS, "bench", "tools") for path in sorted((ROOT / folder).rglob("*.py")))
    return {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8") for p in paths if p.name not in _GENERATED}


def test_every_folder_keeps_its_budget() -> None:
    lines, allowed = counted(), budgets()
    assert lines.keys() == allowed.keys(), "write the table: python -m tools.lines --write"
    over = [folder for folder in lines if lines[folder] > allowed[folder]]
    assert not over, f"{over}: remove lines, or say what the change needs more for\n{table()}"
    loose = [f for f in lines if allowed[f] > lines[f] * (1 + _SLACK) + _SLACK_LINES]
    assert not loose, f"{loose}: smaller by now, write the table: python -m tools.lines --write\n{table()}"


def test_every_folder_has_its_place_among_the_layers() -> None:
    """`exhaustive` would demand the same of single files, which many folders have beside their rooms."""
    contracts = tomllib.loads((ROOT / "tools" / "imports.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = {c["containers"][0]: " | ".join(c["layers"]).split(" | ") for c in contracts["contracts"] if "layers" in c}
    for container, rooms in layers.items():
        folder = ROOT.joinpath(*container.split(".")[1:])
        there = {inside.parent.name for inside in folder.glob("*/__init__.py")} - {
            "tests",
            "tools",
            "bench",
            "fencepost",
        }
        assert there <= set(rooms), f"{container}: tools/imports.toml lacks {sorted(there - set(rooms))}"


@cache
def _parsed() -> tuple[list[str], Counter[str], dict[str, set[str]]]:
    """Large classes without a reason, names that say nothing, and the raw events that files read: each parsed once."""
    large: list[str] = []
    wrong: Counter[str] = Counter()
    raw: dict[str, set[str]] = {}
    for path, text in _sources().items():
        nodes = list(ast.walk(ast.parse(text)))
        large += [f"{path}: {node.name}" for node in nodes if isinstance(node, ast.ClassDef) and _is_large(node)]
        wrong.update(f"{path}: {name}" for name in _bound(nodes) if name.strip("_") in NAMES)
        imports = (node for node in nodes if isinstance(node, ast.ImportFrom))
        raw[path] = {alias.name for node in imports for alias in node.names} & RAW
    return large, wrong, raw


def _is_large(node: ast.ClassDef) -> bool:
    is_long = (node.end_lineno or node.lineno) - node.lineno >= CLASS_LINES_MAX
    return is_long and not re.search(r"\bSize: \w", ast.get_docstring(node) or "")


def test_every_class_has_one_concept_or_a_reason() -> None:
    """A longer class hides a second concept as a rule. Where there is none, its docstring has a line "Size: ..."."""
    assert _parsed()[0] == []


def _bound(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Every name that a module binds: locals, parameters, fields, functions."""
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def test_names_are_nouns_and_verbs() -> None:
    wrong = _parsed()[1]
    assert not wrong, wrong.most_common(20)


def test_no_word_needs_a_second_reading() -> None:
    wrong: Counter[str] = Counter()
    for path, text in _sources().items():
        if not ARCHAIC.search(" ".join(text.split())):
            continue  # To take every file apart takes six seconds.
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (tokenize.COMMENT, tokenize.STRING):
                prose = " ".join(token.string.split())
                wrong.update(f"{path}: {match[0]}" for match in ARCHAIC.finditer(prose))
    for page in sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]):
        if page.name != "glossary.md":
            text = " ".join(page.read_text(encoding="utf-8").split())
            wrong.update(f"{page.relative_to(ROOT)}: {match[0]}" for match in ARCHAIC.finditer(text))
    assert not wrong, wrong.most_common(20)


def test_facts_are_derived_in_one_place() -> None:
    """Only `checkers/derived`, and a leaf's `facts`, read what claims, reigns, stops and stalls are derived from."""
    reading = _parsed()[2]
    facts = {path: raw for path, raw in reading.items() if path.startswith("checkers/derived/")}
    assert frozenset().union(*facts.values()) == RAW
    outside = {p: raw for p, raw in reading.items() if p.startswith(tuple(f"{r}/" for r in READ_FACTS)) and raw}
    assert outside.keys() <= facts.keys(), outside


def test_docker_does_not_shadow_the_docker_sdk() -> None:
    assert not (ROOT / "docker" / "__init__.py").exists()


def test_no_lock_or_source_names_a_registry_host() -> None:
    assert "://" not in (ROOT / "requirements.lock").read_text(encoding="utf-8")


# How workers share tests: a file stays together, and so does everything on the container engine.

_TEST = """
import os, pathlib, time, pytest

@pytest.mark.parametrize("number", range(4))
def test_it(number):
    time.sleep(0.05)
    with pathlib.Path("workers").open("a") as file:
        file.write(f"{__name__} {os.environ['PYTEST_XDIST_WORKER']}\\n")
"""
_ON_ENGINE = "import pytest\npytestmark = pytest.mark.containers\n"
_INI = "[pytest]\nmarkers =\n  containers\n  cluster\n"


_ON_SERVERS = "import pytest\npytestmark = pytest.mark.cluster\n"
_TWO_WORKERS = ("-n", "2", "--dist", "loadscope", "--no-loadscope-reorder")


def play(
    folder: Path, files: dict[str, str], flags: Sequence[str] = _TWO_WORKERS
) -> "subprocess.CompletedProcess[str]":
    """These files under our conftest."""
    for name, text in files.items():
        path = folder / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shutil.copy(Path(__file__).with_name("conftest.py"), folder / "tests" / "conftest.py")
    (folder / "pytest.ini").write_text(_INI)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *flags, "tests"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False)


def test_files_stay_together_and_so_does_everything_on_the_engine(tmp_path: Path) -> None:
    on_engine = {f"runtime/containers/test_e{number}.py": _ON_ENGINE + _TEST for number in range(3)}
    others = {f"test_o{number}.py": _TEST for number in range(3)}
    done = play(tmp_path, {**on_engine, **others})
    assert done.returncode == 0, done.stdout + done.stderr
    workers = defaultdict(set)
    for line in (tmp_path / "workers").read_text().splitlines():
        module, worker = line.split()
        workers[module].add(worker)
    assert len(workers) == 6
    assert all(len(ran) == 1 for ran in workers.values()), workers
    assert len({worker for module, ran in workers.items() if "test_e" in module for worker in ran}) == 1, workers
    assert len({worker for ran in workers.values() for worker in ran}) == 2, "both had something to do"


def test_between_files_that_wait_come_some_that_compute(tmp_path: Path) -> None:
    waiting = {f"test_w{number}.py": _ON_SERVERS + _TEST for number in range(3)}
    done = play(tmp_path, {**waiting, **{f"test_c{number}.py": _TEST for number in range(9)}}, ("--collect-only",))
    order = dict.fromkeys(line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line)
    kinds = "".join(file.removeprefix("tests/test_")[0] for file in order)
    assert kinds == "wccwccwccccc", done.stdout


def test_a_file_on_the_engine_that_nobody_listed_is_named(tmp_path: Path) -> None:
    done = play(tmp_path, {"test_new.py": _ON_ENGINE + _TEST}, ())
    assert done.returncode == 1
    assert "test_new.py has tests on the container engine, but is not in _ENGINE_FILES" in done.stdout


@pytest.mark.parametrize(
    ("nodeid", "group"),
    [
        ("tests/runtime/containers/test_life.py::test_x[a::b]", "engine"),
        ("tests/runs/test_container_runs.py::test_x", "engine"),
        ("tests/runtime/conformance/test_conformance.py::test_x[rules-lab]", "engine"),
        ("tests/runtime/conformance/test_conformance.py::test_x[lab]", "conformance of the lab"),
        ("tests/runtime/conformance/test_conformance.py::test_x[lab-one way]", "conformance of the lab"),
        ("tests/warehouse/test_store.py::test_x", "spark"),
        ("tests/runs/test_plants.py::test_x[set]", "tests/runs/test_plants.py[set]"),
        ("tests/checkers/test_locks.py::Class::test_x", "tests/checkers/test_locks.py"),
    ],
)
def test_groups(nodeid: str, group: str) -> None:
    assert group_of(nodeid) == group
