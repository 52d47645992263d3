"""`fencepost check RUN`: verdict, JUnit and report of a stored run, written again."""

import dataclasses
from pathlib import Path

from fencepost.harness.cli.check.second_opinions import (
    OtherTools,
    exit_code,
    question_of_run,
    say_opinions,
    with_opinions,
)
from fencepost.harness.cli.output.outcome import CommandSession, exit_code_of, say_last
from fencepost.harness.plan import read_plan
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.reader import read_history
from fencepost.harness.run.conclude import judge_stored


def judge_again(folder: Path, *, as_json: bool, others: OtherTools | None = None) -> int:
    """Judge a stored run by its plan, then ask the other tools; returns the exit code."""
    run = store.find_run_folder(folder)
    with CommandSession() as session:
        result = judge_stored(run, progress=session.progress)
    seed = read_plan(run / store.PLAN, seed=0).seed
    if others is None:
        say_last(seed, result, as_json=as_json)
        return exit_code_of([result])
    ours = exit_code_of([result])
    opinions = others.opinions(question_of_run(read_history(run), result.judgement))
    document = with_opinions(result.document, opinions, ours)
    say_last(seed, dataclasses.replace(result, document=document), as_json=as_json)
    say_opinions(opinions, as_json=as_json)
    return exit_code(ours, opinions)
