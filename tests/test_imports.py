"""The folders are the architecture: who may import whom, at every level, and no cycle between folders.

`tests/rooms.py` has the order. Imports inside functions and those for the type checker alone count like all others.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.rooms import ALLOWED_ABOVE, FOLDERS, LOOSE, ROOMS

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = "fencepost"


class Edge(NamedTuple):
    """`importer` (a path) imports `imported` (a path), in this line."""

    importer: str
    imported: str
    line: int

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


@cache
def _files() -> dict[str, str]:
    """Every module of the product by its dotted name, without the package's."""
    found = {"checkers._core": "checkers/native/_core"}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if "native" not in parts:
                found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = str(path.relative_to(ROOT))
    return found


def _imported(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield (whole if whole.removeprefix(f"{PACKAGE}.") in _files() else node.module), node.lineno


@cache
def _edges() -> tuple[Edge, ...]:
    found = []
    for path in (path for path in _files().values() if path.endswith(".py")):
        for name, line in _imported(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
            target = _files().get(name.removeprefix(f"{PACKAGE}."))
            if name.startswith(f"{PACKAGE}.") and target is not None and target != path:
                found.append(Edge(path, target, line))
    return tuple(found)


def _split(edge: Edge) -> tuple[str, str | None, str | None]:
    """The folder that both lie in, and the room in it of each; None for a file that lies loose there."""
    one, other = Path(edge.importer).parts[:-1], Path(edge.imported).parts[:-1]
    shared = 0
    while shared < min(len(one), len(other)) and one[shared] == other[shared]:
        shared += 1
    return (
        "/".join(one[:shared]),
        one[shared] if shared < len(one) else None,
        other[shared] if shared < len(other) else None,
    )


def _against_the_order(edge: Edge) -> bool:
    folder, importer, imported = _split(edge)
    if not folder:
        above = ALLOWED_ABOVE[str(importer)]
        return not any(f"{Path(edge.imported).parent}/".startswith(f"{place}/") for place in above)
    order = ROOMS.get(folder)
    if order is None or importer is None or imported in (None, "native"):
        return False
    return order.index(imported) > order.index(importer)


def test_rooms_import_only_what_stands_above_them() -> None:
    broken = [str(edge) for edge in _edges() if _against_the_order(edge)]
    assert not broken, "\n".join(broken)


def test_every_folder_has_its_place_in_the_order() -> None:
    listed = {f"{folder}/{room}" for folder, rooms in ROOMS.items() for room in rooms} | set(FOLDERS)
    there = {str(Path(path).parent) for path in _files().values() if path.endswith(".py")}
    below = {folder for folder in there if str(Path(folder).parent) in ROOMS}
    assert below <= listed, f"not in tests/rooms.py: {sorted(below - listed)}"
    assert listed <= there, f"in tests/rooms.py alone: {sorted(listed - there)}"


def test_no_cycle_between_folders() -> None:
    """A folder here is the files that lie in it; a parent and its children are different folders."""
    graph: dict[str, set[str]] = {}
    for edge in _edges():
        importer, imported = str(Path(edge.importer).parent), str(Path(edge.imported).parent)
        # A package that hands on the names of its rooms is its rooms' face, not a floor of its own.
        if importer != imported and not edge.importer.endswith("__init__.py"):
            graph.setdefault(importer, set()).add(imported)
    while graph:
        leaves = {folder for folder, others in graph.items() if not others & set(graph)}
        assert leaves, f"these folders import each other: {sorted(graph)}"
        graph = {folder: others for folder, others in graph.items() if folder not in leaves}


@pytest.mark.parametrize("folder", sorted(LOOSE))
def test_only_public_modules_lie_loose(folder: str) -> None:
    there = {path.name for path in (ROOT / folder).glob("*.py")} - {"__init__.py", "__main__.py"}
    assert there == set(LOOSE[folder])


def test_nothing_is_imported_by_its_folder_alone() -> None:
    """`harness`, `checkers` ... are no import names: installed, they might be somebody else's."""
    wrong = []
    for folder in (*FOLDERS, "tests", "bench", "tools"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for name, line in _imported(ast.parse(path.read_text(encoding="utf-8"))):
                if name.split(".")[0] in FOLDERS:
                    wrong.append(f"{path.relative_to(ROOT)}:{line} imports {name}")
    assert not wrong, "\n".join(wrong)


#: Events that facts are derived from: what nodes claim and log of their reigns, servers' lives, clocks, acts of the
#: nemesis, the harness's health. Nothing can tell them apart from other events without their types.
RAW: Final = frozenset(
    {"BeliefEvent", "CatchUpEvent", "ClockEvent", "EpochEvent", "FaultEvent", "NodeEvent", "SampleEvent"}
)
#: They read facts, as values or as tables.
READ_FACTS: Final = ("checkers", "harness/verdict", "systems/kafka/checkers", "systems/kafka/report", "warehouse")


def _raw_events(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return {alias.name for node in imports for alias in node.names} & RAW


def test_facts_are_derived_in_one_place() -> None:
    """Only `checkers/facts`, and a leaf's `facts`, read what claims, reigns, stops and stalls are derived from."""
    reading = {path: _raw_events(path) for path in _files().values() if path.endswith(".py")}
    facts = {path: raw for path, raw in reading.items() if path.startswith("checkers/facts/")}
    assert frozenset().union(*facts.values()) == RAW
    outside = {p: raw for p, raw in reading.items() if p.startswith(tuple(f"{r}/" for r in READ_FACTS)) and raw}
    assert outside.keys() <= facts.keys(), outside


def test_docker_does_not_shadow_the_docker_sdk() -> None:
    assert not (ROOT / "docker" / "__init__.py").exists()


def test_no_lock_or_source_names_a_registry_host() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert "://" not in lock
