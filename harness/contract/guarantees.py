"""What a system is held to, read from its `guarantees.toml`.

    includes = ["../more.toml"]

    [sources]
    raft = "Ongaro & Ousterhout (2014)"

    [guarantees]
    linearizable = { standing = "promised", source = "{raft}, section 8" }

A text that several systems share stands once, in the `guarantees.toml` beside this module; for some guarantees it also
has the standing and the source that hold where a system names no others. A system's entry adds the rest, or has a text
of its own where the system gives something else under the name. It also changes what an included file says of it.

`{raft}` stands for the source of that name. The tables of `issues` and `conditions` are `KnownIssue`s and `Condition`s;
an entry names its issues, and the conditions hold for every entry of the file. `earlier` says what is different in the
releases before those that it names. White space is folded, so that texts can be wrapped.

A table `[mechanisms]` names what the runs of a system can meet (`Mechanism`), beside those that systems share.

A promise may hold only with certain settings of the servers, or with certain options of the system: the standing of a
guarantee, its conditions and its known issues are those of the release, the settings and the options in force.
"""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from fencepost.harness.base.toml_file import Keys, TomlFile, read_toml
from fencepost.harness.contract.profile import SystemOptions
from fencepost.harness.contract.releases import is_before, lacks_fix, numbers
from fencepost.harness.contract.server_settings import Settings, value_of
from fencepost.harness.coordination import Interface
from fencepost.harness.history import Effects
from fencepost.harness.verdict import MINORITY_DAMAGED, Choice, Condition, Guarantee, KnownIssue, Mechanism, Standing

if TYPE_CHECKING:
    from fencepost.harness.contract.system import System

#: The texts that systems share.
SHARED: Final = Path(__file__).with_name("guarantees.toml")
_HINT: Final = "docs/how-to/add-a-system.md says how a system states its guarantees"


