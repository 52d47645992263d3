"""What a night needs before its clock starts: binaries, images and start-up archives, made once for all runs."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from fencepost.campaigns.night.cells import NightCell
from fencepost.harness.base.errors import FencepostError, MachineError
from fencepost.harness.plan.checked_plan import CheckedPlan
from fencepost.harness.run.execute import made_ready


class PreparedBuilds(msgspec.Struct, frozen=True, kw_only=True):
    """By cell: the build that its servers would be, or why this machine cannot run it."""

    builds: dict[str, str]
    refusals: dict[str, str]


def prepare(
    cells: tuple[NightCell, ...], plans: Mapping[str, CheckedPlan], say: Callable[[str], None], stop: Callable[[], bool]
) -> PreparedBuilds:
    """Make ready what the cells run; a cell that this machine cannot run is refused, the others go on.

    Raises UsageError for what a person must mend, such as a version that there is not; it names the cell.
    """
    builds: dict[str, str] = {}
    refusals: dict[str, str] = {}
    for cell in cells:
        if stop():
            break
        try:
            ready = made_ready(plans[cell.id], say)
        except MachineError as error:
            refusals[cell.id] = f"{error.message} ({error.hint})" if error.hint else error.message
        except FencepostError as error:
            error.message = f"the cell {cell.name}: {error.message}"
            raise
        else:
            builds[cell.id] = build_of(msgspec.to_builtins(ready.artifacts))
    return PreparedBuilds(builds=builds, refusals=refusals)


def refuse_if_none_is_left(cells: tuple[NightCell, ...], prepared: PreparedBuilds) -> None:
    """Raise MachineError when this machine can run no cell but canaries: such a night would test nothing."""
    tested = [cell for cell in cells if not cell.canary]
    if tested and all(cell.id in prepared.refusals for cell in tested):
        raise MachineError(
            "this machine can run no cell, so nothing would be tested:\n  " + "\n  ".join(in_words(tested, prepared)),
            hint="name other releases or faults; `fencepost doctor` says what this machine can do",
        )


def in_words(cells: Sequence[NightCell], prepared: PreparedBuilds) -> list[str]:
    """The cells that this machine cannot run, by the reason, each said once."""
    names: dict[str, list[str]] = {}
    for cell in cells:
        if cell.id in prepared.refusals:
            names.setdefault(prepared.refusals[cell.id], []).append(cell.name)
    return [f"{', '.join(own)}: {reason}" for reason, own in names.items()]


def build_of(artifacts: Mapping[str, Any]) -> str:
    """A version and the digest of its files, as a run's `run.json` and a preparation have them: "3.5.1 9f2c41d0"."""
    sums = json.dumps(artifacts.get("sha256") or {}, sort_keys=True)
    return f"{artifacts.get('version', '')} {hashlib.sha256(sums.encode()).hexdigest()[:8]}".strip()
