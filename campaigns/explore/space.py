"""The plans that are near a plan: what is drawn for a run, and how the values of one are changed a little.

Drawn are the seed, the load (rates, keys, workers per node: an eighth to eight times the plan's own, or what the
`[[draw]]`s of a campaign say), the quiet time and the faults. Only kinds of faults are drawn that the plan names, `all`
of them where it says so: with which target, for how long, at which event, after and beside which others. Half of the
fresh plans keep the plan's faults as it writes them. What `check_plan` refuses is drawn again.
"""

import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fencepost.campaigns.explore.corpus import Values
from fencepost.campaigns.night.draws import DrawnKey, with_values
from fencepost.harness.base.errors import UsageError
from fencepost.harness.base.options import plain
from fencepost.harness.faults.fault_options import LEADER, RESTART, triggers_told_by
from fencepost.harness.faults.kind import FaultSpec
from fencepost.harness.faults.schedule import NONE
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import CheckedPlan, check_plan
from fencepost.harness.plugins import registry
from fencepost.harness.run.execute import refuse_too_short

#: Numbers of a workload that are its load.
_LOAD: Final = re.compile(r"rate|keys|.*_(per_node|per_second|rate)")
_LOAD_FACTOR: Final = 8
_QUIET: Final = DrawnKey(key="quiet", values=("500ms", "1s", "2s", "4s", "8s"))
_LENGTH_S: Final = (0.2, 10.0)
_DELAY_S: Final = (0.01, 2.0)
_WITHIN: Final = "5s"
_LENGTH_SHARE, _TRIGGER_SHARE, _OWN_FAULTS_SHARE = 0.6, 0.3, 0.5
#: A list of faults has at most so many workers, and a worker so many faults.
_WORKERS_MAX: Final = 3
_FAULTS_MAX: Final = 4
_CHANGES_MAX: Final = 3
#: After so many draws that make no plan the plan itself is taken, with a seed of its own.
_TRIES: Final = 50


class FaultDraws:
    """Draws faults as the plan's `nemesis` writes them, from specs by their kind."""

    def __init__(self, kinds: Mapping[str, Sequence[FaultSpec]], events: Sequence[str]) -> None:
        self._kinds, self._events = {name: [spec.text for spec in specs] for name, specs in kinds.items()}, events
        self._lengths = {name for name in kinds if registry.faults()[name].any_length}

    def fresh(self, draw: random.Random) -> str:
        """Draw a few workers of a few faults each."""
        workers = [[self._word(draw) for _ in range(draw.choice((1, 1, 2)))] for _ in range(draw.choice((1, 2, 2, 3)))]
        return _joined(workers)

    def changed(self, text: str, draw: random.Random) -> str:
        """Add, replace or remove one fault, or give it another target, length or event."""
        workers = workers_of(text)
        worker = draw.choice(workers)
        at = draw.randrange(len(worker))
        name = worker[at].partition(":")[0]
        match draw.randrange(6):
            case 0 if len(worker) < _FAULTS_MAX:
                worker.insert(at, self._word(draw))
            case 1 if len(workers) < _WORKERS_MAX:
                workers.append([self._word(draw)])
            case 2 if len(workers) + len(worker) > 2:
                del worker[at]
            case 3 if name in self._kinds:
                worker[at] = self._timed(worker[at], draw)
            case 4 if name in self._kinds:
                worker[at] = self._timed(draw.choice(self._kinds[name]), draw)
            case _:
                worker[at] = self._word(draw)
        return _joined(workers)

    def _word(self, draw: random.Random) -> str:
        return self._timed(draw.choice(self._kinds[draw.choice(list(self._kinds))]), draw)

    def _timed(self, text: str, draw: random.Random) -> str:
        """The same fault, as the case may be with another length, with another event or without one."""
        parts = text.split(":")
        if parts[0] in self._lengths and draw.random() < _LENGTH_SHARE:
            parts = [*_without(parts, "for="), f"for={_ms(_LENGTH_S, draw)}"]
        event = draw.random()
        if event < 2 * _TRIGGER_SHARE:
            parts = _without(parts, "when=", "within=")
        if event < _TRIGGER_SHARE:
            parts += [f"when={draw.choice(self._events)}+{_ms(_DELAY_S, draw)}", f"within={_WITHIN}"]
        return ":".join(parts)


