"""Runs until a bug is found: `fencepost explore` against plans that are drawn each time, with the same budget.

`python -m bench.explore [SEEDS [RUNS [BUG...]]]`: planted bugs of the store in memory, played by the real interpreter,
judged by the real checkers; SEEDS is a number or a range such as 100:110. Every bug of `tests/fakes/catalogue.py` that
needs a fault, as it stands there; and four that show only in a state of the cluster that is rarely reached, made for
this comparison.

`python -m bench.explore lab EXHIBIT SEEDS BUDGET`: an exhibit of the museum on real clusters, whole hours of a quiet
machine: its plan, which each strategy changes.
"""

import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.document import machine_line, write_table
from fencepost.campaigns.explore.corpus import FRESH_SHARE, Corpus, ExploredRun, Values
from fencepost.campaigns.explore.features import features_of
from fencepost.campaigns.explore.space import FaultDraws, PlanSpace, workers_of
from fencepost.campaigns.museum.exhibits import Exhibit, all_exhibits, chosen
from fencepost.campaigns.night.draws import DrawnKey
from fencepost.checkers.derived.derive import derive
from fencepost.harness.contract.guarantees import mechanisms_of
from fencepost.harness.faults.kind import FaultSpec
from fencepost.harness.faults.overlaps import draw_schedules
from fencepost.harness.faults.schedule import ScheduledFault
from fencepost.harness.history import Effects, FaultAction, FaultEvent, FaultOutcome, FaultStage, NodeChange, Stops
from fencepost.harness.plan import write_plan
from fencepost.harness.plugins import registry
from fencepost.harness.verdict import Validity
from tests.fakes.catalogue import BUGS
from tests.fakes.cluster import FakeCluster, FakeNode
from tests.fakes.runs import FakeRun, judge_fake

MAIN_S: Final = 10.0
STRATEGIES: Final = {"explored": FRESH_SHARE, "random": 1.0}
_QUIET_NS: Final = 2_000_000_000
_NUMBERS: Final = {
    "register": (("rate", 20.0, 250.0), ("keys", 1, 40), ("active_per_node", 1, 8), ("seldom_per_node", 1, 8)),
    "set": (("rate", 10.0, 150.0), ("adders_per_node", 1, 8)),
}
#: Loses what was acknowledged shortly before a leader's kill, as `set-dirty-restart`, but only in such a state.
_GATED: Final[dict[str, Callable[["GatedCluster", FakeNode], bool]]] = {
    "leader-returned": lambda cluster, node: node.name in cluster.leaders[:-1],
    "another-node-stands-still": lambda cluster, node: any(not n.running.is_set() for n in cluster.nodes.values()),
    "fourth-election": lambda cluster, node: len(cluster.leaders) > 4,
    "soon-after-a-pause": lambda cluster, node: cluster.now_s() - cluster.resumed_s.get(node.name, -9.0) < 1.0,
}


class GatedCluster(FakeCluster):
    """Knows who led and who stood still, and loses writes only where its gate is open."""

    def __init__(self, *, seed: int, gate: Callable[["GatedCluster", FakeNode], bool]) -> None:
        super().__init__(seed=seed, bug="set-dirty-restart")
        self.leaders: list[str] = [self.leader]
        self.resumed_s: dict[str, float] = {}
        self._gate, self._open = gate, False

    async def elect(self) -> None:
        await super().elect()
        self.leaders.append(self.leader)

    def resume(self, node: FakeNode) -> None:
        super().resume(node)
        self.resumed_s[node.name] = self.now_s()

    def kill(self, node: FakeNode) -> None:
        self._open = node.name == self.leader and self._gate(self, node)
        super().kill(node)

    def _forget_since(self, since_s: float) -> None:
        if self._open:
            super()._forget_since(since_s)


