"""`zookeeper-kv`: znodes whose writes have zxids, as ZooKeeper answers them.

Judged is ordered sequential consistency: writes are linearizable in the order of their zxids; a session sees the states
of the store in that order, never back, though perhaps late; and a read behind a `sync` of the same session shows
every write that was acknowledged before the `sync` was invoked. A leader that was superseded and does not know it yet
answers `sync` and read from what it has (ZOOKEEPER-1675), so that the last of these is known to break.
Source: ZooKeeper Programmer's Guide, "Consistency Guarantees"; Lev-Ari et al., "Composing Ordered Sequential
Consistency" (2017).
"""

from typing import Final

from fencepost.checkers.storage.kv.acts import Condition, Dialect, Kind
from fencepost.checkers.storage.kv.judging import judged
from fencepost.harness.history import History
from fencepost.harness.verdict import Facts, Verdict

ZOOKEEPER: Final = Dialect(
    name="zookeeper-kv",
    number="zxid",
    made="mzxid",
    created="czxid",
    sign="sync",
    others=frozenset({"pzxid", "session"}),
    conditions={"version": Condition.VERSION},
    functions={
        "read": Kind.READ,
        "write": Kind.PUT,
        "cas": Kind.PUT,
        "create": Kind.PUT,
        "delete": Kind.DELETE,
        "sync": Kind.SYNC,
    },
    first_version=0,
    current=False,
    empty=0,
    write_needs=Condition.PRESENT,
)


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge all znodes, whose zxids are one order; see `checkers.storage.kv.judging.judged`."""
    return judged(history, facts, ZOOKEEPER)
