"""Every table of facts: the core's, and those that leaves bring."""

from fencepost.harness.plugins import registry
from fencepost.harness.verdict.fact_table import FactTable, by_name
from fencepost.harness.verdict.fact_tables import DERIVED
from fencepost.harness.verdict.run_tables import OF_RUN


def derived_tables() -> tuple[FactTable, ...]:
    """List every table that is derived from a history, in the order of `registry.derive`."""
    return (*DERIVED, *(one.table for one in registry.tables_of_leaves()))


def stored_tables() -> dict[str, FactTable]:
    """Map the names of all tables that are stored beside a history to them."""
    return by_name((*OF_RUN, *derived_tables()))
