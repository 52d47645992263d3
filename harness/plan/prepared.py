"""The one document that the child which holds a cluster is started with: a plan that was read and checked before.

The outer process writes it into the run's folder, and the child takes it from there. Systems, workloads and faults are
named in it and looked up on the other side; everything else is data.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from fencepost.harness.faults.kind import FaultSpec
from fencepost.harness.faults.schedule import Entry, NemesisRequest, parse_choice
from fencepost.harness.plan.checked_plan import CheckedPlan, placement_of, resolve_plan
from fencepost.harness.plan.plan import Plan
from fencepost.harness.plugins import registry
from fencepost.harness.results.run_folder import write_whole
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.provider import Links

#: The file's name in a run's folder until the child has taken it.
PREPARED: Final = "prepared.json"


class _Given(msgspec.Struct, frozen=True, kw_only=True):
    """One fault of the plan's own schedule (`harness.faults.schedule.Entry`), its spec as text."""

    spec: str
    inject_ns: int
    duration_ns: int
    draw_seed: int
    worker: int
    number: int
    gap_ns: int

    @classmethod
    def of(cls, entry: Entry) -> "_Given":
        return cls(
            spec=entry.spec.text,
            inject_ns=entry.inject_ns,
            duration_ns=entry.duration_ns,
            draw_seed=entry.draw_seed,
            worker=entry.worker,
            number=entry.number,
            gap_ns=entry.gap_ns,
        )

    def entry(self, spec: FaultSpec) -> Entry:
        return Entry(
            spec=spec,
            inject_ns=self.inject_ns,
            duration_ns=self.duration_ns,
            draw_seed=self.draw_seed,
            worker=self.worker,
            number=self.number,
            gap_ns=self.gap_ns,
        )


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    plan: Plan
    #: What `auto` came to on this machine.
    links: Links
    artifacts: Artifacts
    #: What faults start nodes as, by the version that the plan names.
    others: dict[str, Artifacts]
    #: The choices of each nemesis worker, as the forecast has them: inside the lab's namespaces the machine cannot be
    #: asked any more what it can do.
    workers: tuple[tuple[tuple[str, ...], ...], ...]
    given: tuple[_Given, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A plan that is placed on this machine, with the binaries or images of its nodes.

    `checked.request` has the faults of the forecast.
    """

    checked: CheckedPlan
    artifacts: Artifacts
    others: Mapping[str, Artifacts]

    def write(self, folder: Path) -> None:
        """Put the document into the run's folder; raises OSError."""
        checked = self.checked
        document = _Document(
            plan=checked.plan,
            links=checked.placement.links,
            artifacts=self.artifacts,
            others=dict(self.others),
            workers=tuple(
                tuple(tuple(spec.text for spec in choice) for choice in worker) for worker in checked.request.workers
            ),
            given=None if checked.given is None else tuple(map(_Given.of, checked.given)),
        )
        write_whole(folder / PREPARED, msgspec.json.encode(document).decode())

    @classmethod
    def take(cls, folder: Path) -> "Prepared":
        """Read the document and remove it."""
        path = folder / PREPARED
        document = msgspec.json.decode(path.read_bytes(), type=_Document)
        path.unlink()
        resolved = resolve_plan(document.plan)
        placement = replace(placement_of(resolved), links=document.links)
        faults = registry.faults()
        workers = tuple(
            tuple(parse_choice(list(texts), faults, placement) for texts in worker) for worker in document.workers
        )
        given: tuple[Entry, ...] | None = None
        if document.given is not None:
            specs = [parse_choice([one.spec], faults, placement)[0] for one in document.given]
            given = tuple(one.entry(spec) for one, spec in zip(document.given, specs, strict=True))
        checked = CheckedPlan(
            plan=document.plan,
            system=resolved.system,
            workload=resolved.workload,
            members=resolved.members,
            options=resolved.options,
            system_options=resolved.system_options,
            provider=registry.runtime(document.plan.runtime),
            placement=placement,
            request=NemesisRequest(workers=workers),
            given=given,
        )
        return cls(checked=checked, artifacts=document.artifacts, others=document.others)
