"""How long a node that reports to nobody still counts as alive, by the system's own rules."""

import msgspec


def judged_limit_ns(bound_ns: int) -> int:
    """Return the running time from which on a bound is judged to be broken: half as much again, and a second."""
    return bound_ns * 3 // 2 + 1_000_000_000


class SessionBound(msgspec.Struct, frozen=True, kw_only=True):
    """A node keeps a session (Kafka's brokers do); who holds it fences the node when the session ends.

    `nodes` are these nodes, by the ids that they have in the system. `session_ns` is the session's length.
    `held_by_leader`: the leader of the voters holds the sessions, and begins them again when it is elected; else
    the voters hold them.
    """

    nodes: dict[str, int]
    session_ns: int
    held_by_leader: bool
    source: str

    @property
    def limit_ns(self) -> int:
        """Running time from which on a broker should be fenced: half as much again as its session, and a second."""
        return judged_limit_ns(self.session_ns)
