"""`fencepost check TABLE --report`: the page of a judged table of operations.

A table has no events: those of the keys that are shown are made from its rows, and what is wrong with them is told
again by these.
"""

import shlex
from pathlib import Path
from typing import Any, Final

import msgspec

from checkers.linearizable import GUARANTEE
from checkers.table_file import TableFile
from checkers.table_history import events_of, witnesses_in
from harness.cli.file_report import file_facts, write_page
from harness.formats.family import FAMILIES
from harness.formats.imported import Imported, ImportedHistory
from harness.judge import Judgement
from harness.report.judged_file import JudgedFile, Whole
from harness.verdict import Verdict

#: Rows of the shown keys together; of larger ones the sentences stand without a drawing.
_ROWS_MAX: Final = 200_000


def write_table_report(output: Path, path: Path, judgement: Judgement, *, spark_master: str | None) -> None:
    """The page, at `output`; raises UsageError, or HarnessError for a section that could not be made."""
    (verdict,) = judgement.verdicts
    history = _shown(path, verdict)
    shown = msgspec.structs.replace(verdict, witnesses=witnesses_in(history, verdict, judgement.facts))
    words = ["fencepost", "check", str(path)]
    words += ["--spark", "--spark-master", spark_master] if spark_master is not None else []
    figures: dict[str, Any] = verdict.figures
    judged = JudgedFile(
        found=Imported(history=history, form="operations", keyed=True),
        judgement=msgspec.structs.replace(judgement, verdicts=(shown,)),
        file=file_facts(path),
        command=shlex.join([*words, "--report", f"again-{output.name}"]),
        whole=Whole(operations=figures["operations"], keys=figures["keys"]),
    )
    write_page(output, judged)


def _shown(path: Path, verdict: Verdict) -> ImportedHistory:
    """The keys of the witnesses as one history; without those of too many rows."""
    table = TableFile(path)
    keys = [int(witness.key.removeprefix("key ")) for witness in verdict.witnesses if witness.key is not None]
    left, chosen = _ROWS_MAX, list[int]()
    for key in keys:
        rows = table.count(key)
        if rows <= left:
            chosen.append(key)
            left -= rows
    events = events_of(table.read(chosen)) if chosen else []
    return ImportedHistory(events, FAMILIES["cas-register"], source=f"{path} ({GUARANTEE})")
