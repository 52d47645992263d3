"""Typed options of workloads, systems and faults: one frozen struct each, parsed once from a plan or the command line.

    class RegisterOptions(Options, frozen=True, kw_only=True):
        keys: Annotated[int, about("how many keys are used", least=1)] = 5
        values: Annotated[Literal["unique", "small"], about("what writes write")] = "unique"
        seldom_every: Annotated[Duration, about("pause between two reads of a seldom reader")] = seconds(2.5)

A field's type is the option's type, its default the option's default, `about` its line in `list`, `--help` and the
reference (`describe`). A field whose name is a Python keyword ends in an underscore (`for_`). An option without a
default is `UNSET`, which nobody can type. A plan keeps options as plain values (`plain`); only `parse` makes a struct
of them.
"""

import enum
import functools
import keyword
import math
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import msgspec

from fencepost.harness.base.errors import UsageError, choices_hint, unknown_choice
from fencepost.harness.base.quantities import Duration as Duration
from fencepost.harness.base.quantities import Quantity

#: Booleans where every value is text (`FAULT:key=value`).
YES_NO: Final = {"yes": True, "no": False}
#: Booleans in the TOML of a plan; the command line takes them too.
_TRUE_FALSE: Final = {"true": True, "false": False}
#: Of what an annotation carries beside the description.
_SETS: Final = "sets"
#: The text for None where a duration may be left out (`Duration | None`).
NEVER: Final = "never"


def seconds(number: float) -> Duration:
    """Make a duration from seconds."""
    return Duration(round(number * 1e9))


def about(
    text: str,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    sets: tuple[str, ...] = (),
) -> msgspec.Meta:
    """Describe an option for `list`, `--help` and the reference, and bound its value.

    The bounds of a duration are in nanoseconds. `least` allows the bound itself, `above` does not; give one of them.
    `sets` are the settings of a server that are made from the option, by the server's own names.
    """
    extra = {_SETS: sets} if sets else None
    if above is not None:
        return msgspec.Meta(description=text, gt=_number(above), le=_number(most), extra=extra)
    return msgspec.Meta(description=text, ge=_number(least), le=_number(most), extra=extra)


