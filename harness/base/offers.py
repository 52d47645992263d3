"""What leaves and plug-ins bring: one declaration for each, in the form of literal tables of a module.

A leaf is a folder of fencepost below the border (a system, `campaigns`, `warehouse`); a plug-in is the same of another
package or file. Each folder of fencepost's systems is such a module. An installed package names the module by an entry
point in the group `fencepost`; a path (`--plugin PATH`) is the module: a file, a folder with `__init__.py`, or a folder
with a `pyproject.toml` whose entry points name it. The module has mappings of names, such as SYSTEMS or WORKLOADS;
`KINDS` lists them. A value is what stands behind the name, or "module:attribute", so that nothing heavy is imported
before somebody asks for it.

The paths stand in an environment variable, so that every process of a run, of a night and of Spark on this machine
finds the same plug-ins.
"""

import functools
import hashlib
import importlib
import importlib.util
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import msgspec

from fencepost.harness.base.errors import UsageError

#: The groups of entry points whose values are modules with tables. Those that bring commands stand in the second, so
#: that `fencepost --help` loads no others.
GROUP: Final = "fencepost"
WITH_COMMANDS: Final = "fencepost.commands"
_GROUPS: Final = (GROUP, WITH_COMMANDS)
#: What this package is called; its entry points are leaves.
_OWN: Final = "fencepost"
#: The kinds of names that a module can offer; in capitals each is the name of its table.
KINDS: Final = (
    "systems",
    "workloads",
    "faults",
    "checkers",
    "models",
    # By system, the checkers that judge each of its runs, whatever the workload.
    "run_checkers",
    # For `fencepost list guarantees`: by checker, what it judges; by guarantee, the workload's options and the fault
    # without which nothing judges it.
    "judges",
    "judged_with",
    "judged_under",
    # Tables of facts, and what a page shows besides; in the order of their table.
    "fact_tables",
    "report_sections",
    # Further targets of faults, as "FAULT:TARGET" (`harness.faults.kind.AddedTarget`), in the order of the table.
    "fault_targets",
    # Protocols that a system may have, by the name that `fencepost list` prints.
    "abilities",
    # By anomaly, its words as a phrase (`harness.verdict.guarantee`).
    "anomaly_words",
    # By name: module, first sentence of its help, and the heading that it stands below in `fencepost --help`.
    "commands",
    # Commands below `fencepost conformance`.
    "conformance",
    # What the conformance suite asks of sessions that offer an interface, by its name.
    "probes",
    # What `fencepost doctor` looks at.
    "machine_checks",
    # What judges tables that are too large for one machine.
    "table_judges",
)
#: The paths of `--plugin`, for the child processes.
VARIABLE: Final = "FENCEPOST_PLUGINS"

