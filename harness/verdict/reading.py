"""How others read the figures of verdicts: by their struct, or all of them as plain data."""

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from fencepost.harness.verdict.figures import Figures, OperationTableFigures, TransactionTableFigures
from fencepost.harness.verdict.verdict import Verdict

F = TypeVar("F", bound=Figures)


def figures_of(verdicts: Iterable[Verdict], kind: type[F]) -> list[F]:
    """Return the figures of this kind among those of the verdicts."""
    return [v.figures for v in verdicts if isinstance(v.figures, kind)]


def table_figures(verdict: Verdict) -> OperationTableFigures | TransactionTableFigures:
    """Return the figures of a table's verdict; a verdict on anything else has none and is a defect of the caller."""
    assert isinstance(verdict.figures, OperationTableFigures | TransactionTableFigures), type(verdict.figures)
    return verdict.figures


def plain_figures(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict's figures as verdict.json has them: the format also keeps three of its fields among them."""
    return {
        **({} if verdict.subject is None else {"subject": verdict.subject}),
        **verdict.figures.plain(),
        **({"allowed": list(verdict.allowed)} if verdict.allowed else {}),
        **({"cut_short": verdict.cut_short} if verdict.cut_short else {}),
    }


def plain_verdict(verdict: Verdict) -> dict[str, Any]:
    """Return a whole verdict as plain data, with its figures as `plain_figures` has them."""
    plain: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(verdict, figures=Figures()))
    own = {"subject", "allowed", "cut_short"}
    figures = plain_figures(verdict)
    return {name: figures if name == "figures" else value for name, value in plain.items() if name not in own}
