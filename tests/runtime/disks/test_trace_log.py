"""The tracer's log, read as strace writes it, also while it is being written."""

import pytest

from fencepost.harness.runtime.disks.trace_log import read_calls

WAL = "/data/0.wal"
WHOLE = f"9  fdatasync(7<{WAL}>) = 0 (DELAYED) <0.100335>\n"
HELD = f'9  write(7<{WAL}>, ""..., 100'


def test_delayed_and_failed_calls_are_counted_and_timed() -> None:
    calls = read_calls(WHOLE + f"12    fsync(7<{WAL}>)      = -1 EIO (Input/output error) (INJECTED) <0.000011>\n")
    assert calls.affected == {"fdatasync": 1, "fsync": 1}
    assert calls.count == 2
    assert calls.took_s == [0.100335]
    assert calls.unreturned == []


def test_calls_that_went_through_untouched_are_not() -> None:
    assert read_calls(f"9  fdatasync(7<{WAL}>) = 0 <0.000010>\n").count == 0


def test_a_call_that_another_thread_interrupts_is_one_call() -> None:
    calls = read_calls(
        f"{HELD} <unfinished ...>\n"
        f'10 pwrite64(8</data/db>, ""..., 4096, 0) = 4096 (DELAYED) <0.02>\n'
        "9  <... write resumed>) = 100 (DELAYED) <0.200000>\n"
    )
    assert calls.affected == {"write": 1, "pwrite64": 1}
    assert calls.took_s == [0.02, 0.2]
    assert calls.unreturned == []


@pytest.mark.parametrize(
    "end",
    [
        "",
        " <unfinished ...>\n",
        ") = ?\n",
        " <unfinished ...>\n9  <... write resumed>) = ?\n9  +++ killed by SIGKILL +++\n",
    ],
)
def test_a_call_that_never_returned_is_told_with_its_file(end: str) -> None:
    assert read_calls(WHOLE + HELD + end).unreturned == [("write", WAL)]


def test_signals_and_ends_of_threads_are_no_calls() -> None:
    calls = read_calls("12    --- SIGURG {si_signo=SIGURG, si_code=SI_TKILL} ---\n8     +++ exited with 0 +++\n")
    assert calls.count == 0
    assert calls.unreturned == []
