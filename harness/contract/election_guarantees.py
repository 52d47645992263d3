"""The guarantees about elections that no system states: they are measured, with one text for all systems."""

from typing import Final

from fencepost.harness.verdict import Guarantee, Standing

MEASURED_ELECTIONS: Final = (
    Guarantee(
        name="unknown-campaign-is-settled",
        standing=Standing.MEASURED,
        text="A campaign that was given up does not win after a current read has shown another leader.",
        source="nobody promises it: a request without an answer may take effect at any later time",
    ),
    Guarantee(
        name="somebody-leads-again",
        standing=Standing.MEASURED,
        text="After a fault somebody leads again within the bound of the workload's option leads_within.",
        source="nobody promises a time; the bound is the workload's own",
    ),
)
