"""What a run says first and last: the seed, the command that repeats it, the verdict and its witness."""

import json
import os
import shlex
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from fencepost.harness.base.errors import ExitCode, FencepostError
from fencepost.harness.base.options import plain
from fencepost.harness.cli.output.progress import shorten
from fencepost.harness.plan import Plan
from fencepost.harness.results import run_folder as store
from fencepost.harness.systems.contract import server_settings as settings
from fencepost.harness.verdict import Facts, Validity, Verdict, Witness, allowed_by, in_words, merge, violations_of

if TYPE_CHECKING:
    from fencepost.harness.history import History
    from fencepost.harness.judging.judge import Judgement
    from fencepost.harness.plan.checked_plan import CheckedPlan
    from fencepost.harness.run.conclude import Result

_CODES: Final = {
    Validity.VALID: ExitCode.VALID,
    Validity.INVALID: ExitCode.INVALID,
    Validity.UNKNOWN: ExitCode.UNKNOWN,
}
_INDENT: Final = "  "
_COLOURS: Final = {Validity.VALID: "green", Validity.INVALID: "red", Validity.UNKNOWN: "yellow"}


def exit_code_of(results: "list[Result]") -> int:
    """A proven violation always wins."""
    return int(_CODES[merge(result.judgement.validity for result in results)])


def say_first(checked: "CheckedPlan", number: int, times: int) -> None:
    """On stderr, before anything starts."""
    plan = checked.plan
    which = f" (run {number + 1} of {times})" if times > 1 else ""
    _err(
        f"{plan.system} {plan.version} | {plan.workload} | {plan.nemesis} | {plan.nodes} nodes | {plan.runtime}{which}"
    )
    _err(f"seed {plan.seed}; repeat with: {repeat_command(checked)}")
    notice = checked.workload.notice(checked.options)
    if notice:
        _err(f"note: {notice}")


def repeat_command(checked: "CheckedPlan") -> str:
    """The flags that give this plan again; settings that have no flag of their own stand in -o and -O."""
    plan = checked.plan
    words = ["fencepost run", f"--system {plan.system}", f"--workload {plan.workload}"]
    words += [f"--schedule {_quoted(shorten(plan.schedule))}" if plan.schedule else f"--nemesis {plan.nemesis}"]
    defaults = Plan(system="", workload="", seed=0, version=checked.system.default_version)
    for field in (
        "quorum",
        "runtime",
        "links",
        "image",
        "nodes",
        "time_limit",
        "quiet",
        "op_timeout",
        "deadline",
        "version",
    ):
        value = getattr(plan, field)
        # An image decides the version: the plan has none then.
        if value and value != getattr(defaults, field):
            words.append(f"--{field.replace('_', '-')} {_quoted(str(value))}")
    watch_ns = checked.leadership().watch_ns
    words += [f"--watch {plan.phases.watch}"] * (plan.duration_ns("watch") != watch_ns)
    words += ["--limited-data"] * plan.limited_data
    words += [f"--require {name}" for name in plan.require]
    words += [f"-o {name}={_quoted(str(value))}" for name, value in _changed_options(checked).items()]
    words += [f"-O {name}={_quoted(str(value))}" for name, value in _changed_system_options(checked).items()]
    words += [f"--set {_quoted(text)}" for text in settings.words(plan.settings)]
    return " ".join([*words, f"--seed {plan.seed}"])


def _changed_options(checked: "CheckedPlan") -> dict[str, object]:
    return _changed(plain(checked.options), plain(checked.workload.defaults(checked.system)))


def _changed_system_options(checked: "CheckedPlan") -> dict[str, object]:
    wanted = checked.workload.system_options(checked.system)
    return _changed(checked.system_options, {**checked.system.options(), **wanted})


def _changed(options: Mapping[str, object], defaults: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in options.items() if defaults.get(name) != value}


def _quoted(text: str) -> str:
    return shlex.quote(text)