def _number(bound: float | None) -> float | None:
    """Convert to int or float, the only types that msgspec takes."""
    return int(bound) if isinstance(bound, int) else None if bound is None else float(bound)


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of every options struct; each field has a default and an `about`."""


O = TypeVar("O", bound=Options)  # noqa: E741


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionRow:
    """One option as `list`, `--help` and the reference show it; `choices` is empty where any value will do.

    `limits` are the bounds of its value with their units ("at least 1, at most 1000"), empty where there are none.
    """

    name: str
    kind: str
    default: str
    choices: tuple[str, ...]
    about: str
    limits: str = ""


def parse(what: str, given: Mapping[str, object], defaults: O) -> O:
    """Overlay `defaults` with `given` and check every value.

    Args:
        what: whose options these are (a workload's name, a system's, a fault's spec), for messages.
        given: plain values as a plan has them, or texts as `-o key=value` and `FAULT:key=value` have them.

    Raises:
        UsageError: an unknown name, or a value of the wrong type or none of the choices; the hint lists what there is.
    """
    annotations = _annotations(type(defaults))
    parsed = {}
    for name, value in given.items():
        if name not in annotations:
            raise unknown_choice(f"{what} option", name, list(annotations))
        kind, meta = annotations[name]
        parsed[_field(name)] = _value(f"{what} option {name}", value, kind)
        _refuse_out_of_bounds(f"{what} option {name}", value, parsed[_field(name)], meta)
    return msgspec.structs.replace(defaults, **parsed)


def plain(options: Options) -> dict[str, Any]:
    """Write every option as a plan keeps it: numbers, booleans and texts, durations with their unit."""
    values = {name: (getattr(options, _field(name)), kind) for name, kind in _types_of(type(options)).items()}
    return {name: _plain(value, kind) for name, (value, kind) in values.items() if value is not msgspec.UNSET}


def describe(defaults: Options) -> tuple[OptionRow, ...]:
    """List every option with its choices and limits, in the order of the fields."""
    rows = []
    for name, (kind, meta) in _annotations(type(defaults)).items():
        default = _plain(getattr(defaults, _field(name)), kind)
        rows.append(
            OptionRow(
                name=name,
                kind=_kind(kind),
                default=in_words(default),
                choices=choices_of(kind),
                about=meta.description or "",
                limits=_bounds(_without_none(kind)[0], meta),
            )
        )
    return tuple(rows)


def keys_set_by(struct: type[Options]) -> dict[str, str]:
    """The settings of a server that options set, each with the name of its option."""
    return {key: name for name, (_, meta) in _annotations(struct).items() for key in (meta.extra or {}).get(_SETS, ())}


def out_of_bounds(options: Options) -> tuple[str, str] | None:
    """The first option whose value is not within its bounds, and these in words; None when all are."""
    for name, (_, meta) in _annotations(type(options)).items():
        value = getattr(options, _field(name))
        if isinstance(value, int | float) and _is_outside(value, meta):
            return name, _bounds(type(value), meta)
    return None


def choices_of(kind: Any) -> tuple[str, ...]:
    """List the values of a closed set (a StrEnum or a Literal); empty for every other type."""
    kind, _ = _without_none(kind)
    if isinstance(kind, type) and issubclass(kind, enum.StrEnum):
        return tuple(member.value for member in kind)
    if typing.get_origin(kind) is Literal:
        return tuple(str(value) for value in typing.get_args(kind))
    return ()


def one_of(what: str, value: str, choices: Iterable[str]) -> None:
    """Raise UsageError when `value` is none of `choices`: for a choice that depends on the system."""
    known = list(choices)
    if value not in known:
        raise UsageError(f"{what}={value!r} is not a choice", hint=choices_hint(value, known))


def _value(what: str, value: object, kind: Any) -> object:
    bare, optional = _without_none(kind)
    if optional and (value is None or (bare is Duration and value == NEVER)):
        return None
    choices = choices_of(bare)
    if choices:
        if str(value) not in choices:
            raise UsageError(f"{what}: {value!r} is not a choice", hint=choices_hint(str(value), choices))
        return bare(value) if isinstance(bare, type) else str(value)
    if isinstance(bare, type) and issubclass(bare, Quantity):
        return value if isinstance(value, bare) else bare.read(str(value), what=what)
    if bare is bool and isinstance(value, str) and value in (YES_NO | _TRUE_FALSE):
        return (YES_NO | _TRUE_FALSE)[value]
    if bare is float and type(value) is int:
        return float(value)
    if isinstance(value, str) and bare in (int, float) and value.isascii():
        try:
            return bare(value)
        except ValueError:
            raise UsageError(f"{what}: expected {_kind(bare)}, got {value!r}") from None
    if type(value) is not bare:
        raise UsageError(f"{what}: expected {_kind(bare)}, got {value!r}")
    return value


def _refuse_out_of_bounds(what: str, given: object, value: object, meta: msgspec.Meta) -> None:
    """Raise UsageError, with the value as it was given, when it does not lie within the bounds of its option."""
    if not isinstance(value, int | float):
        return
    if not math.isfinite(value):
        raise UsageError(f"{what}: expected a number, got {given}")
    if _is_outside(value, meta):
        size = "large" if meta.le is not None and value > meta.le else "small"
        raise UsageError(f"{what}: {given} is too {size}", hint=f"give {_bounds(type(value), meta)}")


def _is_outside(value: float, meta: msgspec.Meta) -> bool:
    too_small = (meta.ge is not None and value < meta.ge) or (meta.gt is not None and value <= meta.gt)
    return too_small or (meta.le is not None and value > meta.le)


def _bounds(kind: Any, meta: msgspec.Meta) -> str:
    """ "at least 1, at most 1000"."""

    has_unit = isinstance(kind, type) and issubclass(kind, Quantity)

    def write(bound: float) -> str:
        return str(kind(bound)) if has_unit else f"{bound:.15g}"

    bounds = {"at least": meta.ge, "more than": meta.gt, "at most": meta.le}
    return ", ".join(f"{word} {write(bound)}" for word, bound in bounds.items() if bound is not None)


def _plain(value: object, kind: Any) -> object:
    if value is None and _without_none(kind)[0] is Duration:
        return NEVER
    if isinstance(value, Quantity):
        return str(value)
    return value.value if isinstance(value, enum.Enum) else value


def in_words(value: object) -> str:
    """A plain value as a person types it; an option that has none is empty."""
    if isinstance(value, bool):
        return next(word for word, meant in YES_NO.items() if meant is value)
    if isinstance(value, float):
        return f"{value:.15g}"
    return "" if value is None or value is msgspec.UNSET else str(value)


def _kind(kind: Any) -> str:
    kind, _ = _without_none(kind)
    if isinstance(kind, type) and issubclass(kind, Quantity):
        return kind.kind
    names = {int: "a whole number", float: "a number", bool: "yes or no", str: "a text"}
    return names.get(kind, "a choice")


def _without_none(kind: Any) -> tuple[Any, bool]:
    """The type of a value that is given, and whether None can be given as well."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        every = typing.get_args(kind)
        rest = [one for one in every if one not in (type(None), msgspec.UnsetType)]
        return (rest[0], type(None) in every) if len(rest) == 1 else (kind, False)
    return kind, False


def _field(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name


def _types_of(struct: type[Options]) -> dict[str, Any]:
    return {name: kind for name, (kind, _) in _annotations(struct).items()}


@functools.cache
def _annotations(struct: type[Options]) -> dict[str, tuple[Any, msgspec.Meta]]:
    """Each field's type without its annotation, and what `about` says of it."""
    rows_by_name = {}
    for name, hint in typing.get_type_hints(struct, include_extras=True).items():
        meta = msgspec.Meta()
        if typing.get_origin(hint) is typing.Annotated:
            hint, *rest = typing.get_args(hint)
            meta = next((one for one in rest if isinstance(one, msgspec.Meta)), meta)
        rows_by_name[name.removesuffix("_")] = (hint, meta)
    return rows_by_name
