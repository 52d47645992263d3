"""Which changes of release a running cluster of Consul allows.

An upgrade may jump over one minor release, not more ("each upgrade should jump at most 2 major versions", in whose
words 1.12 and 1.13 are major versions). Nothing is said of servers that go back, so fencepost does not try that.

Source: developer.hashicorp.com/consul/docs/upgrading/instructions.
"""

from typing import Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract.releases import minor

_JUMP_MAX: Final = 2


def refuse_change(start: str, to: str, *, back: bool) -> Refusal | None:
    """Why servers cannot change from release `start` to `to` one by one; None when they can.

    `back` says whether they return to `start` once all have changed.
    """
    old, new = minor(start), minor(to)
    if old is None or new is None or old == new:
        return None
    if new < old or back:
        return Refusal(
            "Consul's manual allows servers to go to a later release only", "choose a later one, and leave out back=yes"
        )
    if new[0] != old[0] or new[1] > old[1] + _JUMP_MAX:
        return Refusal(
            f"an upgrade of Consul jumps at most {_JUMP_MAX} minor releases",
            f"from {start} choose up to {old[0]}.{old[1] + _JUMP_MAX}.x",
        )
    return None
