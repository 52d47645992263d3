"""What a run says first and last: the seed, the command that repeats it, the verdict and its witness."""

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from fencepost.harness.base.errors import ExitCode, FencepostError
from fencepost.harness.base.options import plain
from fencepost.harness.campaigns.times.junit import Made, junit_of, junit_path
from fencepost.harness.cli.output.progress import shorten
from fencepost.harness.plan import Plan
from fencepost.harness.results import run_folder as store
from fencepost.harness.systems.contract import server_settings as settings
from fencepost.harness.verdict import Facts, Validity, Witness
from fencepost.harness.verdict.by_guarantee import OfGuarantee, by_guarantee
from fencepost.harness.verdict.counting import counts, one_line

if TYPE_CHECKING:
    from fencepost.harness.history import History
    from fencepost.harness.judging.judge import Judgement
    from fencepost.harness.plan.checked_plan import CheckedPlan
    from fencepost.harness.run.conclude import Result

#: Of several runs the first of these that one of them ended with.
_CODES: Final = (ExitCode.INVALID, ExitCode.INTERNAL, ExitCode.UNKNOWN, ExitCode.VALID)
_INDENT: Final = "  "
_GRAVITY: Final = (Validity.INVALID, Validity.UNKNOWN, Validity.VALID)
_COLOURS: Final = {Validity.VALID: "green", Validity.INVALID: "red", Validity.UNKNOWN: "yellow"}


def exit_code_of(results: "list[Result]") -> int:
    """A proven violation always wins."""
    codes = {result.judgement.exit_code for result in results}
    return int(next((code for code in _CODES if code in codes), ExitCode.UNKNOWN))


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
    defaults = Plan(system="", workload="", seed=0, version=checked.system.releases.default)
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
    return _changed(plain(checked.system_options), plain(checked.system.profile.parse_options(wanted)))


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
    lines = by_guarantee(judgement.verdicts, judgement.facts)
    for line in sorted(lines, key=lambda line: (_GRAVITY.index(line.effect), _GRAVITY.index(line.validity))):
        click.echo(f"  {guarantee_line(line, judgement.facts)}")
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


def guarantee_line(line: OfGuarantee, facts: Facts) -> str:
    """What was judged of one guarantee on one line: validity, standing, violations or reasons, how often tested."""
    guarantee = facts.guarantee(line.name)
    standing = f" [{guarantee.standing.value}]" if guarantee else ""
    required = ", required" if line.name in facts.required else ""
    tested = [f"tested {v.exposure} times: {v.exposure_of}" for v in line.verdicts if v.exposure]
    text = "; ".join(dict.fromkeys([*_words_of(line, facts), *tested]))
    return f"{line.validity.value:8}{line.name}{standing}{required} by {', '.join(line.checkers)}: {text}"


def _words_of(line: OfGuarantee, facts: Facts) -> list[str]:
    if line.contradiction:
        return [line.contradiction]
    seen = counts(line.verdicts)
    broken = one_line([count for count in seen if count.allowed_by is None])
    allowed = one_line([count for count in seen if count.allowed_by is not None])
    beside = [f"allowed by {line.name}: {allowed}"] if allowed else []
    if broken:
        return [broken, *beside]
    layered = len({v.figures.get("subject") for v in line.verdicts}) > 1
    reasons = [
        f"{v.figures['subject']}: {v.reason}" if layered and "subject" in v.figures else v.reason
        for v in line.verdicts
        if v.reason and not (allowed and v.validity is Validity.VALID)
    ]
    return [*(reasons or ["no violation found"]), *beside]


def say_times(results: "Sequence[Result]", made: "Sequence[Made]") -> None:
    """After several runs: how often each verdict came out, of which seeds, and the JUnit file of all of them."""
    seeds: dict[str, list[int]] = {}
    judged = iter(results)
    for run in made:
        outcome = "failed" if run.failure else next(judged).judgement.validity.value
        seeds.setdefault(outcome, []).append(run.seed)
    counts = []
    for outcome, of in sorted(seeds.items()):
        which = "" if outcome == Validity.VALID else f" (seeds {', '.join(map(str, of))})"
        counts.append(f"{len(of)} of {len(made)} {outcome}{which}")
    click.echo(f"{len(made)} runs: {', '.join(counts)}")
    path = junit_path(made)
    if path is not None:
        try:
            path.write_text(junit_of(made), encoding="utf-8")
        except OSError as error:
            _err(f"warning: {path.name} could not be written: {error.strerror}")
        else:
            _err(f"JUnit of all runs: {shorten(str(path))}")


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