_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
#: Words of the nemesis that no fault can have for its name.
_TAKEN: Final = frozenset({"all", "none", "client"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a plug-in comes from. `place` says it to a person, `path` is what `--plugin` was given, if anything."""

    name: str
    version: str
    place: str
    path: Path | None = None
    #: A leaf of fencepost's own.
    leaf: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedOffer:
    """One name that a leaf or a plug-in offers; `target` stands in its table."""

    kind: str
    name: str
    source: Source
    target: Any

    def load(self) -> Any:
        """What stands behind the name; importing it may raise anything."""
        return attribute(self.target) if isinstance(self.target, str) else self.target


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a plug-in, or one name of it, is not usable; `text` names the places."""

    source: Source
    kind: str
    name: str
    text: str

    def error(self) -> UsageError:
        """The refusal of whoever asks for this name."""
        return UsageError(self.text, hint="correct the plug-in, or leave it out; `fencepost list plugins` shows them")


class UsedPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A plug-in that a run used, as `run.json` records it; `sha256` is that of its Python files."""

    name: str
    version: str
    sha256: str
    provides: tuple[str, ...]
    path: str = ""


@dataclass(slots=True)
class _Offered:
    """Everything that plug-ins offer to this process."""

    sources: list[Source] = field(default_factory=list)
    offers: dict[tuple[str, str], NamedOffer] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def use(paths: Iterable[str | Path]) -> None:
    """Add these paths to those of this process and of its children.

    Raises:
        UsageError: there is nothing at a path, or it cannot be loaded; the message names it.
    """
    known = list(plugin_paths())
    for given in paths:
        path = Path(given).resolve()
        if str(path) in known:
            continue
        if not path.exists():
            raise UsageError(f"--plugin {given}: there is nothing", hint="give a Python file, or a folder with one")
        known.append(str(path))
        os.environ[VARIABLE] = os.pathsep.join(known)
        forget()
        broken = next((p for p in offered().problems if p.source.path == path), None)
        if broken is not None:
            raise broken.error()


def plugin_paths() -> tuple[str, ...]:
    """The paths of `--plugin`, of this command or of the one that started this process."""
    return tuple(path for path in os.environ.get(VARIABLE, "").split(os.pathsep) if path)


def forget() -> None:
    """Look for plug-ins again when somebody asks next."""
    offered.cache_clear()


@functools.cache
def offered(groups: tuple[str, ...] = _GROUPS) -> _Offered:
    """What installed packages (those of these groups) and the paths offer, clashes taken out."""
    result = _Offered()
    claims: list[NamedOffer] = []
    for source, read in (*_installed(groups), *map(_at_path, plugin_paths())):
        try:
            claims += read()
        except ModuleNotFoundError as error:
            if source.leaf and error.name == source.place:
                continue  # this leaf was taken out
            result.problems.append(_unread(source, error))
        except (Exception, SystemExit) as error:
            result.problems.append(_unread(source, error))
        result.sources.append(source)
    claimants: dict[tuple[str, str], list[NamedOffer]] = {}
    for claim in claims:
        claimants.setdefault((claim.kind, claim.name), []).append(claim)
    for (kind, name), rivals in claimants.items():
        own = next((rival for rival in rivals if rival.source.leaf), None)
        if own is not None:
            result.offers[kind, name] = own
            rivals = [rival for rival in rivals if rival is not own]
            result.problems += [_clash(rival, own.target) for rival in rivals]
            continue
        text = _refusal(kind, name, rivals)
        if text:
            result.problems += [Problem(rival.source, kind, name, text) for rival in rivals]
        else:
            result.offers[kind, name] = rivals[0]
    return result


def targets(kind: str) -> dict[str, Any]:
    """What stands in the tables of a kind, by name, without loading any of it."""
    there = offered((WITH_COMMANDS,) if kind == "commands" else _GROUPS).offers.items()
    return dict(sorted((name, offer.target) for (of, name), offer in there if of == kind))


def loaded(kind: str) -> dict[str, Any]:
    """What stands behind each name of a kind that no person types; raises what loading it raises."""
    there = offered().offers.items()
    return dict(sorted((name, offer.load()) for (of, name), offer in there if of == kind))


def declared(kind: str) -> list[NamedOffer]:
    """The offers of a kind in the order in which leaves and plug-ins declare them."""
    return [offer for (of, _), offer in offered().offers.items() if of == kind]


def declared_for(kind: str, system: str) -> list[NamedOffer]:
    """The offers of a kind that concern a run of this system, declared as `declared` has them.

    A leaf of ours that brings systems has nothing to say of others, so it need not be imported for their runs.
    """
    systems: dict[str, set[str]] = {}
    for offer in declared("systems"):
        systems.setdefault(offer.source.name, set()).add(offer.name)
    return [
        offer for offer in declared(kind) if not offer.source.leaf or system in systems.get(offer.source.name, {system})
    ]


def _unread(source: Source, error: BaseException) -> Problem:
    return Problem(source, "", "", f"the plug-in {source.place} is broken: {_why(error)}")


def refuse_clashes(kind: str, ours: Mapping[str, str]) -> None:
    """Take away the offers of names that the core has itself."""
    result = offered()
    for name, target in ours.items():
        offer = result.offers.pop((kind, name), None)
        if offer is not None:
            result.problems.append(_clash(offer, target))
            if offer.source.path is not None:
                raise result.problems[-1].error()


def _clash(offer: NamedOffer, target: object) -> Problem:
    text = (
        f"the {_singular(offer.kind)} {offer.name!r} of the plug-in {offer.source.place} is refused: "
        f"fencepost has one of that name, at {target}"
    )
    return Problem(offer.source, offer.kind, offer.name, text)


def broken(offer: NamedOffer, error: BaseException | str) -> Problem:
    """Record that what stands behind an offer cannot be used."""
    why = error if isinstance(error, str) else _why(error)
    text = f"the {_singular(offer.kind)} {offer.name!r} of the plug-in {offer.source.place} is broken: {why}"
    problem = Problem(offer.source, offer.kind, offer.name, text)
    if problem not in offered().problems:
        offered().problems.append(problem)
    return problem


def used(names: Iterable[tuple[str, str]]) -> list[UsedPlugin]:
    """The plug-ins behind these (kind, name) pairs; names of fencepost's own are left out."""
    by_source: dict[str, list[NamedOffer]] = {}
    for kind, name in dict.fromkeys(names):
        offer = offered().offers.get((kind, name))
        if offer is not None and not offer.source.leaf:
            by_source.setdefault(offer.source.place, []).append(offer)
    return [
        UsedPlugin(
            name=offers[0].source.name,
            version=offers[0].source.version,
            sha256=_hash_of(offers[0]),
            provides=tuple(f"{_singular(offer.kind)} {offer.name}" for offer in offers),
            path=str(offers[0].source.path or ""),
        )
        for offers in by_source.values()
    ]


def blamed(error: BaseException) -> str | None:
    """The plug-in and the line in which this error was raised; None where no plug-in's code stands in its traceback."""
    roots = {str(source.path): source for source in offered().sources if source.path is not None}
    for offer in offered().offers.values():
        root = None if offer.source.leaf else _root_of(offer)
        if root is not None:
            roots[str(root)] = offer.source
    blame, frame = None, error.__traceback__
    while frame is not None:
        file = frame.tb_frame.f_code.co_filename
        source = next((s for root, s in roots.items() if file == root or file.startswith(f"{root}{os.sep}")), None)
        if source is not None:
            blame = f"the plug-in {source.place} failed at {file}:{frame.tb_lineno}: {_why(error)}"
        frame = frame.tb_next
    return blame


# -- where they come from ---------------------------------------------------------------------------------------------

_Found = tuple[Source, Callable[[], list[NamedOffer]]]


def _installed(groups: Sequence[str]) -> Iterator[_Found]:
    from importlib.metadata import distributions

    seen: set[str] = set()
    for package in distributions():
        points = [point for point in package.entry_points if point.group in groups]
        # The first on the path is the one that is imported.
        if not points or package.name in seen:
            continue
        seen.add(package.name)
        if package.name == _OWN:
            # To be a folder of systems is enough; one that brings commands is named too.
            folders = sorted(Path(__file__).parents[2].glob("systems/*/__init__.py")) if GROUP in groups else ()
            leaves = {f"{_OWN}.systems.{init.parent.name}": init.parent.name for init in folders}
            leaves |= {point.value: point.name for point in points}
            for module, name in leaves.items():
                source = Source(name=name, version=package.version, place=module, leaf=True)
                yield source, functools.partial(_of_modules, source, [module])
        else:
            source = Source(name=package.name, version=package.version, place=f"{package.name} {package.version}")
            yield source, functools.partial(_of_modules, source, [point.value for point in points])


def _at_path(text: str) -> _Found:
    path = Path(text)
    project = path / "pyproject.toml"
    if path.is_dir() and project.exists():
        try:
            head = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {})
            named, version = str(head.get("name", path.name)), str(head.get("version", ""))
        except (OSError, ValueError):
            named, version = path.name, ""
        source = Source(name=named, version=version, place=str(path), path=path)
        return source, lambda: _of_project(source, project)
    source = Source(name=path.stem, version="", place=str(path), path=path)
    return source, lambda: _of_file(source, path / "__init__.py" if path.is_dir() else path)


def _of_project(source: Source, project: Path) -> list[NamedOffer]:
    points = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {}).get("entry-points", {})
    folder = project.parent / "src" if (project.parent / "src").is_dir() else project.parent
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    modules = [name for group in _GROUPS for name in points.get(group, {}).values()]
    return _some(_of_modules(source, modules), source, f"no table [project.entry-points.{GROUP}] that names a module")


