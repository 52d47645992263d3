"""What the example promises: everything that Raft promises, so that each of its defects breaks a guarantee."""

from typing import Final

from fencepost.harness.contract.membership_guarantees import Source, membership_guarantees
from fencepost.harness.contract.storage_guarantees import storage_guarantees
from fencepost.harness.verdict import Guarantee, Standing

_RAFT: Final = "Ongaro & Ousterhout, In Search of an Understandable Consensus Algorithm (2014)"


def _promised(name: str, text: str, source: str) -> Guarantee:
    return Guarantee(name=name, standing=Standing.PROMISED, text=text, source=f"{_RAFT}, {source}")


_LEASE: Final = "a leader ends no lease before it has counted its time to live since the last keep-alive in the log"
_SERVER: Final = "systems/example/server.py"


def _of_leases(name: str, text: str, source: str = f"{_SERVER}: {_LEASE}") -> Guarantee:
    return Guarantee(name=name, standing=Standing.PROMISED, text=text, source=source)


_GROUPS: Final = membership_guarantees(
    {
        "one-member-per-id": Source(Standing.PROMISED, f"{_RAFT}, section 8"),
        "joined-member-listed": Source(Standing.PROMISED, f"{_RAFT}, section 8"),
        "leave-ends-own-membership": Source(Standing.PROMISED, f"{_SERVER}: the end of a lease deletes its keys"),
        "renewing-member-stays": Source(Standing.PROMISED, f"{_SERVER}: {_LEASE}"),
        "silent-member-goes": Source(Standing.PROMISED, f"{_SERVER}: the leader looks ten times per election time-out"),
        "member-data-belongs": Source(Standing.PROMISED, f"{_RAFT}, section 8"),
        "member-lists-in-order": Source(Standing.PROMISED, "a node applies its log in order"),
        "group-listener-converges": Source(Standing.RELIED_UPON, "the client lists again and again"),
    }
)

GUARANTEES: Final = (
    _promised("linearizable", "Operations take effect in one order that agrees with real time.", "section 8"),
    _promised("no-lost-acknowledged-writes", "An acknowledged write is durable.", "Leader Completeness"),
    _promised(
        "leader-self-fencing", "A leader that hears from no majority steps down within a bounded time.", "section 6.2"
    ),
    _promised("one-leader-per-epoch", "At most one node leads in a term.", "Election Safety"),
    _promised(
        "superseded-leader-does-not-act",
        "A leader whose term is over acknowledges no write and answers no current read from its old state.",
        "section 8",
    ),
    Guarantee(
        name="session-order",
        standing=Standing.MEASURED,
        text="Plain reads on one connection never go back to an older position.",
        source="a node applies its log in order, and starts again with nothing applied",
    ),
    _of_leases("live-lease-lives", "A lease that is kept alive within its time to live does not end."),
    _of_leases("answered-keep-alive-counts", "An answered keep-alive counts: it stands in the log."),
    _of_leases("expired-lease-ends", "A lease that nobody keeps alive ends soon after its time to live."),
    _of_leases(
        "ended-lease-stays-ended", "After the end of a lease no current read shows its key.", f"{_RAFT}, section 8"
    ),
    _of_leases(
        "no-keep-alive-of-the-dead", "After the end of a lease no keep-alive of it is answered.", f"{_RAFT}, section 8"
    ),
    *_GROUPS,
    *storage_guarantees(puts=Source(Standing.PROMISED, f"{_RAFT}, section 8")),
)
