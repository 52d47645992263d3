"""A plan that can be run: its names are resolved once, and every error that shows before a cluster starts is refused.

`check_plan` makes the only value that later stages take. `resolve_plan` makes the part of it that judging a stored
history needs: that does not depend on today's names of faults or on what this machine can do.

`Prepared` is the one document that the child which holds a cluster is started with: a plan that was read and checked
before. The outer process writes it into the run's folder, and the child takes it from there. Systems, workloads and
faults are named in it and looked up on the other side; everything else is data.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.harness.base import offers
from fencepost.harness.base.errors import Refusal, UsageError, unknown_choice
from fencepost.harness.base.files import write_whole
from fencepost.harness.base.offers import UsedPlugin
from fencepost.harness.base.options import Options, plain
from fencepost.harness.base.quantities import format_duration, parse_duration_ns
from fencepost.harness.contract.guarantees import promises_in_force
from fencepost.harness.contract.profile import SystemOptions
from fencepost.harness.contract.server_settings import checked as checked_settings
from fencepost.harness.contract.system import System, has_part, leadership_of
from fencepost.harness.faults.fault_options import TRIGGERS
from fencepost.harness.faults.kind import NEED_A_CUT, FaultSpec, may_cut_off_leader
from fencepost.harness.faults.schedule import (
    ALL,
    NONE,
    NemesisRequest,
    ScheduledFault,
    given_entries,
    nemesis_of,
    parse_choice,
    parse_nemesis,
)
from fencepost.harness.plan import QUORUMS, TIME_LIMIT, Plan, check_choices
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.workload import Workload, workload_options
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Member
from fencepost.harness.runtime.provider import Placement, Provider
from fencepost.harness.verdict import LeadershipBound, Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPlan:
    """What a plan tests: `options` are the workload's, `system_options` the system's, with every default filled in."""

    plan: Plan
    system: System
    workload: Workload[Any]
    members: tuple[Member, ...]
    options: Options
    system_options: SystemOptions

    def leadership(self, version: str = "") -> LeadershipBound:
        """What a release promises of leaders that were cut off; "" for the promise that holds in every release."""
        return leadership_of(self.system, self.system_options, version)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPlan(ResolvedPlan):
    """A plan that can be run. `request` has its faults; `given` those of its schedule, None where one is drawn.

    `placement` says where its nodes live; `placed` replaces `auto` in it, once the machine is known.
    """

    provider: Provider
    placement: Placement
    request: NemesisRequest
    given: tuple[ScheduledFault, ...] | None

    @property
    def keeps_quorum(self) -> bool:
        return self.plan.quorum == "keep"

    def placed(self, placement: Placement) -> "CheckedPlan":
        """Return this plan with its nodes in `placement`; raises UsageError for faults that make no sense there."""
        given = _given(self.plan, placement) if self.plan.schedule else None
        request = parse_nemesis(self.plan.nemesis, registry.faults(), placement)
        return replace(self, placement=placement, request=request, given=given)

    def with_seed(self, seed: int) -> "CheckedPlan":
        """Return this plan with other random choices."""
        return replace(self, plan=msgspec.structs.replace(self.plan, seed=seed))


def resolve_plan(plan: Plan) -> ResolvedPlan:
    """Resolve the names in a plan, with its plug-ins; raises UsageError for unknown names and options."""
    _use_plugins(plan)
    system, workload = registry.system(plan.system), _workload(plan)
    system_options = system.profile.parse_options(plan.system_options)
    members = system.members(plan.nodes, system_options)
    return ResolvedPlan(
        plan=plan,
        system=system,
        workload=workload,
        members=members,
        options=workload_options(workload, system, plan.workload_options),
        system_options=system_options,
    )


def check_plan(plan: Plan) -> CheckedPlan:
    """Check everything that can be checked before a cluster starts, and fill in the defaults of the plan.

    Raises:
        UsageError: with the remedy.
    """
    _use_plugins(plan)
    check_choices(
        plan,
        choices={
            "system": _with_refused("systems", plan.system, registry.SYSTEMS),
            "workload": _with_refused("workloads", plan.workload, registry.WORKLOADS),
            "runtime": tuple(registry.RUNTIMES),
            "quorum": QUORUMS,
        },
    )
    sizes = registry.system(plan.system).profile.sizes
    if plan.nodes not in sizes:
        raise UsageError(f"nodes: {plan.nodes} is not a choice", hint=f"choose from: {', '.join(map(str, sizes))}")
    resolved = resolve_plan(_with_options(plan))
    plan, system = resolved.plan, resolved.system
    senseless = resolved.workload.refuse(resolved.options, resolved.members)
    if senseless:
        raise senseless.error(plan.workload)
    unfit = resolved.system_options.refuse_for(resolved.workload.protocol)
    if unfit:
        raise unfit.error(plan.workload)
    _refuse_unstated(resolved)
    provider, placement = registry.runtime(plan.runtime), placement_of(resolved)
    refusal = provider.refuse(placement)
    if refusal:
        raise refusal.error(f"--runtime {plan.runtime}")
    if plan.image and plan.version:
        raise UsageError("--image and --version exclude each other", hint="the image decides the version")
    given = _given(plan, placement) if plan.schedule else None
    if given is not None:
        plan = msgspec.structs.replace(plan, nemesis=_nemesis_of(plan, given))
    refuse_unnamed(plan)
    _refuse_broken_faults(plan.nemesis)
    request = parse_nemesis(plan.nemesis, registry.faults(), placement)
    _refuse_vain_waits(request)
    required = _required(resolved, request)
    refuse_changes(resolved, request.specs, plan.version or system.releases.default, {})
    plan = msgspec.structs.replace(
        plan,
        phases=msgspec.structs.replace(
            plan.phases, watch=plan.phases.watch or format_duration(resolved.leadership().watch_ns)
        ),
        version=plan.version if plan.version or plan.image else system.releases.default,
        time_limit=plan.time_limit or usual_time_limit(request),
        require=required,
        plugins=tuple(plugin.path for plugin in plugins_of(resolved, request) if plugin.path),
    )
    return CheckedPlan(
        plan=plan,
        system=system,
        workload=resolved.workload,
        members=resolved.members,
        options=resolved.options,
        system_options=resolved.system_options,
        provider=provider,
        placement=placement,
        request=request,
        given=given,
    )


def _refuse_unstated(resolved: ResolvedPlan) -> None:
    """Raise UsageError for options of a workload that are judged by a guarantee of which the system says nothing."""
    guarantee = resolved.workload.guarantee(resolved.system, resolved.options)
    stated = [one.name for one in resolved.system.promises(resolved.plan.version)]
    if guarantee not in stated:
        plan = resolved.plan
        raise UsageError(
            f"{plan.system} says nothing about '{guarantee}', which {plan.workload} with these options is judged by",
            hint="leave some of its options (-o) out",
        )


def usual_time_limit(request: NemesisRequest) -> str:
    """The length of the main phase unless the plan names one: as long as its faults need."""
    faults = registry.faults()
    needed_ns = [faults[spec.fault].main_phase_ns(spec) for spec in request.specs]
    return format_duration(max([parse_duration_ns(TIME_LIMIT, what="time_limit"), *needed_ns]))


def plugins_of(resolved: ResolvedPlan, request: NemesisRequest) -> list[UsedPlugin]:
    """The plug-ins that offer the plan's system, workload, faults or checkers."""
    names = [("systems", resolved.plan.system), ("workloads", resolved.plan.workload)]
    names += [("faults", spec.fault) for spec in request.specs]
    names += [("checkers", name) for name in resolved.workload.checkers(resolved.system, resolved.options)]
    return offers.used(names)


