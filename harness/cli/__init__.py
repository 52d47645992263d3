"""The command line: `fencepost run|campaign|check|report|warehouse|failover|demo|list|doctor`.

Exit codes: 0 valid, 1 invalid, 2 unknown, 130 stopped by hand (twice, or before the start), 254 found wrong before the
cluster starts, 255 the harness or the cluster's start failed. click itself would exit 2 on a typo, which reads as
unknown; so every click error is mapped here. A person's mistake gets a message and a hint; ours gets a traceback too.
"""

import io
import sys

#: `ExitCode.STOPPED`, for a Ctrl-C that comes before that is imported.
_STOPPED = 130


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    try:
        return _main(arguments)
    except KeyboardInterrupt:
        # While modules were imported, or in a command that runs no cluster: there is nothing to heal.
        sys.stderr.write("\nstopped\n")
        return _STOPPED


def _main(arguments: list[str] | None) -> int:
    import traceback

    import click

    from fencepost.harness.base.errors import ExitCode, FencepostError
    from fencepost.harness.base.stop_request import StoppedTwice
    from fencepost.harness.cli.app import app

    _escape_unknown_characters()
    try:
        code = app.main(arguments, prog_name="fencepost", standalone_mode=False)
    except FencepostError as error:
        _complain(error.message, error.hint)
        return int(error.exit_code)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f"`{context.command_path} --help` lists the options, with examples" if context else None
        _complain(error.format_message(), hint)
        return int(ExitCode.USAGE)
    except StoppedTwice:
        sys.stderr.write("\nstopped; everything is healed and gone\n")
        return int(ExitCode.STOPPED)
    except click.Abort:
        raise KeyboardInterrupt from None
    except BrokenPipeError:
        return int(ExitCode.INTERNAL)
    except Exception as error:
        from subprocess import TimeoutExpired

        from fencepost.harness.plugins import offers

        if isinstance(error, TimeoutExpired):
            program = error.cmd if isinstance(error.cmd, str) else " ".join(map(str, error.cmd))
            _complain(
                f"this machine is too busy: {program} took over {error.timeout:g} s",
                "end other programs on it, then try again",
            )
            return int(ExitCode.INTERNAL)
        blame = offers.blamed(error)
        if blame is not None:
            _complain(blame, "correct the plug-in, or leave it out; `fencepost list plugins` shows them")
            return int(ExitCode.USAGE)
        traceback.print_exc()
        _complain(
            f"fencepost failed: {type(error).__name__}: {error}",
            "this is a defect of fencepost; please report it with the run's folder",
        )
        return int(ExitCode.INTERNAL)
    return int(code or 0)


def _escape_unknown_characters() -> None:
    """A value that the output's encoding does not know must not cost the verdict: it is written as an escape."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _complain(message: str, hint: str | None) -> None:
    sys.stderr.write(f"error: {message}\n")
    if hint:
        sys.stderr.write(f"hint: {hint}\n")
