"""What a row of the table is, and what measures it."""

import msgspec

from fencepost.campaigns.kip.columns import KipPart, Proposal, RowId
from fencepost.campaigns.kip.experiments import ExperimentId


class RowMeasure(msgspec.Struct, frozen=True):
    """A guarantee that an experiment judges; with `rules`, those of its rules alone."""

    experiment: ExperimentId
    guarantee: str
    rules: tuple[str, ...] = ()


class KipRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row. `lacks` says why the interface itself cannot be safe here.

    `construction` says what follows from how the interface is built, where no run is needed to see it; `unmeasured` why
    nothing measures the row.
    """

    id: RowId
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
