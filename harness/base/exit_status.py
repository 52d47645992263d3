"""How a server process ended, in words."""

import signal


def signal_of(exit_status: int | None) -> str | None:
    """Return the name of the signal that a negative exit status stands for; None for any other."""
    if exit_status is None or exit_status >= 0:
        return None
    number = -exit_status
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def own_end(node: str, exit_status: int | None) -> str:
    """Say how a server that the harness did not end has ended: "n1 ended by itself with exit status 2"."""
    name = signal_of(exit_status)
    if name is not None:
        by_kernel = " (out of memory?)" if name == signal.SIGKILL.name else ""
        return f"{node} was ended by {name}, not by the harness{by_kernel}"
    return f"{node} ended by itself" + ("" if exit_status is None else f" with exit status {exit_status}")
