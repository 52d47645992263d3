"""The border: nothing above it knows what is below, and each leaf can be deleted.

A leaf is taken out of a copy of the tree; what is left must import, list what there is, run the example system, and
pass the core's quick tests that do not ask for that leaf.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.lab_scenario import require_lab
from tools.lines import FOLDERS, LEAVES

ROOT: Final = Path(__file__).resolve().parent.parent
#: The leaves that are taken out here, with the name of the entry point of each.
TAKEN_OUT: Final = {
    "systems/kafka": "kafka",
    "systems/cassandra": "cassandra",
    "campaigns": "campaigns",
    "warehouse": "warehouse",
}
#: The names by which a test asks for it.
NAMES: Final = {
    "systems/kafka": ("kraft", "kafka-zk", "kafka-bridge"),
    "systems/cassandra": ("cassandra",),
    "campaigns": ("campaign", "gate", "replay", "shrink"),
    "warehouse": ("warehouse", "demo"),
}
#: Tests of the core that start no server and take half a minute together.
QUICK: Final = ("base", "history", "verdict", "generators", "interpreter", "plan", "judging", "results", "plugins")
_RUN: Final = "run --system example --workload register --nemesis pause:leader --time-limit 4s --quiet 1s --watch 1s"


#: Words of systems: what each is called and, of Kafka, what only it has.
WORDS: Final = re.compile(
    r"(?<![a-z])(kafka|kraft|zookeeper|etcd|consul|cassandra|nats|jetstream|znode|zxid|broker|controller|topic)(s|es)?"
    r"(?![a-z])",
    re.IGNORECASE,
)
#: Where such a word may stand above the border, and why.
ALLOWED: Final = (
    (r"topic", r"", "what a note of a history, and a line of the runner's pipe, is about"),
    (r"controllers?", r"harness/runtime/linux/cgroup\.py", "the kernel's word for a part of a cgroup"),
    (
        r".*([Bb]roker|BROKER|[Tt]opic|controller).*",
        r"checkers/(log|derived)/.*|workloads/log\.py|harness/history/effects\.py|harness/plugins/(registry|judged)\.py"
        r"|harness/report/(leaders|page)\.py|harness/verdict/(fact_tables|figures|figure_rows)\.py",
        "of partitions of a log, as recorded verdicts and their pages name them",
    ),
    (
        r".*(kafka-log|kafka_history|Kafka's sends|debug-topic).*",
        r"harness/interchange/formats/family\.py|harness/plugins/registry\.py|checkers/log/kafka_\w+\.py",
        "Jepsen's workload of that name",
    ),
    (r".*(etcd|zookeeper).*", r"harness/cli/.*|harness/contract/server_settings\.py", "examples in help and hints"),
)
slow = pytest.mark.slow


def test_nothing_above_the_border_speaks_of_a_system() -> None:
    met, wrong = set(), []
    for folder in (folder for folder in FOLDERS if folder not in LEAVES):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            texts = {text: line for line, text in _said(ast.parse(path.read_text(encoding="utf-8")))}
            for text, line in texts.items():
                if WORDS.search(re.sub(r"([a-z])([A-Z])", r"\1_\2", text)):
                    allowed = next((why for of, where, why in ALLOWED if _is_allowed(text, name, of, where)), None)
                    met.add(allowed)
                    if allowed is None:
                        wrong.append(f"{name}:{line}: {text:.80}")
    assert not wrong, "\n".join(wrong)
    assert met == {why for _, _, why in ALLOWED}, "take what is not needed off the list"
    assert len(ALLOWED) <= 5


def _is_allowed(text: str, name: str, of: str, where: str) -> bool:
    return bool(re.fullmatch(of, text, re.DOTALL)) and (not where or bool(re.fullmatch(where, name)))


def _said(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every identifier and every string but docstrings, with its line."""
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=text) | ast.Attribute(attr=text) | ast.arg(arg=text) | ast.alias(name=text):
                yield node.lineno, text
            case ast.ClassDef(name=text) | ast.FunctionDef(name=text) | ast.AsyncFunctionDef(name=text):
                yield node.lineno, text
            case ast.ImportFrom(module=str() as text) | ast.keyword(arg=str() as text):
                yield node.lineno, text
            case ast.Constant(value=str() as text) if id(node) not in documents:
                yield node.lineno, text