class _Stated(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of a `Guarantee` that a table states."""

    text: str = ""
    standing: Standing | None = None
    source: str = ""
    known_issue: str = ""
    issues: tuple[str, ...] = ()


class _Earlier(_Stated, frozen=True, kw_only=True):
    before: tuple[str, ...]


class _StatedOfReleases(_Stated, frozen=True, kw_only=True):
    earlier: _Earlier | None = None


class _Content(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    guarantees: dict[str, Any]
    includes: tuple[str, ...] = ()
    sources: dict[str, str] = {}
    issues: dict[str, Any] = {}
    conditions: tuple[Condition, ...] = ()
    mechanisms: dict[str, dict[str, Any]] = {}


@functools.cache
def read_guarantees(path: Path, version: str) -> tuple[Guarantee, ...]:
    """Read the guarantees that a release is held to; a version that is no number counts as new.

    Raises:
        UsageError: an entry is malformed, or has no text, standing or source. It names the file, the line and the key.
    """
    guarantees = []
    for name, entry in _entries(path).items():
        stated = entry.fields
        if entry.before and lacks_fix(version, entry.before):
            stated = {**stated, **entry.earlier}
        missing = next((key for key in ("standing", "source", "text") if key not in stated), None)
        if missing:
            hint = "fencepost has no text of that name that systems share" if missing == "text" else _HINT
            raise read_toml(path, hint=_HINT).error(["guarantees", name], f"{missing!r} is missing", hint)
        guarantees.append(Guarantee(name=name, **stated))
    return tuple(guarantees)


def source_of(path: Path, name: str) -> str:
    """The source of a guarantee as the newest release gives it."""
    return next(guarantee.source for guarantee in read_guarantees(path, "") if guarantee.name == name)


def mechanisms_of(system: "System") -> tuple[Mechanism, ...]:
    """What the runs of this system can meet: what systems share, as far as it has what that needs, then its own.

    One of its own takes the place of a shared one of the same name.
    """
    shared = (one for one in read_mechanisms(SHARED) if _can_meet(system, one))
    path = getattr(system, "guarantees", None)
    own = () if path is None else read_mechanisms(path)
    return tuple({one.name: one for one in (*shared, *own)}.values())


@functools.cache
def read_mechanisms(path: Path) -> tuple[Mechanism, ...]:
    """Read those that a file declares; raises UsageError as `read_guarantees`."""
    file = read_toml(path, hint=_HINT)
    content = file.with_sources(file.convert(_Content).sources).convert(_Content)
    included = (one for other in content.includes for one in read_mechanisms((path.parent / other).resolve()))
    return (
        *included,
        *(
            file.convert_part({**table, "name": name}, Mechanism, ("mechanisms", name))
            for name, table in content.mechanisms.items()
        ),
    )


def _can_meet(system: "System", mechanism: Mechanism) -> bool:
    """Decide whether the system has the part that it needs, or logs that tell of it."""
    match mechanism.of:
        case "catch-up":
            return system.logs is not None and mechanism.where["change"] in system.logs.caught_up.values()
        case "attempt":
            return system.logs is not None and bool(system.logs.attempted)
    if mechanism.needs == "leaders":
        return bool(system.profile.subjects)
    if mechanism.needs in list(Interface):
        return mechanism.needs in system.profile.interfaces
    return not mechanism.needs or getattr(system, mechanism.needs.replace("-", "_"), None) is not None


def promises_in_force(
    system: "System", version: str, settings: Settings, options: SystemOptions
) -> tuple[Guarantee, ...]:
    """The guarantees that this release is held to with these settings and options.

    A guarantee that they take away is only measured; its source then says why. Conditions that the options lift, and
    issues that this release or these options do not have, are left out.
    """
    promises = system.promises(version)
    reasons = {} if system.unpromised is None else system.unpromised(settings, options)
    return tuple(
        msgspec.structs.replace(
            g,
            standing=Standing.MEASURED if g.name in reasons else g.standing,
            source=f"not promised: {reasons[g.name]}" if g.name in reasons else g.source,
            conditions=tuple(
                _counted(one, options) for one in g.conditions if not _chosen(one.unless, settings, options)
            ),
            issues=tuple(
                issue
                for issue in g.issues
                if _affects(issue, version or system.releases.default) and not _chosen(issue.unless, settings, options)
            ),
        )
        for g in promises
    )


def _chosen(choice: Choice | None, settings: Settings, options: SystemOptions) -> bool:
    if choice is None:
        return False
    value = value_of(settings, choice.name) if choice.setting else str(getattr(options, choice.name))
    return value in choice.values


def _counted(condition: Condition, options: SystemOptions) -> Condition:
    """Return the condition with the number of nodes that may lose something, where an option decides it."""
    if condition.copies is None:
        return condition
    return msgspec.structs.replace(condition, most=(getattr(options, condition.copies) - 1) // 2)


def _affects(issue: KnownIssue, version: str) -> bool:
    """Decide whether this release has the issue; what is no number counts as new."""
    if issue.since and is_before(version, numbers(issue.since)):
        return False
    return not issue.before or lacks_fix(version, issue.before)


_Fields = Mapping[str, Any]


class _Entry(NamedTuple):
    """The fields of one guarantee, and what is different in the releases before some."""

    fields: _Fields
    before: tuple[str, ...]
    earlier: _Fields


@functools.cache
def _entries(path: Path) -> Mapping[str, _Entry]:
    file = read_toml(path, hint=_HINT)
    file = file.with_sources(file.convert(_Content).sources)
    content = file.convert(_Content)
    issues = {name: _issue(issue, file, ("issues", name)) for name, issue in content.issues.items()}
    shared = {} if path == SHARED else _entries(SHARED)
    entries: dict[str, _Entry] = {}
    for other in content.includes:
        entries |= _entries((path.parent / other).resolve())
    conditions = {"conditions": (MINORITY_DAMAGED, *content.conditions)} if content.conditions else {}
    for name, table in content.guarantees.items():
        keys = ("guarantees", name)
        stated = file.convert_part(table, _StatedOfReleases, keys)
        below = entries.get(name) or shared.get(name) or _Entry({}, (), {})
        entry = below._replace(fields={**below.fields, **conditions, **_fields(stated, issues, file, keys)})
        if stated.earlier:
            earlier = _fields(stated.earlier, issues, file, (*keys, "earlier"))
            entry = entry._replace(before=stated.earlier.before, earlier=earlier)
        entries[name] = entry
    return entries


def _issue(table: object, file: TomlFile, keys: Keys) -> KnownIssue:
    issue = file.convert_part(table, KnownIssue, keys)
    if issue.needs == Effects():
        raise file.error([*keys, "needs"], "names no effect of a fault", _HINT)
    return issue


def _fields(stated: _Stated, issues: Mapping[str, KnownIssue], file: TomlFile, keys: Keys) -> _Fields:
    """Return the fields that are stated, as `Guarantee` takes them."""
    unknown = next((name for name in stated.issues if name not in issues), None)
    if unknown is not None:
        raise file.error([*keys, "issues"], f"no issue {unknown!r}", f"the issues are: {', '.join(issues) or 'none'}")
    fields = {key: getattr(stated, key) for key in _Stated.__struct_fields__ if getattr(stated, key)}
    return {**fields, "issues": tuple(issues[name] for name in stated.issues)} if stated.issues else fields
