"""How to see it again: the commands, and what each of them can promise."""

import os

import msgspec

from fencepost.harness.base.errors import command_line
from fencepost.harness.report.facts.case import ReportCase
from fencepost.harness.verdict.fingerprint import Anomaly, anomalies


class Reproduce(msgspec.Struct, frozen=True, kw_only=True):
    """`shrink` is None for a run without a violation: there is nothing to keep while things are left out."""

    deciding: tuple[Anomaly, ...]
    check: str
    replay: str
    shrink: str | None


def reproduce(case: ReportCase) -> Reproduce | None:
    """None for a run that is kept nowhere."""
    if case.folder is None:
        return None
    folder = typed_path(case.folder)
    every = anomalies(case.history, case.facts, case.verdicts, case.effect_free)
    deciding = tuple(anomaly for anomaly in every if anomaly.decides)
    return Reproduce(
        deciding=deciding,
        check=command_line("check", folder),
        replay=command_line("replay", folder, "--times", "10"),
        shrink=command_line("shrink", folder, "--budget", "30m") if deciding else None,
    )


def typed_path(folder: str) -> str:
    """Make a path relative where it lies below the current folder, as a person would type it."""
    below = os.path.relpath(folder)
    return folder if below.startswith("..") else below
