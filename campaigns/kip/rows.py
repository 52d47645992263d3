"""The 40 rows and the runs that measure them, read from `rows.toml`.

A row says what a method of the interface must guarantee, how a breach is called, and what measures it. A run is a
workload with faults and options, the same on every system that offers it.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.harness.base.toml_file import read_toml


class Proposal(StrEnum):
    """Whose interface a row is about."""

    KIP_30 = "kip-30"
    KIP_273 = "kip-273"


class KipPart(StrEnum):
    """The part of an interface that a recipe offers, in the proposals' words."""

    MEMBERSHIP = "group membership"
    ELECTION = "leader election"
    STORAGE = "storage"
    LISTENERS = "listeners"
    METASTORE = "metastore"


class Experiment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of run; `about` says in words what happens in it. `reads` is the option that gets the current read."""

    id: str
    workload: str
    nemesis: str
    about: str
    workload_options: Mapping[str, Any] = {}
    reads: str = ""

    def nemesis_where(self, *, somebody_leads: bool) -> str:
        """The faults, of any node where no node leads."""
        return self.nemesis if somebody_leads else self.nemesis.replace(":leader", ":one")


class RowMeasure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A guarantee that an experiment judges; with `rules`, those of its rules alone."""

    experiment: str
    guarantee: str
    rules: tuple[str, ...] = ()


class KipRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row. `lacks` says why the interface itself cannot be safe here.

    `construction` says what follows from how the interface is built, where no run is needed to see it; `unmeasured` why
    nothing measures the row.
    """

    id: str
    part: KipPart
    text: str
    anomaly: str
    measures: tuple[RowMeasure, ...] = ()
    lacks: str = ""
    construction: str = ""
    unmeasured: str = ""

    @property
    def proposal(self) -> Proposal:
        return Proposal.KIP_273 if self.part is KipPart.METASTORE else Proposal.KIP_30


class _Content(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    experiments: tuple[Experiment, ...]
    rows: tuple[KipRow, ...]


_CONTENT: Final = read_toml(Path(__file__).with_name("rows.toml"), hint="it is a file of fencepost").convert(_Content)
#: In the order in which they are run: what shows most comes first.
EXPERIMENTS: Final = _CONTENT.experiments
ROWS: Final = _CONTENT.rows


def rows_of(proposal: Proposal) -> tuple[KipRow, ...]:
    return tuple(row for row in ROWS if row.proposal is proposal)


def parts_of(proposal: Proposal) -> frozenset[KipPart]:
    return frozenset(row.part for row in rows_of(proposal))


def experiments_of(rows: Iterable[KipRow]) -> frozenset[str]:
    """The experiments that these rows are measured by."""
    return frozenset(measure.experiment for row in rows for measure in row.measures)
