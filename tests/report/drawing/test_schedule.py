"""A schedule drawn as text, as `fencepost schedule show` prints it."""

from pathlib import Path

import pytest

from fencepost.harness.cli import main
from fencepost.harness.report.drawing.schedule import Band, schedule_lines
from fencepost.harness.report.drawing.terminal import Terminal

S = 10**9


def _band(lane: str, text: str, from_s: float, to_s: float) -> Band:
    return Band(lane=lane, text=text, from_ns=round(from_s * S), to_ns=round(to_s * S))


def test_lanes_share_one_axis() -> None:
    bands = [_band("n1", "kill", 0, 20), _band("n2", "pause", 10, 20), _band("n1", "pause", 15, 18)]
    assert schedule_lines(bands, 20 * S, Terminal(width=44, unicode=False)) == [
        "    0s        5s        10s      15s",
        "n1  | kill --------------------------------|",
        "                                 | paus|",
        "n2                      | pause -----------|",
    ]


@pytest.mark.parametrize("width", [20, 33, 80])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    bands = [_band("leader", "link:latency=200ms", i, i + 3) for i in range(40)]
    assert max(len(line) for line in schedule_lines(bands, 43 * S, Terminal(width=width))) <= width


def test_a_file_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "some.schedule"
    path.write_text("n1 kill 2s..28s\nleader partition:direction=out 3s..4s\n")
    assert main(["schedule", "show", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["leader", "n1"]


def test_a_schedule_without_a_fault_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "some.schedule"
    path.write_text("# nothing yet\n")
    assert main(["schedule", "show", str(path)]) == 254
    assert "no fault stands in it" in capsys.readouterr().err
