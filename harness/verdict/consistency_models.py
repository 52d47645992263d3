"""Which consistency models an anomaly rules out: one table of models, what each implies and what each forbids.

A model forbids what it forbids itself, what the models that it implies forbid, and every anomaly that is a special case
of one of those. Sources, by the letters in the table:

  A   Adya, "Weak Consistency: A Generalized Theory and Optimistic Implementations for Distributed
      Transactions" (PhD thesis, MIT, 1999)
  B   Bailis et al., "Highly Available Transactions: Virtues and Limitations" (VLDB 2013)
  R   Bailis et al., "Scalable Atomic Visibility with RAMP Transactions" (SIGMOD 2014)
  BE  Biswas & Enea, "On the Complexity of Checking Transactional Consistency" (OOPSLA 2019): their read committed, read
      atomic and causal consistency hold the order of each session; so do Plume's (OOPSLA 2024) and AWDIT's (PLDI 2025)
  C   Cerone, Bernardi & Gotsman, "A Framework for Transactional Consistency Models with Atomic
      Visibility" (CONCUR 2015): without sessions
  CG  Cerone & Gotsman, "Analysing Snapshot Isolation" (PODC 2016): no cycle of which all rw are apart from each other
  D   Daudjee & Salem, "Lazy Database Replication with Snapshot Isolation" (VLDB 2006): strong, strong session
  E   Kingsbury & Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations" (VLDB 2020)

Elle's claim for anomalies of a history's shape (E): where the versions of one key have no single order, no order of
versions exists at all, which every model presupposes.

Histories hold reads and writes of single keys, no predicates: so G2 shows as G2-item only, and repeatable-read, which
tolerates G2 by predicates alone, forbids no less than serializability does. Which anomalies can show depends on how
versions are ordered:

| anomaly | lists | registers |
| --- | --- | --- |
| G0 | a list shows the order of versions | only where each transaction read before it wrote, and then with a G1c |
| duplicate-elements, incompatible-order | yes | no: a register shows one version |
| cyclic-versions | no: lists show their order | yes |
| internal, future-read, garbage-read, G1a, G1b, dirty-update, lost-update | yes | yes |
| G1c, G-single, G-nonadjacent, G2-item, with -process, -realtime | yes | where versions are in a certain order |
| observed-transaction-vanishes, fractured-reads, causality-violation, -process | asked for such a model | likewise |
| no-serial-order, no-schedule, with -process, -realtime; no-version-order | of a few: all were tried | likewise |
| G2 by predicates, predicate-many-preceders and the like | no | no |
"""

from collections.abc import Iterable
from typing import Final, NamedTuple


class _Model(NamedTuple):
    """A model: the weaker ones that it implies, the anomalies that it adds to what those forbid, and the sources."""

    name: str
    implies: tuple[str, ...]
    forbids: tuple[str, ...]
    source: str


