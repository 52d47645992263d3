"""A judged table: its verdict in the terminal or as JSON, its page, and the opinions of other tools."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from fencepost.harness.cli.check.second_opinions import exit_code as exit_code_with
from fencepost.harness.cli.check.second_opinions import say_opinions, with_opinions
from fencepost.harness.cli.output.verdict_text import say_judgement
from fencepost.harness.interchange.second_opinion.opinion import Opinion
from fencepost.harness.judging.judgement import Judgement
from fencepost.harness.judging.stand_alone import FORMAT
from fencepost.harness.verdict import Facts, Validity, Verdict
from fencepost.harness.verdict.by_guarantee import counts_in_words, plain_verdict, table_figures


class JudgedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table and the verdict on it.

    `form` is its kind in the JSON document, `what` its kind for people, and `size` counts its rows for people
    ("40 operations").
    """

    path: Path
    form: str
    what: str
    size: str
    verdict: Verdict
    facts: Facts

    @property
    def judgement(self) -> Judgement:
        """The verdict as the judgement on a whole file."""
        return Judgement(
            validity=self.verdict.validity, headline=self._headline(), verdicts=(self.verdict,), facts=self.facts
        )

    def introduction(self) -> str:
        """What was judged, by which model and engine, in one line."""
        figures = table_figures(self.verdict)
        return (
            f"{self.path}: {self.what}, {self.size} on {figures.keys} keys; model {self.facts.workload}, "
            f"by {figures.engine}"
        )

    def document(self) -> dict[str, Any]:
        """The judgement as plain data, with the keys of any file that is judged without a plan."""
        judgement = self.judgement
        return {
            "format": FORMAT,
            "validity": judgement.validity.value,
            "exit_code": int(judgement.exit_code),
            "headline": judgement.headline,
            "file": str(self.path),
            "form": self.form,
            "model": self.facts.workload,
            "keyed": True,
            "events": 0,
            "operations": table_figures(self.verdict).rows,
            "verdicts": [plain_verdict(self.verdict)],
        }

    def _headline(self) -> str:
        match self.verdict.validity:
            case Validity.INVALID:
                return f"{self.verdict.guarantee} is violated: {counts_in_words([self.verdict])}"
            case Validity.UNKNOWN:
                return self.verdict.reason
            case Validity.VALID:
                return f"{self.size}: no violation of {self.verdict.guarantee} was found"


def conclude(
    table: JudgedTable,
    *,
    as_json: bool,
    write_page: Callable[[Judgement], None] | None = None,
    ask: Callable[[], Sequence[Opinion]] | None = None,
) -> int:
    """Print the verdict, write the page, then ask other tools.

    Args:
        write_page: writes the HTML page; None where no page was asked for.
        ask: asks other tools about the same table; None where none was named.

    Returns:
        The exit code of the verdict, or 255 when another tool contradicts it.
    """
    judgement = table.judgement
    click.echo(table.introduction(), err=True)
    if not as_json:
        say_judgement(judgement)
        sys.stdout.flush()
    if write_page is not None:
        write_page(judgement)
    opinions = ask() if ask is not None else ()
    ours = int(judgement.exit_code)
    if as_json:
        sys.stdout.write(json.dumps(with_opinions(table.document(), opinions, ours), indent=2) + "\n")
    say_opinions(opinions, as_json=as_json)
    return exit_code_with(ours, opinions)