def _use_plugins(plan: Plan) -> None:
    """Use the plan's paths; one that is gone is missed only where no other plug-in has its names."""
    registry.use_plugins(path for path in plan.plugins if Path(path).exists())
    gone = [path for path in plan.plugins if not Path(path).exists()]
    if gone and (plan.system not in registry.SYSTEMS or plan.workload not in registry.WORKLOADS):
        raise UsageError(f"the plan's plug-in {gone[0]} is not there", hint="name its new place: --plugin PATH")


def _with_refused(kind: str, name: str, names: Mapping[str, str]) -> tuple[str, ...]:
    """The choices; raises UsageError for a name that a plug-in offers and may not, or that has gone with its file."""
    if name not in names:
        registry.refuse_unknown(kind, name)
    return tuple(names)


def _refuse_broken_faults(nemesis: str) -> None:
    known = registry.faults()
    for name in re.findall(r"[a-z][a-z0-9-]*", nemesis):
        if name not in known:
            registry.refuse("faults", name)


def _refuse_vain_waits(request: NemesisRequest) -> None:
    """Raise UsageError for a fault that waits for a phase which no fault of the plan brings about."""
    faults = registry.faults()
    reached = {phase for spec in request.specs for phase in faults[spec.fault].reached(spec)}
    for spec in request.specs:
        for moment in (spec.options.trigger, spec.options.ending):
            if moment is not None and moment.what not in TRIGGERS and moment.what not in reached:
                phases = {phase: name for name, fault in faults.items() for phase in fault.phases}
                if not reached:
                    owner = phases[moment.what]
                    why, hint = f"no fault {owner} is in the plan", f"add one: {owner}+{spec.text}"
                else:
                    why = f"{phases[moment.what]} never reaches {moment.what} in this plan"
                    hint = f"it reaches {', '.join(phase for phase in phases if phase in reached)}; see its options"
                raise Refusal(why, hint).error(spec.text)


