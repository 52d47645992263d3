"""Every name that a person can type, and what stands behind it: literal mappings, loaded when asked for.

The values are "module:attribute", so that listing names imports nothing heavy. Plug-ins add names of their own
(`harness.base.offers`); a plug-in that cannot be loaded is left out of `systems`, `workloads` and `faults`, and
whoever asks for it by name is told why.
"""

import contextlib
import functools
import heapq
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import msgspec

from fencepost.harness.base import offers
from fencepost.harness.base.errors import UsageError, unknown_choice
from fencepost.harness.history import History
from fencepost.harness.verdict import Facts, Guarantee, Verdict

if TYPE_CHECKING:
    from fencepost.harness.contract.system import System
    from fencepost.harness.faults.kind import FaultKind
    from fencepost.harness.runtime.provider import Provider

_WORKLOADS: Final = {
    "election": "fencepost.workloads.election:Election",
    "group-membership": "fencepost.workloads.group_membership:GroupMembership",
    "lease": "fencepost.workloads.lease:LeaseWorkload",
    "list-append": "fencepost.workloads.list_append:ListAppend",
    "lock": "fencepost.workloads.lock:Lock",
    "log": "fencepost.workloads.log:LogWorkload",
    "register": "fencepost.workloads.register:RegisterWorkload",
    "set": "fencepost.workloads.set:Set",
    "watch": "fencepost.workloads.watch:WatchWorkload",
}

_FAULTS: Final = {
    "administer": "fencepost.nemesis.members.administer:Administer",
    "clock-skew": "fencepost.nemesis.clock.clock_skew:ClockSkew",
    "churn": "fencepost.nemesis.leadership.churn:Churn",
    "damage": "fencepost.nemesis.disk.damage:DamageFiles",
    "disk": "fencepost.nemesis.disk.disk:DiskFault",
    "flapping": "fencepost.nemesis.network.flapping:Flapping",
    "gray": "fencepost.nemesis.process.gray:Gray",
    "kill": "fencepost.nemesis.process.kill:Kill",
    "link": "fencepost.nemesis.network.link:LinkFault",
    "lost-write": "fencepost.nemesis.disk.lost_write:LostWrite",
    "membership": "fencepost.nemesis.members.membership:MembershipChange",
    "partition": "fencepost.nemesis.network.partition:PartitionFault",
    "pause": "fencepost.nemesis.process.pause:Pause",
    "power-loss": "fencepost.nemesis.disk.power_loss:PowerLoss",
    "rolling": "fencepost.nemesis.upgrade.rolling:Rolling",
    "stagger": "fencepost.nemesis.process.stagger:Stagger",
    "toxic": "fencepost.nemesis.network.toxic:ToxicFault",
}

_CHECKERS: Final = {
    "coverage": "fencepost.checkers.coverage:check",
    "election": "fencepost.checkers.elections.elections:check",
    "freshness": "fencepost.checkers.leadership.freshness:check",
    "group-membership": "fencepost.checkers.membership:check",
    "leadership": "fencepost.checkers.leadership:check",
    "lease": "fencepost.checkers.leases:check",
    "linearizable": "fencepost.checkers.storage.registers:check",
    "lock": "fencepost.checkers.elections.locks:check",
    "log": "fencepost.checkers.log:check",
    "log-agreement": "fencepost.checkers.log_agreement:check",
    "replicas": "fencepost.checkers.run_end:check_replicas",
    "resumption": "fencepost.checkers.run_end:check_resumption",
    "session-order": "fencepost.checkers.storage.sessions:check",
    "set": "fencepost.checkers.storage.sets:check",
    "watch": "fencepost.checkers.watches:check",
    "zombie-brokers": "fencepost.checkers.log.zombie_leaders:check",
}

#: Judge how every run ends, whatever its workload.
END_CHECKERS: Final = ("replicas", "resumption")
#: Judges the logs that a system's part `read_log` has read.
LOG_CHECKER: Final = "log-agreement"

#: Built-in models, each judged by `checkers.objects.judging` under its name.
OBJECTS: Final = (
    "append-log",
    "bag",
    "bank",
    "counter",
    "fenced-mutex",
    "key-value",
    "linearizable-set",
    "multi-register",
    "mutex",
    "owner-mutex",
    "priority-queue",
    "queue",
    "semaphore",
    "stack",
)

