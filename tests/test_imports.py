"""The direction of imports: the folders are the architecture, and this test holds the line."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("harness", "workloads", "nemesis", "checkers")

#: Modules of `harness` that know everything: the registry and the two processes' top levels.
KNOWS_ALL = {
    "fencepost.harness.plugins.registry",
    "fencepost.harness.run.execute",
    "fencepost.harness.runner.run_inside",
    "fencepost.harness.runner.__main__",
    "fencepost.harness.judging.judge",
}
#: Modules of `harness` that read by the native module, which judges nothing there.
NATIVE = {"fencepost.harness.interchange.formats.edn"}
#: What checkers may know of `harness`.
TYPES = {
    "fencepost.harness.history.operation",
    "fencepost.harness.history.history",
    "fencepost.harness.history.ending",
    "fencepost.harness.verdict.verdict",
    "fencepost.harness.base.errors",
}


def _modules() -> list[Path]:
    return [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
            found |= {
                f"{node.module}.{alias.name}" for alias in node.names if (ROOT / node.module.replace(".", "/")).is_dir()
            }
    return {name for name in found if name.split(".")[0] in FOLDERS}


def _forbidden(module: str, imported: str) -> str | None:
    top, other = module.split(".")[0], imported.split(".")[0]
    if top == "checkers":
        if other in ("workloads", "nemesis"):
            return "checkers judge histories only"
        if (
            other == "harness"
            and imported not in TYPES
            and imported.rpartition(".")[0] not in TYPES
            and imported != "harness"
        ):
            return "checkers know only the operation, history and verdict types"
    if top in ("workloads", "nemesis") and other not in ("harness", top):
        return "workloads and nemesis know the harness; checkers are named by registry key"
    if module in NATIVE and imported in ("checkers", "fencepost.checkers._core"):
        return None
    if (
        top == "harness"
        and other != "harness"
        and module not in KNOWS_ALL
        and not module.startswith("fencepost.harness.cli")
    ):
        return "only the registry, the command line and the top level know everything"
    return None


@pytest.mark.parametrize("path", _modules(), ids=_name)
def test_imports_point_one_way(path: Path) -> None:
    module = _name(path)
    broken = [f"{module} imports {name}: {why}" for name in sorted(_imports(path)) if (why := _forbidden(module, name))]
    assert not broken


def test_docker_does_not_shadow_the_docker_sdk() -> None:
    assert not (ROOT / "docker" / "__init__.py").exists()


def test_no_lock_or_source_names_a_registry_host() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert "://" not in lock
