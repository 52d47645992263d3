"""Settings of the servers themselves (`--set SYSTEM.KEY=VALUE`), each by the server's own name for it.

A system says what stands before the dot and how it is given to its servers. What the harness sets and relies upon is
refused, with the option to use instead where there is one, so that no bound of a guarantee is changed behind its back.
A name that a server does not know is found before the start where its program can be asked, else at the start, by what
the servers then say of themselves; how each setting is known to have been taken stands in `run.json`.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from fencepost.harness.base.errors import Refusal, UsageError

if TYPE_CHECKING:
    from fencepost.harness.runtime.artifacts import Artifacts
    from fencepost.harness.runtime.node import Node

#: By what stands before the dot, then by the server's own name (`snapshot-count`), as text.
Settings = Mapping[str, Mapping[str, str]]
NO_SETTINGS: Final[Settings] = {}

_KEY: Final = re.compile(r"[A-Za-z0-9][\w.-]*")
_LINE_BREAK: Final = re.compile(r"[\r\n\0]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What is known of one setting on one node: what the node says its value is, by which means.

    `says` is None where a server tells nobody what it has; `by` then says how it was given to it.
    """

    node: str
    setting: str
    value: str
    says: str | None
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """Settings that the harness makes itself: those with an option of their own, and the others with the reason."""

    options: Mapping[str, str]
    reasons: Mapping[str, str]

    def refuse(self, key: str) -> Refusal | None:
        """Why `key` may not be set; None when it may."""
        if key in self.options:
            option = self.options[key]
            return Refusal("bounds are worked out from it, so it has an option of its own", f"give -O {option}=...")
        for pattern, reason in self.reasons.items():
            if re.fullmatch(pattern, key):
                return Refusal(f"the harness sets it, and {reason}", "leave it out")
        return None


@runtime_checkable
class TakesSettings(Protocol):
    """Its servers can be given settings by their own names (`--set`)."""

    @property
    def settable(self) -> Mapping[str, str]:
        """What may stand before the dot, and what is set by it (a flag of the command line, say)."""
        ...

    def refuse_setting(self, of: str, key: str, options: Any) -> Refusal | None:
        """Why this is not to be set; None when it may be. Fetches and starts nothing."""
        ...

    def refuse_settings(self, artifacts: "Artifacts", settings: Settings) -> Refusal | None:
        """What these servers themselves do not know or accept; None where nothing is found."""
        ...

    async def taken(self, node: "Node", artifacts: "Artifacts", settings: Settings) -> list[Taken]:
        """Of the settings that are this node's. Asks this node alone; raises anything when it does not answer."""
        ...


def parse(texts: Iterable[str]) -> dict[str, dict[str, str]]:
    """`etcd.snapshot-count=100`, as typed; raises UsageError."""
    found: dict[str, dict[str, str]] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        of, dot, key = name.partition(".")
        if not equals or not dot or not of or not key:
            raise UsageError(f"--set {text!r}: expected SYSTEM.KEY=VALUE", hint="such as --set etcd.snapshot-count=100")
        if key in found.get(of, {}):
            raise UsageError(f"--set {of}.{key} is given twice", hint="give it once")
        found.setdefault(of, {})[key] = value
    return found


def merged(below: Mapping[str, Mapping[str, Any]], above: Settings) -> dict[str, dict[str, Any]]:
    """`below` overlaid by `above`."""
    return {of: {**below.get(of, {}), **above.get(of, {})} for of in dict.fromkeys((*below, *above))}


def checked(
    given: Mapping[str, Mapping[str, str | int | float | bool]], system: Any, options: Any
) -> dict[str, dict[str, str]]:
    """As text, each looked at as far as that needs nothing but its name; raises UsageError."""
    for of, settings in given.items():
        if not isinstance(system, TakesSettings) or of not in system.settable:
            there = (
                ", ".join(f"{name}.KEY" for name in system.settable) if isinstance(system, TakesSettings) else "none"
            )
            raise UsageError(
                f"--set {of}.{next(iter(settings), 'KEY')}: {of!r} is not in this plan, whose system is "
                f"{system.profile.name}",
                hint=f"choose from: {there}",
            )
        for key, value in settings.items():
            if not _KEY.fullmatch(key):
                raise UsageError(f"--set {of}.{key}: {key!r} is not a name", hint=f"it is {system.settable[of]}")
            if _LINE_BREAK.search(as_text(value)):
                raise UsageError(f"--set {of}.{key}: its value has several lines", hint="give a value of one line")
            refusal = system.refuse_setting(of, key, options)
            if refusal is not None:
                raise refusal.error(f"--set {of}.{key}")
    return {of: {key: as_text(value) for key, value in settings.items()} for of, settings in given.items() if settings}


def as_text(value: str | int | float | bool) -> str:
    """As a server's flag or file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def words(settings: Settings) -> list[str]:
    """`etcd.snapshot-count=100`, ... in the order of the plan."""
    return [f"{of}.{key}={value}" for of, keys in settings.items() for key, value in keys.items()]


def unknown(of: str, key: str, known: Iterable[str], *, what: str) -> Refusal:
    """The refusal of a name that is none, with those that look like it."""
    near = difflib.get_close_matches(key, list(known), 3, 0.75)
    remedy = f"did you mean {', '.join(near)}?" if near else "look for its name in the documentation of this release"
    return Refusal(f"{of}.{key} is not {what}", remedy)


def same(said: str, value: str) -> bool:
    """Whether a server's way of writing a value means the one that it was given."""
    if said.strip().lower() == value.strip().lower():
        return True
    try:
        return float(said) == float(value)
    except ValueError:
        return False
