"""The command line: `fencepost COMMAND`; `commands()` in `app.py` names them all.

Exit codes: 0 valid, 1 invalid, 2 unknown, 130 stopped by hand (twice, or before the start), 254 found wrong before the
cluster starts, 255 the harness or the cluster's start failed. Python and click would exit 1 or 2 on their own errors,
which read as invalid and unknown. So 0, 1 and 2 are only what a command returned; every other way out is mapped here.
A person's mistake gets a message and a hint; ours gets a traceback too.
"""

import os
import sys

#: `ExitCode.STOPPED`, `USAGE` and `INTERNAL`, for what comes before that is imported.
_STOPPED = 130
_USAGE = 254
_INTERNAL = 255


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    # No command needs more: each thread of OpenBLAS takes memory when numpy is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        if arguments is None:
            from fencepost.harness.base.exit_guard import guard

            guard()
        from fencepost.harness.base.streams import output_failure, protect

        protect()
        try:
            code = _main(sys.argv[1:] if arguments is None else arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            code = _explain(error)
        lost = output_failure()
        if lost is not None:
            _say(f"warning: standard output is incomplete: {lost.strerror}; the exit code stands\n")
    except KeyboardInterrupt:
        # While modules were imported, or in a command that runs no cluster: there is nothing to heal.
        _say("\nstopped\n")
        return _STOPPED
    except BaseException as error:
        # What explains errors cannot be imported.
        if _names_foreign(error):
            return _USAGE
        _say(f"error: fencepost failed: {type(error).__name__}: {error}\nhint: install fencepost again\n")
        return _INTERNAL
    return code


def _main(arguments: list[str]) -> int:
    import click
    from click.shell_completion import shell_complete

    from fencepost.harness.base.errors import ExitCode, FencepostError
    from fencepost.harness.base.signals import StoppedTwice
    from fencepost.harness.cli.app import app

    instruction = os.environ.get("_FENCEPOST_COMPLETE")
    if instruction:
        return _INTERNAL if shell_complete(app, {}, "fencepost", "_FENCEPOST_COMPLETE", instruction) else 0
    try:
        # Not `app.main`: it takes an EOFError for Ctrl-C, and exits 1 when a pipe to any process breaks.
        with app.make_context("fencepost", list(arguments)) as context:
            return ExitCode(app.invoke(context))
    except click.exceptions.Exit as done:
        # `--help` and `--version`; no command of ours ends this way.
        return ExitCode.INTERNAL if done.exit_code else ExitCode.VALID
    except FencepostError as error:
        _complain(error.message, error.hint)
        return error.exit_code
    except click.ClickException as error:
        blamed = getattr(error, "ctx", None)
        hint = f"`{blamed.command_path} --help` lists the options, with examples" if blamed else None
        _complain(error.format_message(), hint)
        return ExitCode.USAGE
    except StoppedTwice as stopped:
        _say("\n".join(["", "stopped; everything is healed and gone", *stopped.args, ""]))
        return ExitCode.STOPPED
    except click.Abort:
        raise KeyboardInterrupt from None


def _explain(error: BaseException) -> int:
    """Say what an exception that no command foresaw comes from: a foreign file, this machine, a plug-in, or us."""
    if _names_foreign(error):
        return _USAGE

    import errno
    import traceback
    from subprocess import TimeoutExpired

    from fencepost.harness.base.errors import ExitCode, lacking

    missing = lacking(error)
    if missing is not None:
        _complain(missing.message, missing.hint)
        return missing.exit_code
    if isinstance(error, TimeoutExpired):
        program = error.cmd if isinstance(error.cmd, str) else " ".join(map(str, error.cmd))
        _complain(
            f"this machine is too busy: {program} took over {error.timeout:g} s",
            "end other programs on it, then try again",
        )
        return ExitCode.INTERNAL
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        _complain(f"{error.filename or 'a file'}: {error.strerror}", "make room there, or give another folder")
        return ExitCode.INTERNAL

    from fencepost.harness.base import offers

    blame = offers.blamed(error)
    if blame is not None:
        _complain(blame, "correct the plug-in, or leave it out; `fencepost list plugins` shows them")
        return ExitCode.USAGE
    traceback.print_exception(error)
    _complain(
        f"fencepost failed: {type(error).__name__}: {error}",
        "this is a defect of fencepost; please report it with the run's folder",
    )
    return ExitCode.INTERNAL


def _names_foreign(error: BaseException) -> bool:
    """Name the foreign file that an error comes from; False where none does. Imports only what Python starts with."""
    try:
        from fencepost.harness.base.shadowing import shadowing_file

        shadow = shadowing_file(error)
    except BaseException:
        # It cannot be imported either.
        return False
    if shadow is None:
        return False
    foreign, hidden = shadow
    _complain(
        f"{foreign} is imported in place of {hidden}: {type(error).__name__}: {error}",
        "rename it, or take its folder off PYTHONPATH; with `python -m`, start from another folder",
    )
    return True


def _complain(message: str, hint: str | None) -> None:
    _say(f"error: {message}\n" + (f"hint: {hint}\n" if hint else ""))


def _say(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(text)
