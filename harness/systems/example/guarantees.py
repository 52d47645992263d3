"""What the example promises: everything that Raft promises, so that each of its defects breaks a guarantee."""

from typing import Final

from fencepost.harness.verdict import Guarantee, Standing

_RAFT: Final = "Ongaro & Ousterhout, In Search of an Understandable Consensus Algorithm (2014)"


def _promised(name: str, text: str, source: str) -> Guarantee:
    return Guarantee(name=name, standing=Standing.PROMISED, text=text, source=f"{_RAFT}, {source}")


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
)
