"""The catalogue of planted bugs: what each one does, in which runs it shows, and what a checker must call it.

Each entry must be caught within ten seeds, by one of its anomalies; the fake without a bug must pass every such run.
"""

from typing import Any, Final

import msgspec


class PlantedBug(msgspec.Struct, frozen=True, kw_only=True):
    """`anomalies`, as checker:name: it is caught when an invalid verdict of this checker names one of them."""

    about: str
    workload: str
    anomalies: frozenset[str]
    options: dict[str, Any] = {}
    faults: tuple[str, ...] = ()


def _bug(workload: str, about: str, *anomalies: str, faults: tuple[str, ...] = (), **options: Any) -> PlantedBug:
    return PlantedBug(about=about, workload=workload, anomalies=frozenset(anomalies), options=options, faults=faults)


#: Run options of each workload under the fake; a bug's own come on top.
OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "register": {"seldom_per_node": 1, "seldom_every": "700ms"},
    "set": {"members_every": "400ms"},
    "lock": {"stall": "400ms", "stall_one_in": 6},
    "storage": {"rate": 500.0},
}

BUGS: Final = {
    "double-create": _bug("storage", "one put in ten does not see that the key exists", "storage:double-create"),
    "update-creates": _bug("storage", "one update in ten writes where there is no key", "storage:update-created"),
    "update-blind": _bug("storage", "one update in ten does not see that the key exists", "storage:denied-present-key"),
    "no-compare": _bug(
        "storage", "none: an update compares nothing, so two of one value are acknowledged", "storage:lost-update"
    ),
    "put-remembered": _bug(
        "storage",
        "a put of unknown outcome never stores its value, and later ones are told that the key exists",
        "storage:unexplained-conflict",
    ),
    "lost-write": _bug("register", "one acknowledged write in fifty is dropped", "linearizable:lost-write"),
    "stale-read": _bug("register", "n2 answers strong reads from its own copy, which lags", "linearizable:stale-read"),
    "phantom-write": _bug(
        "register", "one write in fifty is refused definitely, and takes effect", "linearizable:phantom-read"
    ),
    "double-apply": _bug(
        "register",
        "a write whose reply was lost is applied a second time, some operations later",
        "linearizable:stale-read",
        "linearizable:lost-write",
    ),
    "late-effect": _bug(
        "register",
        "one write in twenty is given up with an answer, and takes effect up to 800 ms later",
        "late-effects:late-effect",
        keys=40,
    ),
    "cas-ignores-old": _bug("register", "one compare-and-set in five does not compare", "linearizable:cas-stale-read"),
    "small-values-lost-write": _bug(
        "register", "as lost-write, where five values meet often", "linearizable:stale-read", values="small", keys=2
    ),
    "session-goes-back": _bug(
        "register",
        "one plain read in twenty is answered by another copy, which is further behind",
        "session-order:position-went-back",
        reads="plain",
    ),
    "skipped-write": _bug(
        "register",
        "n3's copy misses one write in fifty for ever, and goes on",
        "session-order:skipped-write",
        reads="plain",
    ),
    "dirty-restart": _bug(
        "register",
        "what was acknowledged in the last 50 ms before the leader's kill is gone",
        "linearizable:stale-read",
        faults=("kill",),
    ),
    "zombie-answer": _bug(
        "register",
        "a leader that was paused answers strong reads from its old state when it wakes",
        "leadership:stale-answer-by-superseded-leader",
        faults=("pause",),
        seldom_per_node=6,
    ),
    "zombie-stamp": _bug(
        "register",
        "a leader that was paused acknowledges writes in its old epoch when it wakes",
        "leadership:stamped-effect",
        faults=("pause",),
        active_per_node=8,
        rate=600.0,
    ),
    "two-values": _bug(
        "register",
        "one plain read in twenty tells another value of the same position",
        "session-order:two-values",
        reads="plain",
    ),
    "early-position": _bug(
        "register",
        "one write in forty is acknowledged at a position before its own",
        "session-order:write-order",
        reads="plain",
    ),
    "set-zombie-stamp": _bug(
        "set",
        "a leader that was paused acknowledges adds in its old epoch when it wakes, and they are seen",
        "leadership:stamped-effect",
        faults=("pause",),
    ),
    "set-lost-element": _bug("set", "one acknowledged add in fifty is dropped", "set:lost-write"),
    "set-phantom-element": _bug(
        "set", "one add in fifty is refused definitely, and takes effect", "set:phantom-element"
    ),
    "set-resurrected-element": _bug("set", "elements vanish for a while and come back", "set:lost-after-seen"),
    "set-dirty-restart": _bug(
        "set",
        "what was acknowledged in the last 50 ms before the leader's kill is gone",
        "set:lost-write",
        faults=("kill",),
    ),
    "zombie-write": _bug(
        "set",
        "a leader that was paused acknowledges adds when it wakes, and nobody else ever hears of them",
        "leadership:lost-acknowledgement",
        faults=("pause",),
    ),
    "double-grant": _bug(
        "lock", "one lock request in ten is granted though another holds it, with the same token", "lock:token-order"
    ),
    "double-grant-unfenced": _bug(
        "lock",
        "the same, where the guarded resource knows nothing of the lock",
        "lock:two-holders",
        fencing="off",
        stall_one_in=1000000,
    ),
    "fencing-ignored": _bug(
        "lock", "guarded writes are taken from holders that have lost the lock", "lock:stale-token-accepted"
    ),
    "token-goes-back": _bug(
        "lock", "one grant in three has a token smaller than the one before it", "lock:token-order"
    ),
}