class PlanSpace:
    """The plans around one plan; `fits` says whether values make one that can be run."""

    def __init__(
        self, nemesis: str, numbers: Sequence[DrawnKey], faults: FaultDraws | None, fits: Callable[[Values], bool]
    ) -> None:
        self._nemesis, self._numbers, self._faults, self._fits = nemesis, numbers, faults, fits

    def fresh(self, draw: random.Random) -> Values:
        """Draw everything; half of the time the faults are those of the plan as it writes them."""
        faults = None if draw.random() < _OWN_FAULTS_SHARE else self._faults

        def make(draw: random.Random) -> Values:
            drawn = {number.key: number.drawn(draw) for number in self._numbers}
            return {
                "seed": draw.getrandbits(31),
                **drawn,
                **({} if faults is None else {"nemesis": faults.fresh(draw)}),
            }

        return self._fitting(make, draw)

    def changed(self, values: Values, draw: random.Random) -> Values:
        """Change one to three of the values, seldom the seed."""

        def change(draw: random.Random) -> Values:
            made = dict(values)
            for _ in range(draw.randint(1, _CHANGES_MAX)):
                key = draw.choice(["seed", *(number.key for number in self._numbers), *["nemesis"] * self._weight()])
                made[key] = self._value(key, made, draw)
            return made

        return self._fitting(change, draw, values)

    def _weight(self) -> int:
        """Faults are changed about as often as all numbers together."""
        return 0 if self._faults is None else len(self._numbers) + 1

    def _value(self, key: str, values: Values, draw: random.Random) -> Any:
        if key == "seed":
            return draw.getrandbits(31)
        if key == "nemesis":
            assert self._faults is not None, "it is drawn only where the plan has faults"
            return self._faults.changed(values.get("nemesis", self._nemesis), draw)
        return next(number for number in self._numbers if number.key == key).drawn(draw)

    def _fitting(
        self, make: Callable[[random.Random], Values], draw: random.Random, like: Values | None = None
    ) -> Values:
        made = (make(draw) for _ in range(_TRIES))
        return next((one for one in made if one != like and self._fits(one)), {"seed": draw.getrandbits(31)})


def space_of(checked: CheckedPlan, draws: Sequence[DrawnKey] = ()) -> PlanSpace:
    """The plans around a checked one; `draws` take the place of what would be drawn for the same keys.

    Raises UsageError for a plan whose faults are recorded ones.
    """
    plan = checked.plan
    if plan.schedule:
        raise UsageError("the plan has a schedule of recorded faults", hint="name its faults by nemesis instead")
    numbers = {draw.key: draw for draw in (_QUIET, *_load_of(checked), *draws)}
    faults = None if plan.nemesis.strip() == NONE else _faults_of(checked)
    return PlanSpace(plan.nemesis, tuple(numbers.values()), faults, lambda values: is_plan(plan, values))


def is_plan(plan: Plan, values: Values) -> bool:
    """Whether the plan with these values can be run, and has time for its faults."""
    try:
        checked = check_plan(with_values(plan, values))
        refuse_too_short(checked, [checked.plan.seed])
    except (UsageError, msgspec.ValidationError):
        return False
    return True


def _load_of(checked: CheckedPlan) -> list[DrawnKey]:
    load = []
    for name, value in plain(checked.options).items():
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 and _LOAD.fullmatch(name):
            least = max(1, value // _LOAD_FACTOR) if isinstance(value, int) else value / _LOAD_FACTOR
            load.append(DrawnKey(key=f"workload_options.{name}", least=least, most=value * _LOAD_FACTOR))
    return load


def _faults_of(checked: CheckedPlan) -> FaultDraws | None:
    """The faults that the plan names and this machine can do, with the targets of the mixture where it says `all`."""
    faults = registry.faults()
    kinds: dict[str, dict[str, FaultSpec]] = {}
    for spec in checked.request.specs:
        kind = faults[spec.fault]
        if kind.unavailable(checked.placement) is None:
            specs = [spec]
            if spec.fault in checked.request.named:
                others = (
                    kind.spec(target, {**spec.given}) for target in ("leader", "follower") if target in kind.targets
                )
                specs += [other for other in others if kind.refusal(other, checked.placement) is None]
            kinds.setdefault(spec.fault, {}).update({one.text: one for one in specs})
    events = [LEADER, RESTART, *triggers_told_by(checked.system.logs)]
    return FaultDraws({name: tuple(of.values()) for name, of in kinds.items()}, events) if kinds else None


def workers_of(text: str) -> list[list[str]]:
    """The faults of a nemesis, by worker."""
    return [worker.split(",") for worker in re.split(r"\+(?=[a-z])", text)]


def _joined(workers: Sequence[Sequence[str]]) -> str:
    return "+".join(",".join(worker) for worker in workers if worker)


def _without(parts: Sequence[str], *starts: str) -> list[str]:
    return [word for word in parts if not word.startswith(starts)]


def _ms(range_s: tuple[float, float], draw: random.Random) -> str:
    return f"{round(1000 * math.exp(draw.uniform(*map(math.log, range_s))))}ms"
