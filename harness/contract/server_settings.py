"""Settings of the servers themselves (`--set SYSTEM.KEY=VALUE`), by the server's own name for each.

A system declares what stands before the dot and how its servers get the setting. Settings that the harness makes itself
are refused, with the option to use instead where there is one: otherwise a setting could change the bound of a
guarantee without the harness knowing. A name that a server does not know is found before the start where the server's
program can be asked, otherwise at the start, from what the servers report. `run.json` records how each setting is known
to apply.
"""

import difflib
import re
import subprocess
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic

from fencepost.harness.base.errors import MachineError, Refusal, UsageError
from fencepost.harness.base.options import keys_set_by
from fencepost.harness.contract.profile import S, SystemOptions

if TYPE_CHECKING:
    from fencepost.harness.contract.system import System
    from fencepost.harness.runtime.artifacts import Artifacts
    from fencepost.harness.runtime.node import Node

#: By the part before the dot, then by the server's own name (`snapshot-count`); values are text.
Settings = Mapping[str, Mapping[str, str]]
NO_SETTINGS: Final[Settings] = {}

_KEY: Final = re.compile(r"[A-Za-z0-9][\w.-]*")
_LINE_BREAK: Final = re.compile(r"[\r\n\0]")
#: How long a server's program may take to check settings.
_CHECK_S: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedSetting:
    """How one setting on one node is known to apply.

    `says` is the value that the node reports, and `by` where it reports it. `says` is None where the server does not
    report the setting; `by` is then the way in which the server got it.
    """

    node: str
    setting: str
    value: str
    says: str | None
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """Settings that the harness makes itself: `options` by key, and `reasons` by a pattern of keys."""

    options: Mapping[str, str]
    reasons: Mapping[str, str]

    @classmethod
    def beside(cls, options: type[SystemOptions], reasons: Mapping[str, str]) -> "Reserved":
        """The settings that these options set, and those that have other reasons."""
        return cls(options=keys_set_by(options), reasons=reasons)

    def refuse(self, key: str) -> Refusal | None:
        """Why `key` may not be set; None when it may."""
        if key in self.options:
            option = self.options[key]
            return Refusal("bounds are computed from it, so it has an option of its own", f"use -O {option}=...")
        for pattern, reason in self.reasons.items():
            if re.fullmatch(pattern, key):
                return Refusal(f"the harness sets it, and {reason}", "leave it out")
        return None


@dataclass(frozen=True, kw_only=True)
class ServerSettings(Generic[S]):
    """How one system's servers get settings by their own names, and how each is known to apply."""

    #: What may stand before the dot, and what it sets ("a flag of the command line").
    settable: Mapping[str, str]
    #: One or two harmless settings, with values that differ from the defaults: a conformance test reads them back.
    samples: Settings
    #: Why the key of this owner may not be set; None when it may. Fetches and starts nothing.
    refuse: Callable[[str, str, S], Refusal | None]
    #: Why servers of these artifacts do not know or accept a setting; None when nothing speaks against them.
    refuse_unknown: "Callable[[Artifacts, Settings], Refusal | None]"
    #: How this node's settings are known to apply. Asks this node alone; raises anything without an answer.
    applied: "Callable[[Node, Settings], Coroutine[Any, Any, list[AppliedSetting]]]"


def parse(texts: Iterable[str]) -> dict[str, dict[str, str]]:
    """Parse arguments of `--set` such as `etcd.snapshot-count=100`; raises UsageError."""
    settings_by_owner: dict[str, dict[str, str]] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        of, dot, key = name.partition(".")
        if not equals or not dot or not of or not key:
            raise UsageError(f"--set {text!r}: expected SYSTEM.KEY=VALUE", hint="such as --set etcd.snapshot-count=100")
        if key in settings_by_owner.get(of, {}):
            raise UsageError(f"--set {of}.{key} is given twice", hint="give it once")
        settings_by_owner.setdefault(of, {})[key] = value
    return settings_by_owner


def merged(below: Mapping[str, Mapping[str, Any]], above: Settings) -> dict[str, dict[str, Any]]:
    """The settings of `below`, replaced by those of `above` where both set one."""
    return {of: {**below.get(of, {}), **above.get(of, {})} for of in dict.fromkeys((*below, *above))}


def checked(
    given: Mapping[str, Mapping[str, str | int | float | bool]], system: "System", options: SystemOptions
) -> dict[str, dict[str, str]]:
    """Check each setting as far as its name allows, and give its value as text; raises UsageError."""
    for of, settings in given.items():
        own = system.settings
        if own is None or of not in own.settable:
            raise UsageError(
                f"--set {of}.{next(iter(settings), 'KEY')}: {of!r} is not in this plan, whose system is "
                f"{system.profile.name}",
                hint=f"choose from: {', '.join(f'{name}.KEY' for name in own.settable) if own else 'none'}",
            )
        for key, value in settings.items():
            if not _KEY.fullmatch(key):
                raise UsageError(f"--set {of}.{key}: {key!r} is not a name", hint=f"it is {own.settable[of]}")
            if _LINE_BREAK.search(as_text(value)):
                raise UsageError(f"--set {of}.{key}: its value has several lines", hint="give a value of one line")
            refusal = own.refuse(of, key, options)
            if refusal is not None:
                raise refusal.error(f"--set {of}.{key}")
    return {of: {key: as_text(value) for key, value in settings.items()} for of, settings in given.items() if settings}


def as_text(value: str | int | float | bool) -> str:
    """The value as a server's flag or file writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def as_arguments(settings: Settings) -> list[str]:
    """The settings as arguments of `--set`, such as `etcd.snapshot-count=100`, in the order of the plan."""
    return [f"{of}.{key}={value}" for of, keys in settings.items() for key, value in keys.items()]


def unknown(of: str, key: str, known: Iterable[str], *, what: str) -> Refusal:
    """Refuse a name that does not exist, and suggest the names closest to it."""
    near = difflib.get_close_matches(key, list(known), 3, 0.75)
    remedy = f"did you mean {', '.join(near)}?" if near else "look for its name in the documentation of this release"
    return Refusal(f"{of}.{key} is not {what}", remedy)


def rejection(command: Sequence[str]) -> str | None:
    """What a server's program prints when it does not accept the settings that this command gives; None if it does.

    Raises MachineError when it does not say.
    """
    try:
        done = subprocess.run(list(command), capture_output=True, text=True, timeout=_CHECK_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"{command[0]} does not check its settings: {error}") from None
    return None if done.returncode == 0 else done.stderr.strip() or done.stdout.strip() or "nothing"


def applied(of: str, node: "Node", key: str, value: str, *, by: str, says: str | None = None) -> AppliedSetting:
    """How the setting of this owner is known to apply on this node."""
    return AppliedSetting(node=node.name, setting=f"{of}.{key}", value=value, says=says, by=by)


def same_value(reported: str, value: str) -> bool:
    """Whether the value that a server reports means the same as the one that was set."""
    if reported.strip().lower() == value.strip().lower():
        return True
    try:
        return float(reported) == float(value)
    except ValueError:
        return False


def value_of(settings: Settings, *keys: str) -> str:
    """The value of the first of these keys that is set for any server, in lower case; "" where none is set."""
    values = (str(own[key]).lower() for own in settings.values() for key in keys if key in own)
    return next(values, "")
