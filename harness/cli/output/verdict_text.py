"""A verdict on the terminal: three lines to act on, then the witness, then one entry for each guarantee.

Text as wide as the terminal; whole lines where output is piped, so that `grep` finds them.
"""

import os
import sys
from typing import TYPE_CHECKING, Final

import click

from fencepost.harness.verdict import Facts, Validity, Witness
from fencepost.harness.verdict.by_guarantee import COVERAGE, OfGuarantee, by_guarantee, counts, one_line, opening, times
from fencepost.harness.verdict.figures import WATCHED_FOR

if TYPE_CHECKING:
    from fencepost.harness.history import History
    from fencepost.harness.judging.judgement import Judgement
import shutil
import textwrap


def wrapped(text: str, *, hanging: int) -> str:
    """Wrap `text` to the terminal's width; lines after the first start `hanging` columns further right."""
    if not sys.stdout.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return textwrap.fill(text, width, subsequent_indent=" " * hanging, break_on_hyphens=False, break_long_words=False)


_INDENT: Final = "  "
#: Behind the word of a validity.
_COLUMN: Final = 11
_GRAVITY: Final = (Validity.INVALID, Validity.UNKNOWN, Validity.VALID)
_COLOURS: Final = {Validity.VALID: "green", Validity.INVALID: "red", Validity.UNKNOWN: "yellow"}


def say_judgement(judgement: "Judgement", history: "History | None" = None, folder: str | None = None) -> None:
    """Print a verdict on standard output.

    Args:
        judgement: the verdict.
        history: what was judged, to list the witness's operations from; None: it is told in sentences only.
        folder: the run's folder as a person would type it; None for a history that is not in one.
    """
    lines = by_guarantee(judgement.verdicts, judgement.facts)
    first = opening(judgement.validity, judgement.headline, lines, judgement.facts, folder)
    click.echo(f"{_coloured(judgement.validity)}: {first.headline}")
    if first.concerns:
        click.echo(first.concerns)
    if first.next_command is not None:
        click.echo(f"Next: {first.next_command}  # {first.next_why}")
    _say_witness(judgement, history)
    click.echo("Guarantees:")
    for line in sorted(lines, key=lambda line: (_GRAVITY.index(line.effect), _GRAVITY.index(line.validity))):
        click.echo(wrapped(f"{_INDENT}{guarantee_line(line, judgement.facts)}", hanging=_COLUMN))


def _say_witness(judgement: "Judgement", history: "History | None") -> None:
    """Print the first witness of a violation that decides, else of any."""
    violated = [v for v in judgement.verdicts if v.witnesses and v.validity is Validity.INVALID]
    violated.sort(key=lambda v: not judgement.facts.decides(v.guarantee))
    for verdict in violated[:1]:
        witness = verdict.witnesses[0]
        click.echo(f"\nwitness ({witness.anomaly}):")
        if history is not None:
            _list_operations(witness, history)
        for step in witness.steps:
            click.echo(f"  - {step}")
        click.echo("")


def _list_operations(witness: Witness, history: "History") -> None:
    """List the operations of the witness. A failure costs only the list: the verdict stands above it."""
    from fencepost.harness.report.drawing import listing, of_stdout

    try:
        lines = listing(witness, history, of_stdout().narrower(len(_INDENT)))
    except Exception as error:
        click.echo(f"the witness's operations could not be listed: {type(error).__name__}: {error}", err=True)
        return
    if lines:
        click.echo("\n" + "".join(f"{_INDENT}{line}".rstrip() + "\n" for line in lines))


def guarantee_line(line: OfGuarantee, facts: Facts) -> str:
    """What was judged of one guarantee: validity, standing, violations or reasons, how often it was tested."""
    guarantee = facts.guarantee(line.name)
    standing = f" ({guarantee.standing.value})" if guarantee else ""
    required = ", required" if line.name in facts.required else ""
    tested = [f"tested {times(line.exposure)}"] if line.exposure else []
    matters = line.validity is Validity.INVALID or line.name == facts.read_guarantee
    unmet = [guarantee.unmet.text] if guarantee and guarantee.unmet and matters else []
    text = "; ".join(dict.fromkeys([*_reasons(line, facts), *tested, *unmet]))
    return f"{line.validity.value:{_COLUMN - len(_INDENT)}}{line.name}{standing}{required}: {text}"


def _reasons(line: OfGuarantee, facts: Facts) -> list[str]:
    """Violations by name, else why the guarantee is unknown or valid."""
    if line.contradiction:
        return [line.contradiction]
    if line.name == COVERAGE and line.validity is Validity.VALID:
        enough = (
            "enough operations ran, and enough of them while a fault was in force" if line.exposure else "enough ran"
        )
        return [enough, *(v.figures[WATCHED_FOR] for v in line.verdicts if v.figures.get(WATCHED_FOR))]
    seen = counts(line.verdicts)
    violations = one_line([count for count in seen if count.allowed_by is None])
    allowed = one_line([count for count in seen if count.allowed_by is not None])
    beside = [f"allowed by {line.name}: {allowed}"] if allowed else []
    if violations:
        return [violations, *beside]
    layered = len({v.subject for v in line.verdicts}) > 1
    reasons = [
        f"{v.subject}: {reason}" if layered and v.subject else reason
        for v, reason in line.reasons
        if not (allowed and v.validity is Validity.VALID)
    ]
    return [*(reasons or ["no violation found"]), *beside]


def _coloured(validity: Validity) -> str:
    text = validity.value.upper()
    if os.environ.get("NO_COLOR") or not sys.stdout.isatty():
        return text
    return click.style(text, fg=_COLOURS[validity], bold=True)
