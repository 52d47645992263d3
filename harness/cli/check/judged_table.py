"""A judged table: the verdict on columns that are too large to be events."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from fencepost.harness.interchange.second_opinion.opinion import ToolQuestion
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
    #: Writes the page of this judgement.
    page: Callable[[Path, Path, Judgement], None]
    ask: Callable[[], ToolQuestion]

    @property
    def history(self) -> None:
        return None

    @property
    def taken_for(self) -> str:
        return f"{self.what}, model {self.facts.workload}"

    @property
    def operations(self) -> int:
        return table_figures(self.verdict).rows

    @property
    def judgement(self) -> Judgement:
        """The verdict as the judgement on a whole file."""
        return Judgement(
            validity=self.verdict.validity, headline=self._headline(), verdicts=(self.verdict,), facts=self.facts
        )

    def introduction(self) -> list[str]:
        figures = table_figures(self.verdict)
        return [
            f"{self.path}: {self.what}, {self.size} on {figures.keys} keys; model {self.facts.workload}, "
            f"by {figures.engine}"
        ]

    def write_page(self, output: Path) -> None:
        self.page(output, self.path, self.judgement)

    def question(self) -> ToolQuestion:
        return self.ask()

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
