"""Which consistency models an anomaly rules out: one table of models, what each implies and what each forbids.

A model forbids what it forbids itself, what the models that it implies forbid, and every anomaly that is a special case
of one of those. Sources, by the letters in the table:

  A   Adya, "Weak Consistency: A Generalized Theory and Optimistic Implementations for Distributed
      Transactions" (PhD thesis, MIT, 1999)
  B   Bailis et al., "Highly Available Transactions: Virtues and Limitations" (VLDB 2013)
  C   Cerone, Bernardi & Gotsman, "A Framework for Transactional Consistency Models with Atomic
      Visibility" (CONCUR 2015)
  CG  Cerone & Gotsman, "Analysing Snapshot Isolation" (PODC 2016): no cycle of which all rw are apart from each other
  D   Daudjee & Salem, "Lazy Database Replication with Snapshot Isolation" (VLDB 2006): strong, strong session
  E   Kingsbury & Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations" (VLDB 2020)

Elle's claim for anomalies of a history's shape (E): where the versions of one key have no single order, no order of
versions exists at all, which every model presupposes.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple


class Model(NamedTuple):
    """A model: the weaker ones that it implies, the anomalies that it adds to what those forbid, and the sources."""

    name: str
    implies: tuple[str, ...]
    forbids: tuple[str, ...]
    source: str


#: Weakest first: whatever a model implies stands above it.
MODELS: Final = (
    Model("read-uncommitted", (), ("G0", "duplicate-elements", "cyclic-versions", "garbage-read"), "A (PL-1), E"),
    Model("read-committed", ("read-uncommitted",), ("G1a", "G1b", "G1c"), "A (PL-2), E"),
    Model("read-atomic", ("read-committed",), ("internal",), "C, E"),
    Model("causal", ("read-atomic",), (), "C"),
    Model("parallel-snapshot-isolation", ("causal",), ("lost-update",), "C"),
    Model("consistent-view", ("read-committed",), ("G-single",), "A (PL-2+)"),
    Model("repeatable-read", ("read-committed",), ("G2-item", "lost-update"), "A (PL-2.99), B"),
    Model(
        "snapshot-isolation", ("parallel-snapshot-isolation", "consistent-view"), ("G-nonadjacent",), "A (PL-SI), CG"
    ),
    Model("serializable", ("repeatable-read", "snapshot-isolation"), (), "A (PL-3)"),
    Model(
        "strong-session-snapshot-isolation",
        ("snapshot-isolation",),
        ("G0-process", "G1c-process", "G-single-process", "G-nonadjacent-process"),
        "D, CG, E",
    ),
    Model(
        "strong-session-serializable",
        ("serializable", "strong-session-snapshot-isolation"),
        ("G2-item-process",),
        "D, E",
    ),
    Model(
        "strong-snapshot-isolation",
        ("strong-session-snapshot-isolation",),
        ("G0-realtime", "G1c-realtime", "G-single-realtime", "G-nonadjacent-realtime"),
        "D, E",
    ),
    Model(
        "strict-serializable",
        ("strong-session-serializable", "strong-snapshot-isolation"),
        ("G2-item-realtime",),
        "A (PL-SS), E",
    ),
)

#: What each anomaly is a special case of, or comes with (E, section 6 of the paper and its tables): whoever forbids
#: one of the latter forbids the former.
IMPLIES: Final[dict[str, tuple[str, ...]]] = {
    "G0": ("G1c", "G0-process"),
    "G0-process": ("G1c-process", "G0-realtime"),
    "G0-realtime": ("G1c-realtime",),
    "G1c": ("G1c-process",),
    "G1c-process": ("G1c-realtime",),
    "G-single": ("G-nonadjacent", "G2-item", "G-single-process"),
    "G-single-process": ("G-nonadjacent-process", "G2-item-process", "G-single-realtime"),
    "G-single-realtime": ("G-nonadjacent-realtime", "G2-item-realtime"),
    "G-nonadjacent": ("G2-item", "G-nonadjacent-process"),
    "G-nonadjacent-process": ("G2-item-process", "G-nonadjacent-realtime"),
    "G-nonadjacent-realtime": ("G2-item-realtime",),
    "G2-item": ("G2-item-process",),
    "G2-item-process": ("G2-item-realtime",),
    "lost-update": ("G2-item",),
    "incompatible-order": ("G1a",),
    "dirty-update": ("G1a",),
    "future-read": ("G1c",),
}

NAMES: Final = tuple(model.name for model in MODELS)
_BY_NAME: Final = {model.name: model for model in MODELS}


def _closure(begin: Iterable[str], step: dict[str, tuple[str, ...]]) -> frozenset[str]:
    found: set[str] = set()
    waiting = list(begin)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += step.get(name, ())
    return frozenset(found)


def implied(model: str) -> frozenset[str]:
    """A model and all that it implies.

    Raises:
        KeyError: there is no such model; `NAMES` has them all.
    """
    _BY_NAME[model]
    return _closure([model], {name: entry.implies for name, entry in _BY_NAME.items()})


def ruled_out(anomalies: Iterable[str]) -> tuple[str, ...]:
    """The models that a history with these anomalies does not keep, weakest first."""
    shown = _closure(anomalies, IMPLIES)
    direct = {model.name for model in MODELS if shown.intersection(model.forbids)}
    return tuple(name for name in NAMES if implied(name) & direct)


def weakest(models: Iterable[str]) -> tuple[str, ...]:
    """Those of `models` that imply no other of them, in the order of `NAMES`."""
    given = set(models)
    return tuple(name for name in NAMES if name in given and not (implied(name) - {name}) & given)


def forbidden(model: str) -> frozenset[str]:
    """Every anomaly that rules out `model`."""
    named = {anomaly for entry in MODELS for anomaly in entry.forbids} | set(IMPLIES)
    return frozenset(anomaly for anomaly in named if model in ruled_out([anomaly]))