#: Checkers of histories that stand alone, and whose figures no report shows. Of runs, `list-append` alone judges some.
FILE_CHECKERS: Final = {
    **dict.fromkeys(OBJECTS, "fencepost.checkers.objects.judging:checker_of"),
    "bank-totals": "fencepost.checkers.storage.answers:check_totals",
    "kafka-log": "fencepost.checkers.log.kafka_history:check",
    "list-append": "fencepost.checkers.transactions.history:check_lists",
    "rw-register": "fencepost.checkers.transactions.history:check_registers",
    "unique-ids": "fencepost.checkers.storage.answers:UNIQUE_IDS",
    "user-model": "fencepost.checkers.objects.user_objects:check",
}

#: Lays the facts of a history out as tables.
DERIVE: Final = "fencepost.checkers.derived.derive:derive"

#: Checks the proofs of a verdict by the history alone.
CONFIRM: Final = "fencepost.checkers.confirm:confirm"

#: What else the native core does.
NATIVE: Final = {
    "build-info": "fencepost.checkers._core:build_info",
    "edn": "fencepost.checkers._core:read_edn",
    "edn-form": "fencepost.checkers._core:Edn",
}

RUNTIMES: Final = {
    "containers": "fencepost.harness.runtime.containers.provider:CONTAINERS",
    "lab": "fencepost.harness.runtime.lab.provider:LAB",
}


class Names(MutableMapping[str, str]):
    """The names of one kind: the core's and the leaves' with "module:attribute", those of plug-ins with their place."""

    def __init__(self, kind: str, core: dict[str, str], reserved: Mapping[str, str] | None = None) -> None:
        self.kind = kind
        self._core = core
        self._reserved = reserved or {}
        #: The offers of this kind, and of which look at plug-ins they are.
        self._found: tuple[object, dict[str, offers.NamedOffer]] = (None, {})

    def __getitem__(self, name: str) -> str:
        if name in self._core:
            return self._core[name]
        offer = self._offers()[name]
        return str(offer.target) if offer.source.leaf else offer.source.place

    def __setitem__(self, name: str, target: str) -> None:
        self._core[name], self._found = target, (None, {})

    def __delitem__(self, name: str) -> None:
        del self._core[name]
        self._found = (None, {})

    def __iter__(self) -> Iterator[str]:
        leaves = {name: offer for name, offer in self._offers().items() if offer.source.leaf}
        yield from heapq.merge(self._core, sorted(leaves))
        yield from sorted(self._offers().keys() - leaves.keys())

    def __len__(self) -> int:
        return len(self._core) + len(self._offers())

    def offer(self, name: str) -> offers.NamedOffer | None:
        """What a plug-in offers under this name; None for a name of fencepost's own, and where there is none."""
        offer = None if name in self._core else self._offers().get(name)
        return None if offer is None or offer.source.leaf else offer

    def leaf(self, name: str) -> str:
        """The leaf that brings this name; "" for one of the core or of a plug-in."""
        offer = None if name in self._core else self._offers().get(name)
        return offer.source.name if offer is not None and offer.source.leaf else ""

    def _offers(self) -> dict[str, offers.NamedOffer]:
        there = offers.offered()
        if self._found[0] is not there:
            offers.refuse_clashes(self.kind, {**self._core, **self._reserved})
            self._found = there, {name: offer for (kind, name), offer in there.offers.items() if kind == self.kind}
        return self._found[1]


SYSTEMS: Final = Names("systems", {})
WORKLOADS: Final = Names("workloads", _WORKLOADS)
NEMESES: Final = Names("faults", _FAULTS)
CHECKERS: Final = Names("checkers", _CHECKERS, reserved=FILE_CHECKERS)
#: Models of plug-ins; those of fencepost are families (`harness.interchange.formats.family`).
MODELS: Final = Names("models", {})

T = TypeVar("T")

Checker = Callable[[History, Facts], list[Verdict]]
#: Gives Arrow tables by name (`harness.verdict.fact_tables`).
Deriver = Callable[[History, Facts], Mapping[str, Any]]
#: Takes the path of a table or a history, Spark's master, what it holds ("operations" or "history"), and the facts.
TableJudge = Callable[[Path, str, str, Facts], Verdict]


def use_plugins(paths: Iterable[str | Path]) -> None:
    """Use the plug-ins at these paths too, here and in child processes.

    Raises UsageError for a path whose plug-in is broken, or offers a name that is there already.
    """
    offers.use(paths)
    for names in (SYSTEMS, WORKLOADS, NEMESES, CHECKERS, MODELS):
        len(names)


def load_all() -> None:
    """Load whatever plug-ins offer, so that what is broken is known."""
    for names in (SYSTEMS, WORKLOADS, NEMESES, CHECKERS, MODELS):
        for offer in filter(None, map(names.offer, names)):
            with contextlib.suppress(UsageError):
                _offered(offer)


