"""Commands as fencepost prints them: each can be pasted into a shell."""

import shlex


def command_line(*arguments: object) -> str:
    """Return the `fencepost` command of these arguments, each quoted where a shell would take it apart."""
    return shlex.join(["fencepost", *map(str, arguments)])