def _copy(folder: Path, leaf: str) -> Path:
    """The tracked files of the tree without one leaf, and the metadata that names its entry points without it."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        path = Path(name)
        if not name.startswith(f"{leaf}/") and name != f"fencepost/{leaf}":
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, folder / path, follow_symlinks=False)
    core = next((ROOT / "checkers").glob("_core*.so"))
    shutil.copy(core, folder / "checkers" / core.name)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = folder / f"fencepost-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: fencepost\nVersion: {project['version']}\n")
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{n} = {to}" for n, to in points.items() if n != TAKEN_OUT[leaf])]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module", params=TAKEN_OUT)
def without(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A copy of the tree without a leaf, and the leaf's folder."""
    return _copy(tmp_path_factory.mktemp("copy"), request.param), request.param


def _python(folder: Path, *words: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


@slow
@pytest.mark.timeout(300)
def test_what_is_left_can_be_imported(without: tuple[Path, str]) -> None:
    folder, leaf = without
    rooms = [room for room in FOLDERS if room not in LEAVES]
    modules = [
        ".".join(("fencepost", *path.relative_to(folder).with_suffix("").parts)).removesuffix(".__init__")
        for room in rooms
        for path in sorted((folder / room).rglob("*.py"))
        if "native" not in path.parts and path.name not in ("__main__.py", "pytest_suite.py")
    ]
    code = (
        f"import importlib, sys\nfor name in {modules!r}: importlib.import_module(name)\n"
        f"print(*(name for name in sys.modules if name.startswith('fencepost.{leaf.replace('/', '.')}')))"
    )
    done = _python(folder, "-c", code)
    assert done.returncode == 0, done.stderr
    assert not done.stdout.strip()


@slow
@pytest.mark.timeout(300)
def test_what_is_left_is_listed(without: tuple[Path, str]) -> None:
    folder, leaf = without
    for kind in ("systems", "workloads", "faults", "guarantees", "checkers", "abilities", "plugins"):
        done = _python(folder, "-m", "fencepost.harness.cli", "list", kind)
        assert done.returncode == 0, done.stderr
        assert "Not usable" not in done.stdout
        if kind == "plugins":
            assert re.search(r"^  example ", done.stdout, re.M)
            assert not re.search(rf"^  {TAKEN_OUT[leaf]} ", done.stdout, re.M)


@slow
@pytest.mark.cluster
@pytest.mark.timeout(300)
def test_the_example_is_run_to_its_report(without: tuple[Path, str], tmp_path: Path) -> None:
    require_lab()
    folder, _ = without
    words = [*_RUN.split(), "--results", str(tmp_path), "--seed", "1"]
    done = _python(folder, "-m", "fencepost.harness.cli", *words)
    assert done.returncode in (0, 2), done.stdout + done.stderr
    (report,) = tmp_path.glob("*/*/report.html")
    assert report.stat().st_size > 10_000


@slow
@pytest.mark.timeout(600)
def test_the_core_passes_its_quick_tests(without: tuple[Path, str]) -> None:
    folder, leaf = without
    files = [str(path) for path in _quick(leaf)]
    assert len(files) > 15, "most tests of the core need no leaf"
    marks = "not slow and not long and not cluster and not containers and not alone"
    done = _python(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-x", "-m", marks, *files, timeout_s=500)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


def _quick(leaf: str) -> Iterator[Path]:
    """The core's quick test files that neither import the leaf nor name it, nor have a helper that does."""
    module = f"fencepost.{leaf.replace('/', '.')}"
    asks = re.compile(rf"[\"' ]({'|'.join(NAMES[leaf])})\b")
    for room in QUICK:
        for path in sorted((ROOT / "tests" / room).rglob("test_*.py")):
            relative = path.relative_to(ROOT)
            name = ".".join(relative.with_suffix("").parts)
            reached = _reached(name)
            files = [ROOT.joinpath(*one.split(".")).with_suffix(".py") for one in reached if one.startswith("tests.")]
            named = any(asks.search(file.read_text(encoding="utf-8")) for file in files if file.is_file())
            # Generated pages tell of everything that is installed.
            pages = any(one.startswith("tools.") for one in reached)
            if not named and not pages and not any(one == module or one.startswith(f"{module}.") for one in reached):
                yield relative


@cache
def _reached(module: str) -> frozenset[str]:
    """What a module of the tests imports, directly or through others of the tests."""
    found: set[str] = set()
    todo = [module]
    while todo:
        name = todo.pop()
        path = ROOT / Path(*name.split("."))
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if name in found or not file.is_file():
            found.add(name)
            continue
        found.add(name)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            else:
                continue
            found |= {one for one in names if one.startswith("fencepost.")}
            todo += [one for one in names if one.startswith(("tests.", "tools."))]
    return frozenset(found)
