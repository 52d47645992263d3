"""`etcd-kv`: keys whose writes have revisions, as etcd answers them.

Judged is linearizability of a store that also answers with its numbers: every write has a revision of its own, greater
than all that was answered before it was invoked; a read shows the newest version at its header's revision, which is no
older than anything answered before; a version counts the writes since the key was created. A serializable read may be
late, but is the state of some revision. A Txn does all that it does at one
revision, and its compares hold just before it.
Source: etcd's API reference, "KV API guarantees" and "Revisions".
"""

from typing import Final

from fencepost.checkers.storage.kv.acts import Condition, Dialect, Kind
from fencepost.checkers.storage.kv.judging import judged
from fencepost.harness.history import History
from fencepost.harness.verdict import Facts, Verdict

ETCD: Final = Dialect(
    name="etcd-kv",
    number="revision",
    made="mod-revision",
    created="create-revision",
    sign="serializable",
    others=frozenset({"deleted"}),
    conditions={"mod-revision": Condition.MADE, "version": Condition.VERSION},
    functions={
        "read": Kind.READ,
        "write": Kind.PUT,
        "put": Kind.PUT,
        "cas": Kind.PUT,
        "create": Kind.PUT,
        "delete": Kind.DELETE,
        "txn": Kind.TXN,
    },
    first_version=1,
    current=True,
    empty=1,
)


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge all keys, whose revisions are one order; see `checkers.storage.kv.judging.judged`."""
    return judged(history, facts, ETCD)
