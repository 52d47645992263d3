"""Runs of the watch workload, through the real interpreter, against the fake store, in virtual time; and judged."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, cast

from msgspec.structs import replace

from fencepost.harness.base.options import plain
from fencepost.harness.contract.system import System, WatchKinds
from fencepost.harness.coordination import WatchMode
from fencepost.harness.history import History
from fencepost.harness.judging.judgement import Judgement, conclude
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.workload import workload_options
from fencepost.harness.verdict import Facts, Guarantee, Standing, Thresholds
from fencepost.systems.consul.system import CONSUL
from fencepost.systems.etcd.system import ETCD
from fencepost.systems.zookeeper.system import ZOOKEEPER
from fencepost.workloads.watch import WatchOptions, WatchWorkload
from tests.fakes.playing import play
from tests.fakes.profile import FAKE_PROFILE, NoParts
from tests.fakes.watch_store import BUGS, FakeWatchSession, FakeWatchStore

_OPTIONS: Final = {"rate": 300.0, "wait": "20ms", "keys": 4}
_PROMISES: Final[dict[str, tuple[Guarantee, ...]]] = {
    # The newest release: earlier ones promise less of bookmarks.
    "history": ETCD.promises("main"),
    "session": ZOOKEEPER.promises(),
    # All of them decide here, also the one that users only rely on.
    "merged": tuple(replace(g, standing=Standing.PROMISED) for g in CONSUL.promises()),
}
_MODES: Final[dict[str, tuple[WatchMode, ...]]] = {
    "history": (WatchMode.PERSISTENT,),
    "session": (WatchMode.PERSISTENT, WatchMode.ONE_SHOT),
    "merged": (WatchMode.MERGED,),
}


class FakeSystem(NoParts):
    profile: Final = FAKE_PROFILE

    def __init__(self, flavour: str) -> None:
        self.watches: Final = WatchKinds(modes=_MODES[flavour], resumes=flavour == "history", keys_together=True)


def options_of(flavour: str, given: Mapping[str, Any]) -> WatchOptions:
    often = {"again_every": "700ms"} if flavour == "history" else {}
    return workload_options(WatchWorkload(), cast(System, FakeSystem(flavour)), {**_OPTIONS, **often, **given})


def run_watch(bug: str | None, seed: int, *, flavour: str = "history", **given: Any) -> History:
    """One run, in which each node in turn loses its connections for a while."""
    if bug is not None:
        _, flavour, needed, _ = BUGS[bug]
        given = {**needed, **given}
    store = FakeWatchStore(seed=seed, bug=bug, flavour=flavour)

    async def disturb(_: object) -> None:
        for name in (*store.nodes, "n1"):
            await asyncio.sleep(0.6)
            await store.cut(name, 0.3)

    return play(
        WatchWorkload(),
        lambda node: FakeWatchSession(store, node),
        nodes=tuple(store.nodes),
        seed=seed,
        load_s=4.0,
        options=options_of(flavour, given),
        beside=[partial(store.apply, node) for node in store.nodes.values()],
        disturb=disturb,
        warm_up_s=0.5,
        open_s=0.0,
    )


def judge_watch(history: History, *, flavour: str = "history", **given: Any) -> Judgement:
    options = options_of(flavour, given)
    facts = Facts(
        system="fake",
        workload="watch",
        nodes=("n1", "n2", "n3"),
        guarantees=_PROMISES[flavour],
        read_guarantee="watch-reliable",
        options=plain(options),
        thresholds=Thresholds(ok_operations_min=40),
    )
    checkers = map(registry.checker, ("watch", "coverage"))
    verdicts = [v for check in checkers for v in check(history, facts)]
    return conclude(history, facts, tuple(verdicts))