def refuse(kind: str, name: str) -> None:
    """Raise UsageError where a plug-in offers this name and cannot be used; where none does, return."""
    problem = next((p for p in offers.offered().problems if (p.kind, p.name) == (kind, name)), None)
    if problem is not None:
        raise problem.error()


def refuse_unknown(kind: str, name: str) -> None:
    """Raise UsageError for a name that nothing here has, where a plug-in may have it that cannot be read."""
    refuse(kind, name)
    unread = next((problem for problem in offers.offered().problems if not problem.kind), None)
    if unread is not None:
        error = unread.error()
        raise UsageError(f"unknown {kind.removesuffix('s')} {name!r}; {error.message}", hint=error.hint)


def system(name: str) -> "System":
    """The system under test of this name; raises UsageError."""
    return cast("System", _load("system", name, SYSTEMS))


def workload(name: str) -> Any:
    """The workload of this name, made new; raises UsageError."""
    return _load("workload", name, WORKLOADS)()


def runtime(name: str) -> "Provider":
    """The runtime of this name; raises UsageError."""
    return cast("Provider", _load("runtime", name, RUNTIMES))


def systems() -> "dict[str, System]":
    """Every system by name, without those of broken plug-ins."""
    return dict(_usable(SYSTEMS, system))


def workloads() -> dict[str, Any]:
    """Every workload by name, made new, without those of broken plug-ins."""
    return dict(_usable(WORKLOADS, workload))


def faults() -> "Mapping[str, FaultKind]":
    """Every fault by name, with added targets, without those of broken plug-ins; loaded when it is looked up."""
    return _LoadedWhenAsked(NEMESES, _fault)


def _fault(name: str) -> "FaultKind":
    fault: FaultKind = _load("fault", name, NEMESES)()
    for offer in sorted(offers.declared("fault_targets"), key=lambda offer: offer.source.name):
        of, _, target = offer.name.partition(":")
        if of == name:
            fault.extend(target, offer.load())
    return fault


def checkers() -> dict[str, Checker]:
    """Every checker of runs by its registry key, without those of broken plug-ins."""
    return dict(_usable(CHECKERS, lambda name: _load("checker", name, CHECKERS)))


def checker(name: str) -> Checker:
    """The checker of this registry key, whose verdicts bear its name; raises UsageError."""
    if name not in FILE_CHECKERS:
        return _named(name, _load("checker", name, CHECKERS))
    check = offers.attribute(FILE_CHECKERS[name])
    return _named(name, check(name) if name in OBJECTS else check)


def _named(name: str, check: Checker) -> Checker:
    return lambda history, facts: [msgspec.structs.replace(v, checker=name) for v in check(history, facts)]


def guarantees_of(checkers: Iterable[str]) -> list[Guarantee]:
    """The guarantees that stand in full in checkers of plug-ins (`checkers.rules`), among those of these names."""
    stated = []
    for name in (name for name in checkers if CHECKERS.offer(name)):
        # What a broken one says of itself is told when it is to judge.
        with contextlib.suppress(UsageError):
            stated.append(getattr(_load("checker", name, CHECKERS), "guarantee", None))
    return [guarantee for guarantee in stated if isinstance(guarantee, Guarantee)]


def checker_of_model(name: str, model: Any = None) -> Checker:
    """What judges histories by this model, else by the one that a plug-in offers under the name; raises UsageError."""
    model = _load("model", name, MODELS) if model is None else model
    judge, checked = (offers.attribute(f"fencepost.checkers.objects.user_objects:{f}") for f in ("judge", "checked"))
    model = model() if isinstance(model, type) else model
    return _named("user-model", functools.partial(judge, name, checked(name, model)))


def derive() -> Deriver:
    """What derives the facts of a history, the core's and then the leaves'; every run and the warehouse use it."""
    of_core = cast(Deriver, offers.attribute(DERIVE))
    return lambda history, facts: {
        **of_core(history, facts),
        **{one.table.name: one.derive(history, facts) for one in tables_of_leaves()},
    }


def tables_of_leaves() -> list[Any]:
    """The tables of facts that leaves and plug-ins bring (`harness.verdict.fact_tables.DerivedTable`)."""
    return [offer.load() for offer in offers.declared("fact_tables")]


def table_judge() -> TableJudge:
    """What judges tables through Spark; raises UsageError where there is nothing that does."""
    judges = offers.loaded("table_judges")
    if not judges:
        raise UsageError(
            "nothing here judges tables through Spark",
            hint="install fencepost[spark]; without --spark it is judged on this machine",
        )
    return cast(TableJudge, next(iter(judges.values())))


