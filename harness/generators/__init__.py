"""Generators: pure values that offer the next operation, "pending" or "done". This module is the whole public face.

`generators/contract.py` says what a generator is and what its driver owes it; the combinators are in
`generators/what.py` and `who.py`. `harness/testing/simulation.py` runs one without clocks, and
`harness/interpreter/interpreter.py` against a system.
"""

from fencepost.harness.generators.contract import (
    PENDING as PENDING,
    Context as Context,
    Draw as Draw,
    DrawStream as DrawStream,
    Generator as Generator,
    Invocation as Invocation,
    Offer as Offer,
    Pending as Pending,
    Step as Step,
)
from fencepost.harness.generators.what import (
    draws as draws,
    limit as limit,
    mix as mix,
    numbered as numbered,
    once as once,
    phases as phases,
    repeat as repeat,
    sequence as sequence,
    until_ok as until_ok,
    validate as validate,
)
from fencepost.harness.generators.who import (
    at_rate as at_rate,
    each_worker as each_worker,
    on_workers as on_workers,
    probes as probes,
    reserve as reserve,
    sleep as sleep,
    stagger as stagger,
    time_limit as time_limit,
)
