"""Errors of several tasks at once."""

from fencepost.harness.base.errors import ExitCode, HarnessError, MachineError, first_failure


def test_of_a_group_the_first_error_that_says_what_to_do_is_told() -> None:
    refused = HarnessError("node n3 cannot be started", hint="look at its command")
    group = ExceptionGroup("2 tasks", [OSError("broken"), ExceptionGroup("1 task", [refused])])
    assert first_failure(group) is refused


def test_an_error_that_nobody_foresaw_is_told_by_its_name() -> None:
    failure = first_failure(ExceptionGroup("1 task", [ValueError("strange")]))
    assert (failure.message, failure.exit_code) == ("ValueError: strange", ExitCode.INTERNAL)
    assert first_failure(MachineError("no")).exit_code is ExitCode.USAGE