class DrawnRun(FakeRun):
    """A run in memory whose load and faults are those of a plan's values; faults are drawn as those of real runs."""

    load_s = MAIN_S

    def __init__(self, bug: str, values: Values) -> None:
        self.planted = "set-dirty-restart" if bug in _GATED else bug
        options = {key.partition(".")[2]: value for key, value in values.items() if "." in key}
        super().__init__(BUGS[self.planted].workload, self.planted, values["seed"], (), options)
        self._gate, self._nemesis, self._ids = _GATED.get(bug), values["nemesis"], iter(range(10_000))

    def made_cluster(self) -> FakeCluster:
        return super().made_cluster() if self._gate is None else GatedCluster(seed=self.seed, gate=self._gate)

    async def _disturb(self, _: object) -> None:
        workers = [[(_spec(word),) for word in worker] for worker in workers_of(self._nemesis)]
        drawn = draw_schedules(
            workers, registry.faults(), seed=self.seed, time_limit_ns=round(MAIN_S * 1e9), quiet_ns=_QUIET_NS
        )
        await asyncio.gather(*(self._worker(list(entries), self.cluster.now_s()) for entries in drawn))

    async def _worker(self, entries: list[ScheduledFault], began_s: float) -> None:
        cluster = self.cluster
        for entry in entries:
            await asyncio.sleep(max(0.0, began_s + entry.inject_ns / 1e9 - cluster.now_s()))
            trigger, epoch, until_s = entry.spec.options.trigger, cluster.epoch, cluster.now_s()
            if trigger is not None:
                until_s += trigger.within_ns / 1e9
                while cluster.epoch == epoch and cluster.now_s() < until_s:
                    await asyncio.sleep(0.01)
                await asyncio.sleep(trigger.delay_ns / 1e9)
            nodes = list(cluster.nodes.values())
            fit = [
                n
                for n in nodes
                if entry.spec.target == "one" or (n.name == cluster.leader) == (entry.spec.target == "leader")
            ]
            node = random.Random(entry.draw_seed).choice(fit)
            able = [n for n in nodes if n.alive and n.running.is_set()]
            # One node goes on, and nobody is hit twice or in the middle of an election.
            if node in able and len(able) > 1 and cluster.serving.is_set():
                await self._hit(entry, node)

    async def _hit(self, entry: ScheduledFault, node: FakeNode) -> None:
        cluster, kills = self.cluster, entry.spec.fault == "kill"
        record = partial(
            self.recorder.record,
            FaultEvent,
            fault_id=next(self._ids),
            fault=entry.spec.fault,
            target=entry.spec.target,
            nodes=(node.name,),
            leader=cluster.leader,
            epoch=cluster.epoch,
            effects=Effects(stops=Stops.CERTAIN),
        )
        record(action=FaultAction.INJECT, stage=FaultStage.BEGIN, outcome=FaultOutcome.PENDING)
        (cluster.kill if kills else cluster.pause)(node)
        if kills:
            self._node(node, NodeChange.EXITED)
        record(action=FaultAction.INJECT, stage=FaultStage.END, outcome=FaultOutcome.INSTALLED)
        if node.name == cluster.leader:
            await cluster.elect()
        await asyncio.sleep(entry.duration_ns / 1e9)
        record(action=FaultAction.HEAL, stage=FaultStage.BEGIN, outcome=FaultOutcome.PENDING)
        (cluster.restart if kills else cluster.resume)(node)
        if kills:
            self._node(node, NodeChange.STARTED)
        record(action=FaultAction.HEAL, stage=FaultStage.END, outcome=FaultOutcome.HEALED)

    def explored(self, number: int, values: Values, origin: int) -> ExploredRun:
        """Play, judge and describe it."""
        history = self.go()
        judgement = judge_fake(history, self.workload.name, self.planted)
        wanted = BUGS[self.planted].anomalies
        broken = [v for v in judgement.verdicts if v.validity is Validity.INVALID]
        facts = msgspec.structs.replace(judgement.facts, mechanisms=mechanisms_of(registry.system("example")))
        tables = {name: table.to_pylist() for name, table in derive(history, facts).items()}
        document: dict[str, Any] = {
            "mechanisms": {row["mechanism"]: row["count"] for row in tables["mechanisms"]},
            "verdicts": msgspec.to_builtins(
                [{"checker": v.checker, "guarantee": v.guarantee, "rules": v.rules} for v in judgement.verdicts]
            ),
        }
        return ExploredRun(
            run=number,
            values=values,
            origin=origin,
            features=features_of(document, tables["faults"], tables["reigns"]).reached,
            broke=any(f"{v.checker}:{name}" in wanted for v in broken for name in v.anomalies),
        )


def _spec(word: str) -> FaultSpec:
    name, target, *given = word.split(":")
    return registry.faults()[name].spec(target, dict(option.split("=", 1) for option in given))


