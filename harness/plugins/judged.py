"""Which run has a guarantee judged: the workload, its options and the faults that `fencepost list guarantees` shows.

A workload names its checkers; the table here, and those of leaves, say what each of them judges. What
`Workload.guarantee` says of some options needs no row.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from fencepost.harness.base import offers
from fencepost.harness.base.options import describe
from fencepost.harness.contract.system import System, leadership_of
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.workload import Workload, workload_options

#: By checker, what it judges wherever a system states it.
JUDGES: Final[Mapping[str, tuple[str, ...]]] = {
    "freshness": ("write-positions-agree",),
    "session-order": ("session-order",),
    "set": ("no-lost-acknowledged-writes",),
    "list-append": ("strict-serializable",),
    "lease": (
        *("answered-keep-alive-counts", "ended-lease-stays-ended", "expired-lease-ends", "live-lease-lives"),
        "no-keep-alive-of-the-dead",
    ),
    "group-membership": (
        *("group-listener-converges", "joined-member-listed", "leave-ends-own-membership", "member-data-belongs"),
        *("member-lists-in-order", "member-told-of-its-end", "one-member-per-id", "renewing-member-stays"),
        "silent-member-goes",
    ),
    "election": (
        *("one-acting-leader", "one-believed-leader", "resign-ends-own-term", "somebody-leads-again", "terms-grow"),
        *("unknown-campaign-is-settled", "no-lost-acknowledged-writes", "session-order"),
    ),
    "watch": (
        *("watch-atomic", "watch-before-data", "watch-bookmarkable", "watch-ordered", "watch-reliable"),
        *("watch-resumable", "watch-truthful", "watch-unique"),
    ),
    "log": (
        *("log-committed-reads", "log-durable", "log-leader-epochs", "log-no-duplicates", "log-offsets-stable"),
        *("log-order", "appends-need-replicas", "log-no-duplicates-without-idempotence"),
    ),
    "log-agreement": ("log-agrees",),
    "replicas": ("replicas-agree",),
    "resumption": ("leader-elected", "reads-resume", "servers-return", "writes-resume"),
    "zombie-brokers": ("zombie-broker-does-not-act",),
    "leadership": ("groups-keep-their-size", "leader-self-fencing", "superseded-leader-does-not-act"),
}
_UNREPLICATED: Final = "-unreplicated"
#: Options without which a checker judges something else.
_OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {"log-no-duplicates-without-idempotence": {"idempotence": "off"}}
_ONE_LEADER: Final = "one-leader-per-epoch"


class JudgedRun(NamedTuple):
    """A run by which a guarantee is judged; `options` are the workload's."""

    workload: str
    nemesis: str
    options: Mapping[str, Any]


def judged_by(system: System, guarantee: str, workloads: list[str]) -> JudgedRun | None:
    """Return a run of this system that has a guarantee judged, by the first workload that does; None for none."""
    usual = "partition:leader" if system.profile.subjects else "partition"
    nemesis = offers.targets("judged_under").get(guarantee, usual)
    fixed = _OPTIONS.get(guarantee) or offers.targets("judged_with").get(guarantee, {})
    # First the workloads that are about the guarantee, then those that have it judged besides.
    for judges, name in itertools.product((_is_about, _has_judged), workloads):
        workload = registry.workload(name)
        for options in _variants(system, workload, fixed):
            if judges(system, workload, guarantee, options):
                return JudgedRun(name, nemesis, options)
    return None


def _variants(system: System, workload: Workload[Any], fixed: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The defaults, then each option with each of its choices; `fixed` options besides, where the workload has them."""
    choices = workload.choices(system)
    rows = describe(workload.defaults(system))
    if set(fixed) <= {row.name for row in rows}:
        yield fixed
        for row in rows:
            yield from ({**fixed, row.name: value} for value in choices.get(row.name, row.choices))


def _is_about(system: System, workload: Workload[Any], guarantee: str, given: Mapping[str, Any]) -> bool:
    return workload.guarantee(system, workload_options(workload, system, given)) == guarantee


def _has_judged(system: System, workload: Workload[Any], guarantee: str, given: Mapping[str, Any]) -> bool:
    options = workload_options(workload, system, given)
    judges = {**JUDGES, **offers.targets("judges")}
    # Every run has these judged, whatever its workload.
    always = ("leadership", *registry.END_CHECKERS, registry.LOG_CHECKER, *registry.run_checkers(system.profile.name))
    if any(guarantee in judges.get(checker, ()) for checker in always):
        return True
    if guarantee == _ONE_LEADER:
        return leadership_of(system, system.profile.options()).one_leader_per_epoch
    if guarantee.endswith(_UNREPLICATED) != workload.guarantee(system, options).endswith(_UNREPLICATED):
        return False
    guarantees = {each for checker in workload.checkers(system, options) for each in judges.get(checker, ())}
    return guarantee.removesuffix(_UNREPLICATED) in guarantees