def say_last(seed: int, result: "Result", *, as_json: bool) -> None:
    """The verdict on stdout; where to look and how to repeat it on stderr."""
    if as_json:
        sys.stdout.write(json.dumps(result.document, indent=2) + "\n")
    else:
        say_judgement(result.judgement, _history(result))
    for warning in result.warnings:
        _err(f"warning: {warning}")
    _err(f"report: {shorten(str(result.folder / store.REPORT))}")
    _err(f"seed {seed}; repeat with: fencepost run {shorten(str(result.folder / store.PLAN))}")
    sys.stdout.flush()


def _history(result: "Result") -> "History | None":
    """What was recorded, read again where there is something to draw."""
    if result.judgement.validity is not Validity.INVALID:
        return None
    from fencepost.harness.results.reader import read_history

    try:
        return read_history(result.folder)
    except FencepostError:
        return None


def say_judgement(judgement: "Judgement", history: "History | None" = None) -> None:
    """The verdict, each checker's word and the first witness that decides, drawn where its history is given."""
    click.echo(f"{_coloured(judgement.validity)}: {judgement.headline}")
    for verdict in sorted(judgement.verdicts, key=_gravity):
        click.echo(f"  {verdict_line(verdict, judgement.facts)}")
    shown = [v for v in judgement.verdicts if v.witnesses and v.validity is Validity.INVALID]
    shown.sort(key=lambda v: not judgement.facts.decides(v.guarantee))
    for verdict in shown[:1]:
        witness = verdict.witnesses[0]
        click.echo(f"witness ({witness.anomaly}):")
        told = _draw(witness, history) if history is not None else frozenset()
        for step in witness.steps:
            if step not in told:
                click.echo(f"  - {step}")


def _draw(witness: Witness, history: "History") -> frozenset[str]:
    """Draws the witness; returns the sentences that the drawing tells, so that they need not stand below it again.

    A drawing that fails costs nothing but itself: the verdict stands above it.
    """
    from fencepost.harness.report.drawing.terminal import of_stdout
    from fencepost.harness.report.drawing.text import drawing

    sys.stdout.flush()
    try:
        found = drawing(witness, history, of_stdout().narrower(len(_INDENT)))
    except Exception as error:
        _err(f"the witness could not be drawn: {type(error).__name__}: {error}")
        return frozenset()
    if found.lines:
        click.echo("\n" + "".join(f"{_INDENT}{line}".rstrip() + "\n" for line in found.lines))
    return found.told


def _gravity(verdict: Verdict) -> int:
    return [Validity.INVALID, Validity.UNKNOWN, Validity.VALID].index(verdict.validity)


def verdict_line(verdict: Verdict, facts: Facts) -> str:
    """One checker's word on one line: validity, guarantee, standing, counts or the reason."""
    guarantee = facts.guarantee(verdict.guarantee)
    standing = f" [{guarantee.standing.value}]" if guarantee else ""
    required = ", required" if verdict.guarantee in facts.required else ""
    allowed = allowed_by(verdict)
    counts = in_words(violations_of([verdict]))
    beside = in_words({name: count for name, count in verdict.anomalies.items() if name in allowed})
    exposure = f"; exposure {verdict.exposure} {verdict.exposure_of}".rstrip() if verdict.exposure is not None else ""
    layer = f" of {verdict.figures['subject']}" if len(facts.subjects) > 1 and "subject" in verdict.figures else ""
    said = counts or ("" if beside and verdict.validity is Validity.VALID else verdict.reason) or "no violation found"
    said += f"; allowed by {verdict.guarantee}: {beside}" if beside else ""
    by = f"{verdict.checker}{layer}"
    return f"{verdict.validity.value:8}{verdict.guarantee}{standing}{required} by {by}: {said}{exposure}"


def say_times(results: "list[Result]", times: int) -> None:
    """After several runs: how often each verdict came out."""
    if times > 1:
        counts = Counter(result.judgement.validity.value for result in results)
        said = ", ".join(f"{count} of {len(results)} {name}" for name, count in sorted(counts.items()))
        click.echo(f"{len(results)} runs: {said}")


def _coloured(validity: Validity) -> str:
    word = validity.value.upper()
    if os.environ.get("NO_COLOR") or not sys.stdout.isatty():
        return word
    return click.style(word, fg=_COLOURS[validity], bold=True)


def _err(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def report_path(result: "Result") -> str:
    """The report's path as a person would type it."""
    return shorten(str(Path(result.folder) / store.REPORT))
