"""The schedule of faults: drawn from the seed before the run, carried out one fault at a time.

Kinds, nominal times and draws depend on the plan and the seed only; which node leads when a fault acts is the
cluster's affair. Faults of a combination take turns in a seeded order, each kind once per round, so that a short run
meets every kind.
"""

import random
from dataclasses import dataclass

from harness.durations import parse_duration_ns
from harness.fault import Fault, FaultSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One fault to come: injected `inject_ns` after the main phase began, healed `duration_ns` after its proof.

    `draw_seed` decides the nodes when the target is not fixed by its name.
    """

    spec: FaultSpec
    inject_ns: int
    duration_ns: int
    draw_seed: int


def duration_of(spec: FaultSpec, fault: Fault) -> int:
    """`for=` of the spec, or the fault's own default."""
    text = spec.options.get("for")
    return parse_duration_ns(text, what=f"{spec.fault}: for") if text else fault.default_duration_ns


def draw_schedule(
    specs: list[FaultSpec], faults: dict[str, Fault], *, seed: int, time_limit_ns: int, quiet_ns: int
) -> list[Entry]:
    """Entries that fit in the main phase, each healed and followed by `quiet_ns` without a fault.

    The first fault comes after half a quiet time; quiet times vary by a fifth, so that faults do not keep step with
    the system's own timers. When not even one fault fits, the list holds the first one, cut short.
    """
    draw = random.Random(f"{seed}/schedule")
    entries: list[Entry] = []
    at_ns = quiet_ns // 2
    turn: list[FaultSpec] = []
    while specs:
        if not turn:
            turn = list(specs)
            draw.shuffle(turn)
        spec = turn.pop()
        duration_ns = duration_of(spec, faults[spec.fault])
        draw_seed = draw.getrandbits(32)
        if at_ns + duration_ns > time_limit_ns:
            if not entries and at_ns < time_limit_ns:
                entries.append(
                    Entry(spec=spec, inject_ns=at_ns, duration_ns=time_limit_ns - at_ns, draw_seed=draw_seed)
                )
            return entries
        entries.append(Entry(spec=spec, inject_ns=at_ns, duration_ns=duration_ns, draw_seed=draw_seed))
        at_ns += duration_ns + round(quiet_ns * draw.uniform(0.8, 1.2))
    return entries
