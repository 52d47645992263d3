"""What leaves add to the page of a run: sections of their own, and tables in sections of the core.

They stand in the tables REPORT_SECTIONS of leaves. An addition that cannot be loaded becomes a section that says so.
"""

import functools
from collections.abc import Callable
from typing import Final

import msgspec
from markupsafe import Markup

from fencepost.harness.base import offers
from fencepost.harness.report.facts.case import ReportCase
from fencepost.harness.report.tables.table import Table

#: Where tables can stand: at the end of the section on faults, and in that on leaders behind the episodes of superseded
#: leaders, or behind the claims that outlived their epoch.
FAULTS: Final = "faults"
EPISODES: Final = "episodes"
CLAIMS: Final = "claims"


class AddedSection(msgspec.Struct, frozen=True, kw_only=True):
    """A section after the one named `after`; `make` gives None where there is nothing to say."""

    heading: str
    after: str
    make: Callable[[ReportCase], Markup | None]


class AddedTables(msgspec.Struct, frozen=True, kw_only=True):
    """Tables that stand at `within`."""

    within: str
    make: Callable[[ReportCase], list[Table]]


def additions() -> dict[str, AddedSection | AddedTables]:
    """Load what leaves add, by name and in the order of their tables."""
    return {offer.name: _loaded(offer) for offer in offers.declared("report_sections")}


def tables_within(place: str, case: ReportCase) -> list[Table]:
    """Make the tables that leaves add at this place."""
    added = (one for one in additions().values() if isinstance(one, AddedTables))
    return [table for one in added if one.within == place for table in one.make(case)]


def _loaded(offer: offers.Offer) -> AddedSection | AddedTables:
    try:
        loaded: AddedSection | AddedTables = offer.load()
    except Exception as error:
        return AddedSection(heading=offer.name, after=FAULTS, make=functools.partial(_fail, error))
    return loaded


def _fail(error: Exception, _: ReportCase) -> Markup | None:
    raise error
