"""Generators: pure values that offer the next operation, "pending" or "done". This module is the whole public face.

`generators/contract.py` says what a generator is and what its driver owes it; the combinators are in
`generators/what.py` and `who.py`. `harness/testing/simulation.py` runs one without clocks, and
`harness/interpreter/interpreter.py` against a system.
"""

from fencepost.harness.generators.contract import (
    PENDING,
    Context,
    Draw,
    DrawStream,
    Generator,
    Invocation,
    Offer,
    Pending,
    Step,
)
from fencepost.harness.generators.what import (
    draws,
    limit,
    mix,
    numbered,
    once,
    phases,
    repeat,
    sequence,
    until_ok,
    validate,
)
from fencepost.harness.generators.who import (
    at_rate,
    each_worker,
    on_workers,
    probes,
    reserve,
    sleep,
    stagger,
    time_limit,
)

__all__ = [
    "PENDING",
    "Context",
    "Draw",
    "DrawStream",
    "Generator",
    "Invocation",
    "Offer",
    "Pending",
    "Step",
    "at_rate",
    "draws",
    "each_worker",
    "limit",
    "mix",
    "numbered",
    "on_workers",
    "once",
    "phases",
    "probes",
    "repeat",
    "reserve",
    "sequence",
    "sleep",
    "stagger",
    "time_limit",
    "until_ok",
    "validate",
]