def run_checkers(system: str) -> tuple[str, ...]:
    """The checkers that judge every run of this system because it is this system, by their registry keys."""
    return tuple(offers.targets("run_checkers").get(system, ()))


def confirm(history: History, document: Mapping[str, Any]) -> int:
    """Check the proofs of a verdict, or of a document's verdicts, as `checkers.confirm` does."""
    return int(offers.attribute(CONFIRM)(history, document))


def confirmed(history: History, verdict: Verdict) -> bool:
    """Whether the verdict bears proofs, and each of them holds by the history alone."""
    try:
        return bool(confirm(history, msgspec.to_builtins(verdict)))
    except UsageError:
        return False


def native(name: str) -> Any:
    """What the native core offers by this name."""
    return _load("native function", name, NATIVE)


def _load(kind: str, name: str, entries: Mapping[str, str]) -> Any:
    offer = entries.offer(name) if isinstance(entries, Names) else None
    if offer is not None:
        return _offered(offer)
    if name not in entries:
        refuse_unknown(f"{kind}s", name)
        raise unknown_choice(kind, name, list(entries))
    return offers.attribute(entries[name])


def _usable(names: Names, load: Callable[[str], T]) -> Iterator[tuple[str, T]]:
    for name in names:
        try:
            yield name, load(name)
        except UsageError:
            if names.offer(name) is None:
                raise


class _LoadedWhenAsked(Mapping[str, T]):
    """What stands behind each usable name; only plug-ins are loaded to know whether they are usable."""

    def __init__(self, names: Names, load: Callable[[str], T]) -> None:
        self._names = names
        self._load = functools.cache(load)

    def __getitem__(self, name: str) -> T:
        if name not in self:
            raise KeyError(name)
        return self._load(name)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or name not in self._names:
            return False
        if self._names.offer(name) is not None:
            try:
                self._load(name)
            except UsageError:
                return False
        return True

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._names if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@functools.cache
def _offered(offer: offers.NamedOffer) -> Any:
    """Load what a plug-in offers, and hold it to what its kind must be; raises UsageError that names the plug-in."""
    try:
        loaded = offer.load()
        made = loaded() if offer.kind in ("workloads", "faults") or isinstance(loaded, type) else loaded
        why = _unfit(offer, made)
    except (Exception, SystemExit) as error:
        raise offers.broken(offer, error).error() from None
    if why:
        raise offers.broken(offer, why).error()
    return made if offer.kind == "systems" else loaded


def _unfit(offer: offers.NamedOffer, made: Any) -> str:
    """Why this is not what its kind must be; "" when it is. May raise whatever the plug-in raises."""
    from fencepost.harness.contract.profile import Profile
    from fencepost.harness.contract.system import BaseSystem
    from fencepost.harness.faults.kind import FaultKind
    from fencepost.harness.plugins.workload import Workload

    base: Any = {"systems": BaseSystem, "workloads": Workload, "faults": FaultKind}.get(offer.kind, object)
    if not isinstance(made, base):
        return f"expected a class below {base.__name__}, not {type(made).__name__}"
    if why := _called_otherwise(made, base):
        return why
    match offer.kind:
        case "systems":
            if not isinstance(made.profile, Profile):
                return f"its profile is a {type(made.profile).__name__}, not a Profile"
            promised = {guarantee.name for guarantee in made.promises()}
            if unknown := next((name for name in made.profile.reads.values() if name not in promised), None):
                return f"its reads are held to {unknown!r}, which is none of its guarantees"
            made.profile.options()
            made.releases.known()
        case "models" if not callable(getattr(made, "step", None)):
            return "expected a class with init() and step(), as fencepost.checkers.Model has them"
        case "checkers" if not callable(made):
            return f"expected a function, not {type(made).__name__}"
    named = offer.name if base is object else getattr(made, "profile", made).name
    return "" if named == offer.name else f"it calls itself {named!r}; both names must be the same"


def _called_otherwise(made: Any, base: type) -> str:
    """Which of its methods cannot be called as fencepost calls those of `base`; "" when all can."""
    for name, declared in inspect.getmembers(base, inspect.isfunction):
        given = list(inspect.signature(declared).parameters.values())[1:]
        by_name = {one.name: None for one in given if one.kind is one.KEYWORD_ONLY}
        try:
            inspect.signature(getattr(made, name)).bind(*given[len(by_name) :], **by_name)
        except TypeError as error:
            return f"its {name}() is called with ({', '.join(one.name for one in given)}): {error}"
    return ""
