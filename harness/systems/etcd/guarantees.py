"""What etcd promises, what people rely on beyond it, and where each is written."""

from typing import Final

from fencepost.harness.systems.etcd.lease_guarantees import LEASE_GUARANTEES
from fencepost.harness.verdict import Guarantee, Standing

_API: Final = "etcd.io/docs/v3.5/learning/api_guarantees"
_JEPSEN: Final = "Jepsen found that such locks do not exclude: etcd 3.4.3 (2020), jepsen.io/analyses/etcd-3.4.3"
_RAFT: Final = "Ongaro & Ousterhout, In Search of an Understandable Consensus Algorithm (2014), figure 3"

CHECK_QUORUM: Final = (
    "etcd raft CheckQuorum (raft.Config.CheckQuorum, set by etcdserver): a leader looks once per election time-out"
    " whether a quorum was heard since its last look, and steps down if not; so it may claim for just under 2 election"
    " time-outs and a tick after it is cut off"
)

GUARANTEES: Final = (
    Guarantee(
        name="linearizable",
        standing=Standing.PROMISED,
        text="Key-value operations take effect in one total order that agrees with real time.",
        source=f"{_API}, section Strict serializability",
        known_issue="etcd#13766: 3.5.0 to 3.5.2 may lose applied entries when a member is killed under load",
    ),
    Guarantee(
        name="no-lost-acknowledged-writes",
        standing=Standing.PROMISED,
        text="A write that was acknowledged is durable.",
        source=f"{_API}, section Durability",
        known_issue="etcd#13766: 3.5.0 to 3.5.2 may lose applied entries when a member is killed under load",
    ),
    Guarantee(
        name="fenced-lock",
        standing=Standing.PROMISED,
        text="A write in a transaction that compares the lock key's create revision is refused once the lock is lost.",
        source=f"{_API}, section Strict serializability: transactions are atomic",
    ),
    Guarantee(
        name="lock-mutual-exclusion",
        standing=Standing.RELIED_UPON,
        text="At most one client at a time believes that it holds a lock bound to a lease.",
        source=f"{_API}, section Lease APIs; etcd.io/docs/v3.5/learning/why, notes on the usage of lock and lease",
        known_issue=f"a holder that is paused past its lease goes on believing; {_JEPSEN}",
    ),
    Guarantee(
        name="one-acting-leader",
        standing=Standing.PROMISED,
        text="What a leader does in transactions that compare its key's create revision takes effect in its term only.",
        source=f"{_API}, section Strict serializability: transactions are atomic, in one order of revisions",
    ),
    Guarantee(
        name="terms-grow",
        standing=Standing.PROMISED,
        text="Each leader's key is created at a revision above those of all leaders before it.",
        source=f"{_API}, section Revision: every change of the store has a greater revision than the one before",
    ),
    Guarantee(
        name="one-believed-leader",
        standing=Standing.RELIED_UPON,
        text="At most one candidate at a time believes that it leads.",
        source="etcd.io/docs/v3.5/learning/why, notes on the usage of lock and lease",
        known_issue=f"a leader that stalls past its lease goes on believing; {_JEPSEN}",
    ),
    Guarantee(
        name="leader-self-fencing",
        standing=Standing.PROMISED,
        text="A leader that is cut off from every majority stops claiming to lead within a bound.",
        source=CHECK_QUORUM,
    ),
    Guarantee(
        name="one-leader-per-epoch",
        standing=Standing.PROMISED,
        text="At most one member leads in a term.",
        source=f"{_RAFT}, Election Safety",
    ),
    Guarantee(
        name="superseded-leader-does-not-act",
        standing=Standing.PROMISED,
        text="A leader whose term is over acknowledges no write and answers no linearizable read from its old state.",
        source=f"{_API}, section Strict serializability; reads confirm leadership as in Ongaro's thesis (2014), 6.4",
    ),
    Guarantee(
        name="session-order",
        standing=Standing.MEASURED,
        text="Serializable reads of one connection never go back to an older revision.",
        source=f"{_API}: serializable reads may be stale; nothing is said of their order",
    ),
    *LEASE_GUARANTEES,
)
