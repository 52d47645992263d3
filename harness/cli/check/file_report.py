"""`fencepost check FILE --report`: the page of a judged file, with the consistency models that it rules out."""

import hashlib
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import HarnessError, UsageError, command_line
from fencepost.harness.base.files import check_new, write_new
from fencepost.harness.interchange.formats.imported import Imported
from fencepost.harness.interchange.formats.recognise import JEPSEN_EDN, STANDARD_INPUT
from fencepost.harness.judging.judgement import Judgement
from fencepost.harness.report.judged_file import JudgedFile, ModelRow, render_file
from fencepost.harness.verdict import Validity, Verdict
from fencepost.harness.verdict.consistency_models import MODELS, implied, ruled_out, ruled_out_of_registers
from fencepost.harness.verdict.figures import RULED_OUT

#: The letters of `harness.verdict.consistency_models`.
_SOURCES: Final = {
    "A": "Adya, Weak Consistency (1999)",
    "B": "Bailis et al., Highly Available Transactions (2013)",
    "BE": "Biswas & Enea, On the Complexity of Checking Transactional Consistency (2019)",
    "C": "Cerone, Bernardi & Gotsman, A Framework for Transactional Consistency Models (2015)",
    "CG": "Cerone & Gotsman, Analysing Snapshot Isolation (2016)",
    "D": "Daudjee & Salem, Lazy Database Replication with Snapshot Isolation (2006)",
    "E": "Kingsbury & Alvaro, Elle (2020)",
    "R": "Bailis et al., Scalable Atomic Visibility with RAMP Transactions (2014)",
}
#: By whom the models of `_models_of` are defined.
_MODEL_SOURCES: Final = ". ".join(f"{letters}: {source}" for letters, source in _SOURCES.items())
#: Forms that no file has.
IN_PYTHON: Final = ("rows", "events")
_WHAT: Final = "a report"
_HINT: Final = "give another --report"


def check_report(output: Path) -> None:
    """Raises UsageError when the page could not be written there."""
    check_new(output, what=_WHAT, hint=_HINT)


def write_report(output: Path, imported: Imported, judgement: Judgement, path: Path) -> None:
    """The page, at `output`; raises HarnessError where it, or a section of it, could not be made."""
    judged = JudgedFile(
        imported=imported,
        judgement=judgement,
        file=_file_facts(path),
        command=_command(imported, judgement, path, output),
        models=_models_of(judgement.verdicts),
        sources=_MODEL_SOURCES,
    )
    rendered = render_file(judged)
    try:
        write_new(output, [rendered.html], what=_WHAT, hint=_HINT)
    except UsageError as error:
        # Too late for 254: the verdict has been printed.
        raise HarnessError(f"the report could not be written: {error.message}", hint=error.hint) from None
    if rendered.problems:
        raise HarnessError(f"{output}: parts of the report could not be made: {'; '.join(rendered.problems)}")


def _file_facts(path: Path) -> dict[str, str]:
    """What names the file that was judged: for a folder of Jepsen's its history, for one of part files all of them."""
    parts = sorted(path.glob("*.parquet")) if path.is_dir() and not (path / JEPSEN_EDN).is_file() else []
    if parts:
        return {"file": str(path), "part files": str(len(parts)), "bytes": str(sum(p.stat().st_size for p in parts))}
    path = path / JEPSEN_EDN if (path / JEPSEN_EDN).is_file() else path
    if str(path) == STANDARD_INPUT:
        return {"file": "standard input"}
    if not path.is_file():
        return {"file": str(path)}
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"file": str(path), "bytes": str(path.stat().st_size), "sha256": digest}


def _command(imported: Imported, judgement: Judgement, path: Path, output: Path) -> str:
    if imported.form in IN_PYTHON:
        return f"fencepost.check(history, model={_model(imported)!r})"
    arguments = ["check", str(path), "--format", imported.form, "--model", _model(imported)]
    if imported.form == "edn":
        arguments.append("--keyed" if imported.keyed else "--no-keyed")
    if judgement.facts.read_guarantee not in ("", imported.family.guarantee):
        arguments += ["--consistency", judgement.facts.read_guarantee]
    return command_line(*arguments, "--report", f"again-{output.name}")


def _model(imported: Imported) -> str:
    """As `--model` takes it."""
    family = imported.family
    return f"{family.name}:{family.parameter}" if family.parameter and not family.is_users else family.name


def _models_of(verdicts: tuple[Verdict, ...]) -> tuple[ModelRow, ...]:
    """Every model, with what the history says of it; none unless transactions were judged."""
    verdict = next((v for v in verdicts if RULED_OUT in v.figures), None)
    if verdict is None:
        return ()
    out = set(verdict.figures[RULED_OUT])
    proven = implied(verdict.guarantee) if verdict.validity is Validity.VALID else frozenset()
    rule = ruled_out_of_registers if verdict.checker == "rw-register" else ruled_out
    rows = []
    for model in MODELS:
        because = [name for name in verdict.anomalies if model.name in out and model.name in rule([name])]
        standing = "ruled out" if model.name in out else "kept" if model.name in proven else "not ruled out"
        rows.append(ModelRow(name=model.name, judgement=standing, because=tuple(because), source=model.source))
    return tuple(rows)