def refuse_changes(resolved: ResolvedPlan, specs: Sequence[FaultSpec], start: str, names: Mapping[str, str]) -> None:
    """Raise UsageError for impossible changes of release; `names` maps the plan's names to releases."""
    plan, system, faults = resolved.plan, resolved.system, registry.faults()
    for spec in specs:
        for change in faults[spec.fault].release_changes(spec):
            if system.versions is None:
                silent = Refusal(f"servers of {system.profile.name} do not say which release they are", "leave out to=")
                raise silent.error(spec.text)
            to = names.get(change.to, change.to)
            if to == start:
                raise Refusal(f"the nodes begin as {start}", "leave out to=").error(spec.text)
            # A rolling change may begin at the release where an earlier one of another kind ended.
            for begun in dict.fromkeys((start, *names.values())):
                refusal = system.versions.refuse_change(begun, to, change.back, plan.settings)
                if refusal is not None and begun != to:
                    raise refusal.error(spec.text)


def _workload(plan: Plan) -> Workload[Any]:
    workload: Workload[Any] = registry.workload(plan.workload)
    return workload


def _with_options(plan: Plan) -> Plan:
    """Return the plan with every option filled in."""
    system, workload = registry.system(plan.system), _workload(plan)
    if workload.protocol not in system.profile.interfaces:
        raise UsageError(
            f"{plan.system} does not offer '{workload.protocol}', which {plan.workload} needs",
            hint=f"it offers: {', '.join(sorted(system.profile.interfaces))}",
        )
    lacking = next((need for need in sorted(workload.parts) if not has_part(system, need)), None)
    if lacking is not None:
        raise UsageError(
            f"{plan.system} lacks the part {lacking}, which {plan.workload} needs",
            hint="choose a system that has it (fencepost list abilities)",
        )
    options = workload_options(workload, system, plan.workload_options)
    # A workload may decide how many nodes there are, and with which roles.
    wanted = {**workload.system_options(system), **plan.system_options}
    system_options = system.profile.parse_options(wanted)
    refusal = system_options.refuse()
    if refusal is not None:
        raise refusal.error(f"{plan.system} options")
    return msgspec.structs.replace(
        plan,
        workload_options=plain(options),
        system_options=plain(system_options),
        server_settings=checked_settings(plan.server_settings, system, system_options),
    )


def refuse_unnamed(plan: Plan) -> None:
    """Raise UsageError for a plan that does not say which faults it wants; "none" is what says that it wants none."""
    if not plan.nemesis.strip():
        raise UsageError(
            "the plan names no faults",
            hint=f"give --nemesis, or in a file nemesis =, any of: {', '.join([*registry.faults(), ALL, NONE])}",
        )


def placement_of(resolved: ResolvedPlan) -> Placement:
    """Decide where the nodes live, and which faults the members of their system allow."""
    plan, system = resolved.plan, resolved.system
    # An image decides the release; it is known once the image has been inspected.
    version = "" if plan.image else plan.version or system.releases.default
    return replace(
        plan.placement(resolved.members),
        system=system,
        system_options=resolved.system_options,
        version=version,
        why_not=registry.runtime(plan.runtime).why_not,
    )


