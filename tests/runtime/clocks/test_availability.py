"""Why clocks cannot be skewed on a machine: each reason with its remedy, before a run begins."""

from pathlib import Path

import pytest

from fencepost.harness.runtime.clocks import availability, machine_code, process, vdso
from fencepost.harness.runtime.clocks.memory import ClockError, Memory
from fencepost.harness.runtime.provider import Placement

LAB = Placement()


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without Yama; what else is wrong with it is the test's."""
    monkeypatch.setattr(availability, "_YAMA", tmp_path / "absent")


def test_another_processor_has_no_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "ARCHITECTURE_HERE", "aarch64")
    refusal = availability.why_not(LAB)
    assert refusal is not None
    assert "no machine code for aarch64" in refusal.reason
    assert refusal.remedy == "run on an x86-64 kernel whose vDSO has room"


def test_a_full_vdso_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "ARCHITECTURE_HERE", machine_code.ARCHITECTURE)

    def full(*_: object) -> int:
        raise ClockError("its vDSO has no 880 unused bytes: 12 are left")

    monkeypatch.setattr(vdso.VdsoImage, "room_for", full)
    assert "12 are left" in str(availability.why_not(LAB))


@pytest.mark.parametrize(("scope", "refused"), [("3\n", True), ("0\n", False), ("1\n", False)])
def test_yama_may_forbid_tracing_to_everybody(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scope: str, refused: bool
) -> None:
    monkeypatch.setattr(availability, "why_not_here", lambda: None)
    monkeypatch.setattr(availability, "_why_no_writing", lambda: None)
    monkeypatch.setattr(availability, "_YAMA", tmp_path / "scope")
    (tmp_path / "scope").write_text(scope)
    assert ("ptrace_scope=3" in str(availability.why_not(LAB))) is refused


def test_a_kernel_that_forbids_writing_is_found_by_trying(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(availability, "why_not_here", lambda: None)

    def refuse(self: Memory, at: int, data: bytes) -> None:
        raise ClockError("memory of process 1 at 0x1: Input/output error")

    monkeypatch.setattr(Memory, "write", refuse)
    assert "proc_mem.force_override=always" in str(availability.why_not(LAB))


@pytest.mark.skipif(process.why_not_here() is not None, reason=str(process.why_not_here()))
def test_this_machine_can() -> None:
    assert availability.why_not(LAB) is None