def _of_modules(source: Source, names: Iterable[str]) -> list[NamedOffer]:
    return [offer for name in names for offer in _of_tables(source, importlib.import_module(name))]


def _of_tables(source: Source, module: ModuleType) -> list[NamedOffer]:
    offers = []
    for kind in KINDS:
        named = getattr(module, kind.upper(), {})
        if not isinstance(named, Mapping):
            raise UsageError(f"{kind.upper()} is {type(named).__name__}; expected a mapping of names")
        offers += [
            NamedOffer(kind=kind, name=str(name), source=source, target=target) for name, target in named.items()
        ]
    return offers


def _of_file(source: Source, file: Path) -> list[NamedOffer]:
    """Import a file under a name of its own, so that it hides no module; its neighbours can be imported."""
    if not file.is_file():
        raise UsageError(f"expected {file.name} or pyproject.toml in the folder")
    own = f"fencepost_plugin_{re.sub(r'[^0-9A-Za-z]', '_', str(source.path))}"
    module = sys.modules.get(own)
    if module is None:
        spec = importlib.util.spec_from_file_location(
            own, file, submodule_search_locations=[str(file.parent)] if file.name == "__init__.py" else None
        )
        if spec is None or spec.loader is None:
            raise UsageError("expected a Python file (.py)")
        if str(file.parent) not in sys.path:
            sys.path.append(str(file.parent))
        module = importlib.util.module_from_spec(spec)
        sys.modules[own] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[own]
            raise
    return _some(_of_tables(source, module), source, f"no mapping {', '.join(kind.upper() for kind in KINDS[:5])}")


