"""Which runs are made again: those that decide nothing, and never one that is invalid, failed, or an answer."""

import json
from pathlib import Path

import pytest

from tests import run_command
from tests.run_command import why_again

_COVERAGE = {"checker": "coverage", "validity": "unknown", "reason": "8 ok operations", "figures": {}}
_STALLED = {"checker": "leadership", "validity": "unknown", "reason": "the harness stalled for 2 s", "figures": {}}
_DOUBT = {"checker": "leadership", "validity": "unknown", "reason": "nobody was cut off", "figures": {}}
_VALID = {
    "checker": "set",
    "validity": "valid",
    "reason": None,
    "figures": {"loop_lag_ns_max": {"value": 3_000_000, "rows": [7]}},
}


@pytest.mark.parametrize(
    ("code", "verdicts", "every_verdict", "again"),
    [
        (0, [_VALID], False, False),
        (0, [_VALID, _STALLED], False, False),
        (2, [_VALID, _DOUBT], False, True),
        (0, [_VALID, _STALLED], True, True),
        (2, [_VALID, _COVERAGE], True, True),
        (2, [_VALID, _DOUBT], True, False),
        *((code, [_VALID, _COVERAGE], every, False) for code in (1, 130, 254, 255) for every in (False, True)),
    ],
)
def test_a_run_is_made_again_where_it_decides_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    verdicts: list[dict[str, object]],
    every_verdict: bool,
    again: bool,
) -> None:
    told: list[str] = []
    monkeypatch.setattr(run_command, "MADE_AGAIN", told)
    folder = tmp_path / "etcd-set" / "20261122"
    folder.mkdir(parents=True)
    (folder / "plan.toml").touch()
    (folder / "verdict.json").write_text(json.dumps({"verdicts": verdicts}))
    why = why_again(tmp_path, code, every_verdict=every_verdict)
    assert bool(why) is again
    assert len(told) == again
    if again:
        assert str(verdicts[-1]["reason"]) in why and "3 ms" in why
        assert told[0].endswith(why) and "test_a_run_is_made_again" in told[0]