#: Weakest first: whatever a model implies stands above it.
MODELS: Final = (
    _Model("read-uncommitted", (), ("G0", "duplicate-elements", "cyclic-versions", "garbage-read"), "A (PL-1), E"),
    _Model("read-committed", ("read-uncommitted",), ("G1a", "G1b", "G1c"), "A (PL-2), E"),
    _Model("monotonic-atomic-view", ("read-committed",), ("observed-transaction-vanishes",), "B"),
    _Model("read-atomic", ("monotonic-atomic-view",), ("internal", "fractured-reads"), "R, C, E"),
    _Model("causal-cerone", ("read-atomic",), ("causality-violation",), "C"),
    _Model(
        "session-read-committed",
        ("monotonic-atomic-view",),
        ("G0-process", "G1c-process", "observed-transaction-vanishes-process"),
        "BE (read committed)",
    ),
    _Model(
        "session-read-atomic",
        ("read-atomic", "session-read-committed"),
        ("fractured-reads-process",),
        "BE (read atomic)",
    ),
    _Model(
        "causal", ("causal-cerone", "session-read-atomic"), ("causality-violation-process",), "BE (causal consistency)"
    ),
    _Model("parallel-snapshot-isolation", ("causal-cerone",), ("lost-update", "no-version-order"), "C, CG"),
    _Model("consistent-view", ("monotonic-atomic-view",), ("G-single", "no-version-order"), "A (PL-2+)"),
    _Model(
        "repeatable-read", ("monotonic-atomic-view",), ("G2-item", "lost-update", "no-serial-order"), "A (PL-2.99), B"
    ),
    _Model(
        "snapshot-isolation",
        ("parallel-snapshot-isolation", "consistent-view"),
        ("G-nonadjacent", "no-schedule"),
        "A (PL-SI), CG",
    ),
    _Model("serializable", ("repeatable-read", "snapshot-isolation"), (), "A (PL-3)"),
    _Model(
        "strong-session-snapshot-isolation",
        ("snapshot-isolation", "causal"),
        ("cyclic-versions-process", "G-single-process", "G-nonadjacent-process", "no-schedule-process"),
        "D, CG, E",
    ),
    _Model(
        "strong-session-serializable",
        ("serializable", "strong-session-snapshot-isolation"),
        ("G2-item-process", "no-serial-order-process"),
        "D, E",
    ),
    _Model(
        "strong-snapshot-isolation",
        ("strong-session-snapshot-isolation",),
        (
            "cyclic-versions-realtime",
            "G0-realtime",
            "G1c-realtime",
            "G-single-realtime",
            "G-nonadjacent-realtime",
            "no-schedule-realtime",
        ),
        "D, E",
    ),
    _Model(
        "strict-serializable",
        ("strong-session-serializable", "strong-snapshot-isolation"),
        ("G2-item-realtime", "no-serial-order-realtime"),
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
    # Where no commit order has what was seen before what was read instead, every order of versions has a G-single.
    "observed-transaction-vanishes": ("fractured-reads", "observed-transaction-vanishes-process"),
    "observed-transaction-vanishes-process": ("fractured-reads-process",),
    "fractured-reads": ("causality-violation", "fractured-reads-process"),
    "fractured-reads-process": ("causality-violation-process",),
    "causality-violation": ("G-single", "causality-violation-process"),
    "causality-violation-process": ("G-single-process",),
    "incompatible-order": ("G1a",),
    "dirty-update": ("G1a",),
    "future-read": ("G1c",),
}

NAMES: Final = tuple(model.name for model in MODELS)
_BY_NAME: Final = {model.name: model for model in MODELS}


def _closure(begin: Iterable[str], step: dict[str, tuple[str, ...]]) -> frozenset[str]:
    names: set[str] = set()
    waiting = list(begin)
    while waiting:
        name = waiting.pop()
        if name not in names:
            names.add(name)
            waiting += step.get(name, ())
    return frozenset(names)


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


#: Where the order of versions is inferred from what transactions read before they wrote, what a circle of it contains.
_INFERRED: Final = {"G0": "G1c", "G0-process": "G1c-process", "cyclic-versions": "G1c"}


def ruled_out_of_registers(anomalies: Iterable[str]) -> tuple[str, ...]:
    """As `ruled_out`; the order of versions is inferred by what read uncommitted does not promise."""
    return ruled_out(_INFERRED.get(anomaly, anomaly) for anomaly in anomalies)


def weakest(models: Iterable[str]) -> tuple[str, ...]:
    """Those of `models` that imply no other of them, in the order of `NAMES`."""
    given = set(models)
    return tuple(name for name in NAMES if name in given and not (implied(name) - {name}) & given)


def forbidden(model: str) -> frozenset[str]:
    """Every anomaly that rules out `model`."""
    named = {anomaly for entry in MODELS for anomaly in entry.forbids} | set(IMPLIES)
    return frozenset(anomaly for anomaly in named if model in ruled_out([anomaly]))
