"""What a system declares about each row of KIP-30 and KIP-273: promised, by a recipe, or impossible.

A system that fills a column has a `kip.toml` beside its `guarantees.toml`. It says for every row of a proposal what the
system's documentation promises, or what the recipe on it relies on, or why there is none:

    [sources]
    docs = "etcd.io/docs/v3.5"

    [[recipes]]
    part = "storage"
    name = "key"
    version = 1
    about = "a key; put and update compare its create revision"

    [claims]
    S1.promised = "{docs}, Strict serializability"
    S5.cannot = "the interface has no version to compare"
    S6.recipe = "a fetch after a put of unknown outcome"

What was measured stands beside it in the table.
"""

import functools
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from fencepost.campaigns.kip.rows import ROWS, KipPart
from fencepost.harness.base.errors import choices_hint
from fencepost.harness.base.toml_file import read_toml
from fencepost.harness.contract.system import BaseSystem, System

#: The file of a system that says what it claims.
FILE: Final = "kip.toml"
_HINT: Final = "the docstring of campaigns/kip/columns.py shows such a file"


class Backing(StrEnum):
    """Who stands behind a row on a system."""

    PROMISED = "promised"
    RECIPE = "by recipe"
    CANNOT = "cannot"


class RowClaim(msgspec.Struct, frozen=True, kw_only=True):
    """What a system says about a row; `text` is the source, what the recipe relies on, or why it cannot."""

    backing: Backing
    text: str


class KipRecipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a part of the interface is put on a system. Another way to do it has another name or a higher version.

    `chosen_by` is the system's option (-O) that chooses it, "" for the one of its part that the rows are about.
    """

    part: KipPart
    name: str
    version: int
    about: str
    chosen_by: str = ""

    @property
    def title(self) -> str:
        return f"{self.name}/{self.version}"


class KipColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A system's recipes, and its claims by row; a row without a claim has no recipe there.

    `unmeasured` says why no run of ours measures a claim, where there is more to say than that none does.
    """

    recipes: tuple[KipRecipe, ...]
    claims: Mapping[str, RowClaim]
    unmeasured: Mapping[str, str] = {}

    def recipe(self, part: KipPart) -> KipRecipe | None:
        return next((recipe for recipe in self.recipes if recipe.part is part and not recipe.chosen_by), None)


class _Stated(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A claim as a file states it: one of the three."""

    promised: str = ""
    recipe: str = ""
    cannot: str = ""

    def claims(self) -> list[RowClaim]:
        texts = zip(Backing, (self.promised, self.recipe, self.cannot), strict=True)
        return [RowClaim(backing=backing, text=text) for backing, text in texts if text]


class _Content(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    recipes: tuple[KipRecipe, ...]
    claims: dict[str, _Stated]
    unmeasured: dict[str, str] = {}
    sources: dict[str, str] = {}


def column_of(system: System) -> KipColumn | None:
    """What a system says of the rows; None for one without such a file. Raises UsageError for a malformed one."""
    path = system.guarantees.with_name(FILE) if isinstance(system, BaseSystem) else None
    return read_column(path) if path is not None and path.exists() else None


@functools.cache
def read_column(path: Path) -> KipColumn:
    """Read such a file. Raises UsageError with the line of what is malformed."""
    file = read_toml(path, hint=_HINT)
    content = file.with_sources(file.convert(_Content).sources).convert(_Content)
    claims = {row: stated.claims() for row, stated in content.claims.items()}
    known = [row.id for row in ROWS]
    for table, row in [*(("claims", row) for row in claims), *(("unmeasured", row) for row in content.unmeasured)]:
        if row not in known:
            raise file.error([table, row], "no row has this id", choices_hint(row, known))
    for row, made in claims.items():
        if len(made) != 1:
            raise file.error(["claims", row], "expected one of promised, recipe and cannot", _HINT)
    return KipColumn(
        recipes=content.recipes, claims={row: made[0] for row, made in claims.items()}, unmeasured=content.unmeasured
    )
