"""One run, called from Python: a plan from a file or from the caller's own words, carried out in this process.

The runner is a child of this process and ends with it, however it ends; so a killed session leaves nothing.
"""

import contextlib
import random
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.harness.base.errors import UsageError, command_line
from fencepost.harness.base.signals import StopRequest
from fencepost.harness.plan import Plan, read_plan
from fencepost.harness.plan.checked_plan import CheckedPlan, check_plan
from fencepost.harness.results import run_folder as store
from fencepost.harness.run.conclude import Result
from fencepost.harness.run.execute import execute, refuse_too_short
from fencepost.harness.verdict import Validity, Witness

#: What a caller may name in its own words, under the names of the plan file.
_WORDS: Final = frozenset(Plan.__struct_encode_fields__) - {"format"}


class FinishedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A finished run as its caller sees it."""

    validity: Validity
    headline: str
    #: The run's folder: history, verdict, report, logs.
    folder: Path
    seed: int
    #: The release that ran, as its servers say.
    version: str
    #: Every fingerprint that the run shows, of guarantees that decide it.
    fingerprints: tuple[str, ...]
    #: The names of the anomalies behind them.
    anomalies: tuple[str, ...]
    witnesses: tuple[Witness, ...]

    @property
    def report(self) -> Path:
        """The report, one HTML file."""
        return self.folder / store.REPORT

    @property
    def command(self) -> str:
        """The command that repeats the run."""
        return command_line("run", self.folder / store.PLAN)

    def text(self) -> str:
        """The outcome for a person: verdict, the first witness in sentences, where to look, how to repeat it."""
        lines = [f"{self.validity.value}: {self.headline}"]
        for witness in self.witnesses[:1]:
            lines += [f"witness ({witness.anomaly}):", *(f"  - {step}" for step in witness.steps)]
        return "\n".join([*lines, f"report: {self.report}", f"seed {self.seed}; repeat with: {self.command}"])


def plan_in_words(keys: Mapping[str, Any], seed: int) -> Plan:
    """The plan that a caller names by keywords, with `seed` where it names none.

    Raises:
        UsageError: a keyword that plans do not have, or a value of another type.
    """
    unknown = sorted(set(keys) - _WORDS)
    if unknown:
        raise UsageError(f"a plan has no '{unknown[0]}'", hint=f"it has: {', '.join(sorted(_WORDS))}")
    try:
        return msgspec.convert({"seed": seed, **keys}, Plan)
    except msgspec.ValidationError as error:
        raise UsageError(f"the plan: {error}", hint="the keys are those of a plan file") from None


def run(plan: str | Path | Plan | None = None, *, results: str | Path = "results", **keys: Any) -> FinishedRun:
    """Carry out a plan against a real cluster and judge it, as `fencepost run` does.

    >>> import fencepost
    >>> done = fencepost.run(system="example", workload="register", nemesis="partition:leader", time_limit="5s", seed=7)
    >>> done.validity.value, done.report.name
    ('valid', 'report.html')

    Args:
        plan: the path of a plan file, or a plan; None: `keys` are the plan, under the names of a plan file.
        results: the folder for the run's own folder.

    Raises:
        UsageError: the plan is refused; found before the cluster started. `message` says why, `hint` what to do.
        MachineError: this machine cannot do it; found before the cluster started.
        HarnessError: the cluster did not start, or there was nothing to judge.
        KeyboardInterrupt: a person asked for the end; the run was healed, and judged by what there was.
    """
    if plan is not None and keys:
        raise UsageError("a plan and keys of one were given", hint="give the one or the other")
    if not isinstance(plan, Plan):
        seed = random.SystemRandom().randrange(2**31)
        plan = plan_in_words(keys, seed) if plan is None else read_plan(Path(plan), seed=seed)
    return run_plan(plan, Path(results))


def run_plan(plan: Plan, results: Path, expected: str = "") -> FinishedRun:
    """Carry out one plan and judge it; `expected` is `invalid` where it must show a violation.

    Raises:
        MachineError, UsageError: found before the cluster started.
        HarnessError: the cluster did not start, or there was nothing to judge.
        KeyboardInterrupt: a person asked for the end; the run was healed, and judged by what there was.
    """
    checked: CheckedPlan = check_plan(plan)
    refuse_too_short(checked, [checked.plan.seed])
    stop = StopRequest()
    with _handling_signals(stop), stop.deadline(checked.plan.deadline):
        result = execute(checked, results, progress=lambda message: None, stop=stop, expected=expected)
    if stop.by_hand:
        raise KeyboardInterrupt
    return _of(result, checked.plan.seed)


def _of(result: Result, seed: int) -> FinishedRun:
    judgement = result.judgement
    decisive = [row for row in result.document.get("anomalies", ()) if row["decides"]]
    verdicts = [v for v in judgement.verdicts if v.witnesses and v.validity is Validity.INVALID]
    verdicts.sort(key=lambda verdict: not judgement.facts.decides(verdict.guarantee))
    return FinishedRun(
        validity=judgement.validity,
        headline=judgement.headline,
        folder=result.folder,
        seed=seed,
        version=str(result.document.get("version") or ""),
        fingerprints=tuple(dict.fromkeys(text for row in decisive for text in row["fingerprints"])),
        anomalies=tuple(dict.fromkeys(row["anomaly"] for row in decisive)),
        witnesses=tuple(witness for verdict in verdicts for witness in verdict.witnesses),
    )


@contextlib.contextmanager
def _handling_signals(stop: StopRequest) -> Iterator[None]:
    """Ctrl-C heals and judges first; a session that runs its tests beside the main thread gets no signals there."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stop.install()
    try:
        yield
    finally:
        stop.uninstall()