def _some(offers: list[NamedOffer], source: Source, lacks: str) -> list[NamedOffer]:
    if not offers:
        raise UsageError(f"it offers nothing: it has {lacks}")
    return offers


def attribute(target: str) -> Any:
    """What "module:attribute" names; importing it may raise anything."""
    module, _, names = target.partition(":")
    loaded: Any = importlib.import_module(module)
    for name in filter(None, names.split(".")):
        loaded = getattr(loaded, name)
    return loaded


def _refusal(kind: str, name: str, rivals: list[NamedOffer]) -> str:
    if len(rivals) > 1:
        places = " and ".join(rival.source.place for rival in rivals)
        return f"the {_singular(kind)} {name!r} is offered twice, so neither is used: by {places}"
    parts = name.split(":") if kind == "fault_targets" else [name]
    if not all(map(_NAME.fullmatch, parts)) or (kind == "faults" and name in _TAKEN):
        return (
            f"the {_singular(kind)} {name!r} of the plug-in {rivals[0].source.place} is refused: expected small "
            "letters and digits, joined by hyphens, and no word of the nemesis"
        )
    return ""


def _root_of(offer: NamedOffer) -> Path | None:
    """The file or folder of the plug-in's code; None for an installed package that is not imported yet."""
    if offer.source.path is not None:
        return offer.source.path
    module = (
        offer.target.partition(":")[0] if isinstance(offer.target, str) else getattr(offer.target, "__module__", "")
    )
    top = sys.modules.get(module.partition(".")[0])
    file = getattr(top, "__file__", None)
    if file is None:
        return None
    return Path(file).parent if Path(file).name == "__init__.py" else Path(file)


def _hash_of(offer: NamedOffer) -> str:
    root = _root_of(offer)
    if root is None:
        return ""
    total = hashlib.sha256()
    for file in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
        total.update(f"{file.relative_to(root) if root.is_dir() else file.name}\0".encode())
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()


def _singular(kind: str) -> str:
    return kind.removesuffix("s").replace("_", " ")


def _why(error: BaseException) -> str:
    if isinstance(error, UsageError):
        return error.message
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return f"{text.partition(' (')[0]} in line {error.lineno}"
    return text
