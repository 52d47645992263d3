"""The side-car's agent without a container: real rules and real probes in the namespaces of a lab."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.harness.runtime.containers.rules.agent_connection import Frames
from tests.lab_scenario import run_scenario

HERE = "tests.runtime.containers.agent_scenarios"


@pytest.mark.parametrize("uvloop", [False, True])
def test_every_shape_is_enforced_proven_and_undone(uvloop: bool) -> None:
    assert run_scenario(f"{HERE}:shapes", uvloop=uvloop) == {"wrong": [], "codes": [0, 0, 0]}


def test_no_probe_is_mistaken_for_another_kind_of_datagram() -> None:
    assert run_scenario(f"{HERE}:many_probes", nodes=2) == 0


def test_what_is_refused_and_who_has_died_is_told() -> None:
    found = run_scenario(f"{HERE}:misfortunes")
    assert found["nothing known"] == "the side-car of n1 refused: not understood: KeyError('dance')"
    assert "the side-car of n1 refused" in found["set wrong"]
    assert "the side-car of n1 refused" in found["no table"]
    assert found["still"] == ["n2>n1"]
    assert "the side-car of n3 has ended" in found["died"]
    assert found["put back"] == []
    assert "n3" in found["healed"]


def test_an_agent_that_is_late_is_named_and_nothing_is_left_of_the_fault() -> None:
    # On a busy machine one that was not stopped may be late too; then everybody is given longer.
    for timeout_s in (0.3, 2, 10):
        found = run_scenario(f"{HERE}:late", {"timeout_s": timeout_s})
        if "n3" not in found["said"]:
            break
    assert f"the side-car of n2 did not answer within {timeout_s} s" in found["said"]
    assert "n3" not in found["said"]
    assert found["left"] == found["blocked"] == 0


def test_an_image_of_another_version_is_refused() -> None:
    assert "image has version 2, the harness 3" in run_scenario(f"{HERE}:other_version", nodes=1)


_AGENT = (sys.executable, "-S", "-m", "fencepost.harness.runtime.containers.rules.sidecar_agent")
_ROOT = Path(__file__).resolve().parents[3]


def test_it_ends_when_its_stdin_does() -> None:
    assert subprocess.run(_AGENT, check=False, cwd=_ROOT, input=b"", timeout=60).returncode == 0


def test_it_ends_when_a_socket_is_closed_that_holds_its_answer_unread() -> None:
    ours, theirs = socket.socketpair()
    with subprocess.Popen(_AGENT, cwd=_ROOT, stdin=theirs.fileno(), stdout=theirs.fileno()) as agent:
        theirs.close()
        ours.sendall(b'{"id": 1, "do": "dance"}\n')
        ours.settimeout(60)
        assert ours.recv(1, socket.MSG_PEEK)
        ours.close()
        assert agent.wait(60) == 0


def test_links_are_slow_in_the_side_cars() -> None:
    ours = ["client>n1", "n1>client", "n1>n2"]
    assert run_scenario(f"{HERE}:slow_links") == [
        True,
        ours,
        ["client>n1"],
        ["n1>client"],
        True,
        "the side-car of n2 refused: shaper, a process of the side-car, has ended",
        True,
        1,
        ["n1-n2"],
        [],
    ]


@pytest.mark.parametrize("size", [1, 3, 8, 9, 1000])
def test_frames_are_found_however_they_are_cut(size: int) -> None:
    stream = b"\x01\0\0\0\0\0\0\x05hello\x02\0\0\0\0\0\0\x00\x01\0\0\0\0\0\0\x03abc"
    frames = Frames()
    found = [frame for at in range(0, len(stream), size) for frame in frames.feed(stream[at : at + size])]
    assert found == [(1, b"hello"), (2, b""), (1, b"abc")]