def space(workload: str) -> PlanSpace:
    """Kills and pauses of one node, the leader or a follower, and the load of the workload."""
    numbers = [DrawnKey(key=f"o.{name}", least=least, most=most) for name, least, most in _NUMBERS[workload]]
    faults = registry.faults()
    kinds = {
        name: [faults[name].spec(target) for target in ("one", "leader", "follower")] for name in ("kill", "pause")
    }
    return PlanSpace("kill:one,pause:one", numbers, FaultDraws(kinds, ("leader",)), lambda values: True)


def runs_to_finding(bug: str, seed: int, fresh_share: float, *, most: int) -> int | None:
    """How many runs it takes until the bug shows; None: more than `most`."""
    plans = space(BUGS["set-dirty-restart" if bug in _GATED else bug].workload)
    runs: list[ExploredRun] = []
    for number in range(1, most + 1):
        draw = random.Random(f"{seed}/explore/{number}")
        values, origin = Corpus(runs).next(plans, draw, fresh_share)
        values = {"nemesis": "kill:one,pause:one", **values}
        runs.append(DrawnRun(bug, values).explored(number, values, origin))
        if runs[-1].broke:
            return number
    return None


def lab_runs_to_finding(exhibit: Exhibit, bug: str, seed: int, fresh_share: float, *, budget: str) -> int | None:
    """The number of the run of `fencepost explore` that first shows the exhibit's fingerprint; None: none did."""
    with tempfile.TemporaryDirectory() as folder:
        write_plan(exhibit.bug_plan(), Path(folder, "plan.toml"))
        flags = ["--budget", budget, "--seed", str(seed), "--fresh-share", str(fresh_share), "--results", folder]
        command = [sys.executable, "-m", "fencepost.harness.cli", "explore", f"{folder}/plan.toml", *flags]
        done = subprocess.run([*command, "--jobs", "1", "--stop-at-first", "--json"], capture_output=True, check=False)
        runs = json.loads(done.stdout)["runs"]
    shown = (run["run"] for run in runs for text in run["fingerprints"] if exhibit.is_shown_by(*text.split(":")[1:3]))
    return next(shown, None)


def row(bug: str, searches: dict[str, list[int | None]], most: int) -> str:
    """One line of the table; a search that found nothing counts as one run more than it may make."""
    cells = []
    for runs in searches.values():
        spent = [most + 1 if run is None else run for run in runs]
        missed = sum(run is None for run in runs)
        cells.append(
            f"{statistics.median(spent):g} ({statistics.mean(spent):.1f}; {len(runs) - missed} of {len(runs)})"
        )
    return f"| {bug} | {' | '.join(cells)} |"


def _seeds(text: str) -> range:
    first, _, end = text.rpartition(":")
    return range(int(first or 0), int(end))


def main(arguments: list[str]) -> None:
    """Measure and write the table."""
    measure: Callable[[str, int, float], int | None]
    if arguments[:1] == ["lab"]:
        (exhibit,) = chosen(all_exhibits(), [arguments[1]])
        bugs, seeds, most = [exhibit.id], _seeds(arguments[2]), 0
        measure = partial(lab_runs_to_finding, exhibit, budget=arguments[3])
    else:
        seeds, most = _seeds(arguments[0] if arguments else "10"), int(arguments[1]) if arguments[1:] else 60
        bugs = arguments[2:] or [*(name for name, bug in BUGS.items() if bug.faults), *_GATED]
        measure = partial(runs_to_finding, most=most)
    head = ["| bug | explored: median runs (mean; found) | random |", "| --- | --- | --- |"]
    lines = [
        machine_line(),
        "",
        f"{len(seeds)} seeds from {seeds[0]}, at most {most or 'a budget of'} runs.",
        "",
        *head,
    ]
    pairs: list[tuple[int, int]] = []
    for bug in bugs:
        searches: dict[str, list[int | None]] = {name: [] for name in STRATEGIES}
        for seed in seeds:
            for name, share in STRATEGIES.items():
                searches[name].append(measure(bug, seed, share))
            explored, drawn = (runs[-1] or sys.maxsize for runs in searches.values())
            pairs.append((explored, drawn))
            print(bug, seed, {name: runs[-1] for name, runs in searches.items()}, flush=True)
        lines.append(row(bug, searches, most))
        print(lines[-1], flush=True)
    sooner, later = sum(one < two for one, two in pairs), sum(one > two for one, two in pairs)
    lines += ["", f"Of {len(pairs)} pairs with one seed explored was sooner in {sooner}, later in {later}."]
    write_table("explore", lines)


if __name__ == "__main__":
    main(sys.argv[1:])
