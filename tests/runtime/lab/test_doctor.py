"""What the doctor says of this machine, and of machines that refuse (constructed)."""

import errno
import os
from pathlib import Path

import pytest

from fencepost.harness.base.errors import MachineError
from fencepost.harness.runtime.lab import provider
from fencepost.harness.runtime.linux import namespaces
from tests.lab_scenario import refuse


def test_every_check_says_what_it_found_and_a_failed_one_why_and_what_to_do() -> None:
    checks = provider.lab_checks()
    names = [check.name for check in checks]
    assert len(set(names)) == len(names)
    for check in checks:
        assert check.state
        assert check.ok == (check.why is None)
        assert check.ok == (check.remedy is None)


def test_this_machine_has_all_that_the_lab_does() -> None:
    missing = [f"{check.name}: {check.why}; remedy: {check.remedy}" for check in provider.lab_checks() if not check.ok]
    refuse("; ".join(missing) or None)
    provider.refuse_if_impossible()
    names = {check.name for check in provider.lab_checks()}
    assert {name for name, _ in provider._STEPS.values()} <= names


def test_a_disk_that_is_too_small_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(provider, "_FREE_DISK_MIN", 1 << 62)
    (check,) = [check for check in provider.lab_checks(tmp_path / "not" / "there") if check.name == "disk"]
    assert not check.ok
    assert str(tmp_path) in check.state


@pytest.mark.parametrize(
    ("setting", "value", "uid", "blamed"),
    [
        ("kernel.unprivileged_userns_clone", "0", 1000, True),
        ("user.max_user_namespaces", "0", 1000, True),
        ("user.max_user_namespaces", "15000", 1000, False),
        ("kernel.apparmor_restrict_unprivileged_userns", "1", 1000, True),
        ("kernel.apparmor_restrict_unprivileged_userns", "1", 0, False),
        ("kernel.apparmor_restrict_unprivileged_userns", "0", 1000, False),
    ],
)
def test_the_guilty_setting_is_named(
    monkeypatch: pytest.MonkeyPatch, setting: str, value: str, uid: int, blamed: bool
) -> None:
    def read(path: Path) -> str:
        if path == Path("/proc/sys", *setting.split(".")):
            return f"{value}\n"
        raise FileNotFoundError(errno.ENOENT, "none", str(path))

    monkeypatch.setattr(Path, "read_text", read)
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(namespaces, "in_container", lambda: False)
    reason, remedy = namespaces.why_refused(OSError(errno.EPERM, "Operation not permitted"))
    assert (f"{setting}={value}" in reason) == blamed
    assert (f"sysctl -w {setting}=" in remedy) == blamed


def test_a_container_is_told_how_to_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "guilty_settings", list)
    monkeypatch.setattr(namespaces, "in_container", lambda: True)
    _, remedy = namespaces.why_refused(OSError(errno.EPERM, "Operation not permitted"))
    assert "--security-opt seccomp=unconfined" in remedy


def test_a_machine_that_is_too_slow_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    provider._trial.cache_clear()
    monkeypatch.setattr(provider, "_ATTEMPT_TIMEOUT_S", 0.001)
    with pytest.raises(MachineError, match=r"cannot run the lab: trial of the lab: this machine is too busy") as raised:
        provider.refuse_if_impossible()
    assert raised.value.hint == "end other programs on it, then try again"
    assert not provider._trial.cache_info().currsize, "it is tried again"
