"""What a campaign draws for each of its runs: numbers of nodes, rates, settings of the servers, lengths.

With fixed values a cell tests the same corner every night. With draws it keeps its name and its id, and each of its
runs has values drawn from the run's own seed; the run's plan holds them, so that it can be repeated.
"""

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from fencepost.harness.base.toml_file import TomlFile, flat, merged, nested
from fencepost.harness.plan import Plan

#: What makes another cell is an axis; the rest is no matter of chance.
_NOT_DRAWN: Final = ("system", "version", "image", "workload", "runtime", "schedule", "seed", "format", "require")
_PLAN_KEYS: Final = frozenset(Plan.__struct_encode_fields__) - {*_NOT_DRAWN}


class DrawnKey(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"least": "from", "most": "to"}
):
    """One key of a plan (dotted) and what it is drawn from: `values`, or the numbers `from` ... `to`.

    Of numbers each order of magnitude is as likely as any other; they are whole where both ends are. `where` names plan
    keys and values of the cells that it is about, all of them unless given. A cell that sets the key itself keeps it.
    """

    key: str
    values: tuple[Any, ...] = ()
    least: int | float | None = None
    most: int | float | None = None
    where: dict[str, Any] = {}

    def drawn(self, rng: random.Random) -> Any:
        """Draw a value."""
        if self.values:
            return rng.choice(self.values)
        assert self.least is not None and self.most is not None, "checked when the file was read"
        value = math.exp(rng.uniform(math.log(self.least), math.log(self.most)))
        whole = isinstance(self.least, int) and isinstance(self.most, int)
        return min(max(round(value) if whole else value, self.least), self.most)

    @property
    def ends(self) -> tuple[Any, ...]:
        """The values with which a plan must make sense: all, or the least and the most."""
        return self.values or (self.least, self.most)


def check_draws(draws: Sequence[DrawnKey], source: TomlFile) -> None:
    """Raise UsageError with file and line for a draw that makes no sense whatever the cell."""
    for number, draw in enumerate(draws):
        where: list[str | int] = ["draw", number]
        if draw.key.partition(".")[0] not in _PLAN_KEYS:
            known = draw.key in _NOT_DRAWN
            raise source.error(
                [*where, "key"],
                f"{draw.key!r} is not drawn" if known else f"{draw.key!r} is no key of a plan",
                "make it an axis" if known else f"the keys are: {', '.join(sorted(_PLAN_KEYS))}",
            )
        if any(other.key == draw.key and other.where == draw.where for other in draws[:number]):
            raise source.error([*where, "key"], f"{draw.key!r} is drawn twice", "give each draw other cells by where")
        ranged = (draw.least is not None) + (draw.most is not None)
        if bool(draw.values) == bool(ranged) or ranged == 1:
            raise source.error(where, "expected either values, or from and to", "such as values = [3, 5]")
        if draw.least is not None and draw.most is not None and not 0 < draw.least < draw.most:
            raise source.error([*where, "from"], f"expected 0 < from < to, got {draw.least} and {draw.most}")


def values_of(draws: Sequence[DrawnKey], seed: int) -> dict[str, Any]:
    """Return what a run with this seed draws, by dotted key; a draw depends on no other."""
    return {draw.key: draw.drawn(random.Random(f"{seed}/draw/{draw.key}")) for draw in draws}


def in_words(draws: Sequence[DrawnKey], seed: int) -> str:
    """What a run with this seed draws: "nodes=5, rate=312"."""
    shown = {key.rpartition(".")[2]: value for key, value in values_of(draws, seed).items()}
    return ", ".join(f"{name}={f'{value:.3g}' if isinstance(value, float) else value}" for name, value in shown.items())


def heaviest(draws: Sequence[DrawnKey]) -> dict[str, Any]:
    """Return the values that cost a run most, as far as numbers tell: for estimates of time and memory."""
    return {
        draw.key: max(draw.ends) if all(isinstance(end, int | float) for end in draw.ends) else draw.ends[0]
        for draw in draws
    }


def with_values(plan: Plan, values: Mapping[str, Any]) -> Plan:
    """Return a plan with these values in place of its own, by dotted key; raises msgspec.ValidationError."""
    own: dict[str, Any] = msgspec.to_builtins(plan)
    return msgspec.convert(merged(own, nested(values)), Plan)


def sets(plan: Mapping[str, Any], key: str) -> bool:
    """Whether the tables of a plan set a dotted key, or something within it."""
    return any(name == key or name.startswith(f"{key}.") for name in flat(plan))
