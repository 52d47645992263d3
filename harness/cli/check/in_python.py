"""`fencepost.check`: what `fencepost check FILE` does, called from Python, also for rows that Python holds."""

import contextlib
import html
import io
import tempfile
from pathlib import Path
from typing import Any, Final

from fencepost.harness.base.errors import UsageError, command_line
from fencepost.harness.cli.check.foreign import Judged, Reading, judge, judge_imported, takes_for_run
from fencepost.harness.interchange.formats.family import ModelChoice
from fencepost.harness.verdict import Validity, Verdict, Witness

#: The name of rows in messages.
_ROWS: Final = "<history>"


def check(
    history: Any,
    model: ModelChoice = None,
    *,
    consistency: str | None = None,
    format: str | None = None,
    keyed: bool | None = None,
    initial: Any = None,
) -> "CheckedHistory":
    """Judge a history, as `fencepost check` does.

    >>> import fencepost
    >>> result = fencepost.check(
    ...     [  # process, f, key, value, start, end
    ...         ("a", "write", "x", 1, 0, 10),
    ...         ("b", "write", "x", 2, 20, None),  # no answer: it may take effect at any later time, or never
    ...         ("c", "read", "x", 7, 30, 40),
    ...     ],
    ...     model="register",
    ... )
    >>> result.validity.value, result.witness.anomaly
    ('invalid', 'phantom-read')

    Args:
        history: a list of such tuples, or of dicts with these names; a table of pandas, Arrow or Polars with these
            columns; the path of a file or folder that the command takes; or events of `fencepost.harness.history`.
            `process` and `key` may be missing, values and keys are of any type. `start` and `end` are ns, floats of
            seconds, or datetimes; `end` is missing where no answer came. `value` is what was asked, of a read what it
            returned. A further column `result` has what was returned, `type` says ok, fail (it never happened) or info.
        model: a name as for `--model`, or a class with `init` and `step` (or an instance of one); None: the operations
            show which.
        consistency: of transactions, the model that they are held to: serializable, snapshot-isolation, ...
        format: as `--format`, for a path. None: recognised by the first bytes.
        keyed: as `--keyed`, for a path to EDN.
        initial: what was there before the first operation, of all keys; or a dict of it by key.

    Raises:
        UsageError: the history cannot be judged; `message` says why and where, `hint` what to do.
    """
    before = initial if isinstance(initial, dict) else {} if initial is None else {None: initial}
    if not isinstance(history, (str, Path)):
        if format is not None or keyed is not None:
            raise UsageError("format and keyed are for a path, and rows were given", hint="leave them out")
        from fencepost.harness.interchange.formats.initial import with_initial
        from fencepost.harness.interchange.formats.rows import read_rows

        imported = read_rows(history, _ROWS, model=model)
        imported = with_initial(imported, before, _ROWS)
        return CheckedHistory(judge_imported(imported, Path(_ROWS), consistency))
    path = Path(history)
    reading = Reading(form=format, model=model, keyed=keyed, consistency=consistency, initial=before)
    if path.is_dir() and takes_for_run(path, reading):
        hint = f"its operations alone: give {path / 'history.parquet'}; by its plan: {command_line('check', path)}"
        raise UsageError(f"{path}: a run is judged by its plan", hint=hint)
    return CheckedHistory(judge(path, reading))


class CheckedHistory:
    """A history that was judged; a notebook shows its witness drawn."""

    def __init__(self, judged: Judged) -> None:
        self._judged: Final = judged

    @property
    def validity(self) -> Validity:
        """`valid`, `invalid` or `unknown`; equal to these words."""
        return self._judged.judgement.validity

    @property
    def headline(self) -> str:
        """The verdict in one sentence."""
        return self._judged.judgement.headline

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The word of each checker, with anomalies, witnesses and figures."""
        return self._judged.judgement.verdicts

    @property
    def witness(self) -> Witness | None:
        """The first witness of what is violated: the few operations that prove it."""
        return next((v.witnesses[0] for v in self.verdicts if v.witnesses and v.validity is Validity.INVALID), None)

    def explain(self) -> str:
        """The verdict with its witness, as the command prints it."""
        from fencepost.harness.cli.output.verdict_text import say_judgement

        with contextlib.redirect_stdout(io.StringIO()) as text:
            say_judgement(self._judged.judgement, self._judged.history)
        return text.getvalue()

    def report(self, path: str | Path) -> Path:
        """Write the HTML report, in which every witness is drawn, to a new file; raises UsageError if it exists."""
        from fencepost.harness.cli.check.file_report import check_report

        check_report(Path(path))
        self._judged.write_page(Path(path))
        return Path(path)

    def document(self) -> dict[str, Any]:
        """The judgement as plain data, as `fencepost check --json` prints it."""
        return self._judged.document()

    def __repr__(self) -> str:
        return f"<{self.validity.upper()}: {self.headline}>"

    def _repr_html_(self) -> str:
        with tempfile.TemporaryDirectory() as folder:
            page = self.report(Path(folder) / "report.html").read_text(encoding="utf-8")
        height = "40em" if self.witness is not None else "16em"
        return f'<iframe srcdoc="{html.escape(page)}" style="width: 100%; height: {height}; border: 0"></iframe>'