def _given(plan: Plan, placement: Placement) -> tuple[ScheduledFault, ...]:
    limit_ns = plan.duration_ns("time_limit")
    return tuple(given_entries(Path(plan.schedule), registry.faults(), placement, time_limit_ns=limit_ns))


def _nemesis_of(plan: Plan, given: Sequence[ScheduledFault]) -> str:
    """Write the faults of the plan's schedule as nemesis text; raises UsageError when the plan names others."""
    if not given:
        raise UsageError(
            f"{plan.schedule} holds no fault that was injected", hint="--nemesis none runs without faults on purpose"
        )
    written = nemesis_of(given)
    if plan.nemesis not in ("", written):
        raise UsageError(
            f"the plan says nemesis {plan.nemesis!r}, and its schedule {plan.schedule} holds {written!r}",
            hint="leave `nemesis` out where a schedule is given",
        )
    return written


def _required(resolved: ResolvedPlan, request: NemesisRequest) -> tuple[str, ...]:
    """List the guarantees that decide the verdict: those of the plan, and those that the workload requires.

    A workload's requirement counts only if the guarantee is promised or relied upon (one that is merely measured may
    have no verdict at all) and if the faults can test it.

    Raises:
        UsageError: the plan requires a guarantee that the system does not have.
    """
    plan, system, faults = resolved.plan, resolved.system, registry.faults()
    out_of_reach = NEED_A_CUT
    for spec in request.specs:
        # A fault that a mixture happens to draw does not ensure that a guarantee is tested.
        named = spec.fault in request.named
        if named and may_cut_off_leader(spec, faults[spec.fault], resolved.members, system.profile.leader_names):
            out_of_reach = frozenset()
    known = {g.name for g in system.promises()}
    for name in plan.require:
        if name not in known:
            raise unknown_choice(f"guarantee of {plan.system}", name, known)
    in_force = promises_in_force(system, "", plan.settings, resolved.system_options)
    stated = {g.name for g in in_force if g.standing is not Standing.MEASURED}
    demanded = (
        name for name in resolved.workload.requires(resolved.options) if name in stated and name not in out_of_reach
    )
    return tuple(dict.fromkeys((*plan.require, *demanded)))


#: The file's name in a run's folder until the child has taken it.
PREPARED: Final = "prepared.json"


class _Given(msgspec.Struct, frozen=True, kw_only=True):
    """One fault of the plan's own schedule (`harness.faults.schedule.ScheduledFault`), its spec as text."""

    spec: str
    inject_ns: int
    duration_ns: int
    draw_seed: int
    worker: int
    number: int
    gap_ns: int

    @classmethod
    def of(cls, entry: ScheduledFault) -> "_Given":
        return cls(
            spec=entry.spec.text,
            inject_ns=entry.inject_ns,
            duration_ns=entry.duration_ns,
            draw_seed=entry.draw_seed,
            worker=entry.worker,
            number=entry.number,
            gap_ns=entry.gap_ns,
        )

    def entry(self, spec: FaultSpec) -> ScheduledFault:
        return ScheduledFault(
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
    #: Whether every connection goes through a proxy, for a fault that needs it.
    streams: bool
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
            streams=checked.placement.streams,
            artifacts=self.artifacts,
            others=dict(self.others),
            workers=tuple(
                tuple(tuple(spec.text for spec in choice) for choice in worker) for worker in checked.request.workers
            ),
            given=None if checked.given is None else tuple(map(_Given.of, checked.given)),
        )
        write_whole(folder / PREPARED, msgspec.json.encode(document))

    @classmethod
    def take(cls, folder: Path) -> "Prepared":
        """Read the document and remove it."""
        path = folder / PREPARED
        document = msgspec.json.decode(path.read_bytes(), type=_Document)
        path.unlink()
        resolved = resolve_plan(document.plan)
        placement = replace(placement_of(resolved), streams=document.streams)
        faults = registry.faults()
        workers = tuple(
            tuple(parse_choice(list(texts), faults, placement) for texts in worker) for worker in document.workers
        )
        given: tuple[ScheduledFault, ...] | None = None
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
