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


#: Run options of each workload under the fake; a bug's own come on top.
OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "register": {"seldom_per_node": 1, "seldom_every": "700ms"},
    "set": {"members_every": "400ms"},
    "lock": {"stall": "400ms", "stall_one_in": 6},
    "storage": {"rate": 500.0},
}

_PLAIN: Final = {"reads": "plain"}

BUGS: Final[dict[str, PlantedBug]] = {
    "double-create": PlantedBug(
        about="one put in ten does not see that the key exists",
        workload="storage",
        anomalies=frozenset({"storage:double-create"}),
    ),
    "update-creates": PlantedBug(
        about="one update in ten writes where there is no key",
        workload="storage",
        anomalies=frozenset({"storage:update-created"}),
    ),
    "update-blind": PlantedBug(
        about="one update in ten does not see that the key exists",
        workload="storage",
        anomalies=frozenset({"storage:denied-present-key"}),
    ),
    "no-compare": PlantedBug(
        about="none: an update compares nothing, so two of one value are acknowledged",
        workload="storage",
        anomalies=frozenset({"storage:lost-update"}),
    ),
    "put-remembered": PlantedBug(
        about="a put of unknown outcome never stores its value, and later ones are told that the key exists",
        workload="storage",
        anomalies=frozenset({"storage:unexplained-conflict"}),
    ),
    "lost-write": PlantedBug(
        about="one acknowledged write in fifty is dropped",
        workload="register",
        anomalies=frozenset({"linearizable:lost-write"}),
    ),
    "stale-read": PlantedBug(
        about="n2 answers strong reads from its own copy, which lags",
        workload="register",
        anomalies=frozenset({"linearizable:stale-read"}),
    ),
    "phantom-write": PlantedBug(
        about="one write in fifty is refused definitely, and takes effect",
        workload="register",
        anomalies=frozenset({"linearizable:phantom-read"}),
    ),
    "double-apply": PlantedBug(
        about="a write whose reply was lost is applied a second time, some operations later",
        workload="register",
        anomalies=frozenset({"linearizable:stale-read", "linearizable:lost-write"}),
    ),
    "late-effect": PlantedBug(
        about="one write in twenty is given up with an answer, and takes effect up to 800 ms later",
        workload="register",
        anomalies=frozenset({"late-effects:late-effect"}),
        options={"keys": 40},
    ),
    "cas-ignores-old": PlantedBug(
        about="one compare-and-set in five does not compare",
        workload="register",
        anomalies=frozenset({"linearizable:cas-stale-read"}),
    ),
    "small-values-lost-write": PlantedBug(
        about="as lost-write, where five values meet often",
        workload="register",
        anomalies=frozenset({"linearizable:stale-read"}),
        options={"values": "small", "keys": 2},
    ),
    "session-goes-back": PlantedBug(
        about="one plain read in twenty is answered by another copy, which is further behind",
        workload="register",
        anomalies=frozenset({"session-order:position-went-back"}),
        options=_PLAIN,
    ),
    "skipped-write": PlantedBug(
        about="n3's copy misses one write in fifty for ever, and goes on",
        workload="register",
        anomalies=frozenset({"session-order:skipped-write"}),
        options=_PLAIN,
    ),
    "dirty-restart": PlantedBug(
        about="what was acknowledged in the last 50 ms before the leader's kill is gone",
        workload="register",
        anomalies=frozenset({"linearizable:stale-read"}),
        faults=("kill",),
    ),
    "zombie-answer": PlantedBug(
        about="a leader that was paused answers strong reads from its old state when it wakes",
        workload="register",
        anomalies=frozenset({"leadership:stale-answer-by-superseded-leader"}),
        options={"seldom_per_node": 6},
        faults=("pause",),
    ),
    "zombie-stamp": PlantedBug(
        about="a leader that was paused acknowledges writes in its old epoch when it wakes",
        workload="register",
        anomalies=frozenset({"leadership:stamped-effect"}),
        options={"active_per_node": 8, "rate": 600.0},
        faults=("pause",),
    ),
    "two-values": PlantedBug(
        about="one plain read in twenty tells another value of the same position",
        workload="register",
        anomalies=frozenset({"session-order:two-values"}),
        options=_PLAIN,
    ),
    "early-position": PlantedBug(
        about="one write in forty is acknowledged at a position before its own",
        workload="register",
        anomalies=frozenset({"session-order:write-order"}),
        options=_PLAIN,
    ),
    "set-zombie-stamp": PlantedBug(
        about="a leader that was paused acknowledges adds in its old epoch when it wakes, and they are seen",
        workload="set",
        anomalies=frozenset({"leadership:stamped-effect"}),
        faults=("pause",),
    ),
    "set-lost-element": PlantedBug(
        about="one acknowledged add in fifty is dropped",
        workload="set",
        anomalies=frozenset({"set:lost-write"}),
    ),
    "set-phantom-element": PlantedBug(
        about="one add in fifty is refused definitely, and takes effect",
        workload="set",
        anomalies=frozenset({"set:phantom-element"}),
    ),
    "set-resurrected-element": PlantedBug(
        about="elements vanish for a while and come back",
        workload="set",
        anomalies=frozenset({"set:lost-after-seen"}),
    ),
    "set-dirty-restart": PlantedBug(
        about="what was acknowledged in the last 50 ms before the leader's kill is gone",
        workload="set",
        anomalies=frozenset({"set:lost-write"}),
        faults=("kill",),
    ),
    "zombie-write": PlantedBug(
        about="a leader that was paused acknowledges adds when it wakes, and nobody else ever hears of them",
        workload="set",
        anomalies=frozenset({"leadership:lost-acknowledgement"}),
        faults=("pause",),
    ),
    "double-grant": PlantedBug(
        about="one lock request in ten is granted though another holds it, with the same token",
        workload="lock",
        anomalies=frozenset({"lock:token-order"}),
    ),
    "double-grant-unfenced": PlantedBug(
        about="the same, where the guarded resource knows nothing of the lock",
        workload="lock",
        anomalies=frozenset({"lock:two-holders"}),
        options={"fencing": "off", "stall_one_in": 1_000_000},
    ),
    "fencing-ignored": PlantedBug(
        about="guarded writes are taken from holders that have lost the lock",
        workload="lock",
        anomalies=frozenset({"lock:stale-token-accepted"}),
    ),
    "token-goes-back": PlantedBug(
        about="one grant in three has a token smaller than the one before it",
        workload="lock",
        anomalies=frozenset({"lock:token-order"}),
    ),
}
