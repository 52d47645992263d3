"""The tables about a run as a whole: the run itself, and what was judged of it."""

from typing import Final

from fencepost.harness.verdict.fact_table import FLAG, LONG, TEXT, TEXTS, FactTable, by_name, columns
from fencepost.harness.verdict.fact_tables import DERIVED

RUN: Final = FactTable(
    name="run",
    row="the run",
    columns=columns(
        ("folder", TEXT, "its folder, as it was called when the facts were derived"),
        ("started_at", TEXT, "the wall-clock time of its start, UTC"),
        ("system", TEXT, "the system under test"),
        ("version", TEXT, "the release that ran, as it said of itself"),
        ("digest", TEXT, "SHA-256 over the digests of the binaries; null when none are known"),
        ("workload", TEXT, "the workload"),
        ("nemesis", TEXT, "the faults as the plan words them"),
        ("faults", TEXTS, "each of these faults"),
        ("options", TEXT, "the workload's options, as JSON"),
        ("system_options", TEXT, "the system's options, as JSON"),
        ("settings", TEXT, "what was set on the servers themselves, as JSON"),
        ("runtime", TEXT, "where the nodes lived"),
        ("nodes", TEXTS, "the nodes"),
        ("machine", TEXT, "the machine, as JSON"),
        ("seed", LONG, "the seed"),
        ("length_ns", LONG, "the time of the last event"),
        ("planned_ns", LONG, "how long the main phase was to last"),
        ("played_ns", LONG, "how long it lasted"),
        ("cut_short", TEXT, "where and by what the run was cut short; null for a whole run"),
        ("events", LONG, "rows of its history"),
        ("operations", LONG, "operations that were invoked"),
        ("outcome", TEXT, "`valid`, `invalid` or `unknown`"),
        ("exit_class", LONG, "the exit code of a command that judges this run alone"),
        ("headline", TEXT, "the outcome in one sentence"),
    ),
)

VERDICTS: Final = FactTable(
    name="verdicts",
    row="the verdict of one checker on one guarantee",
    columns=columns(
        ("checker", TEXT, "who judged"),
        ("guarantee", TEXT, "what was judged"),
        ("subject", TEXT, "whose leaders it is about; null where that is no matter"),
        ("validity", TEXT, "`valid`, `invalid` or `unknown`"),
        ("cause", TEXT, "why it is `unknown`; null otherwise"),
        ("reason", TEXT, "the verdict in words"),
        ("decides", FLAG, "whether it keeps the run from being valid"),
    ),
)

ANOMALIES: Final = FactTable(
    name="anomalies",
    row="one anomaly, over all checkers that show it",
    columns=columns(
        ("guarantee", TEXT, "the guarantee that it breaks"),
        ("anomaly", TEXT, "its name"),
        ("count", LONG, "how often it shows"),
        ("decides", FLAG, "whether the guarantee decides the run"),
        ("fingerprint", TEXT, "what tells it again in another run"),
        ("fingerprints", TEXTS, "those of all its witnesses"),
    ),
)

EXPOSURES: Final = FactTable(
    name="exposures",
    row="how often one checker saw one guarantee put to the test",
    columns=columns(
        ("guarantee", TEXT, "the guarantee"),
        ("checker", TEXT, "who counted"),
        ("exposure", LONG, "how often; null when it is not counted"),
        ("exposure_of", TEXT, "what was counted"),
        ("exposure_min", LONG, "how often the plan demands"),
    ),
)

RULES: Final = FactTable(
    name="rules",
    row="one rule of a guarantee, and how often it could have been broken",
    columns=columns(
        ("guarantee", TEXT, "the guarantee"),
        ("checker", TEXT, "whose rule it is"),
        ("rule", TEXT, "the rule, by the anomaly that breaks it"),
        ("chances", LONG, "how often a wrong answer or effect would have broken it"),
        ("lacks", TEXT, "what it would have needed; empty where it had a chance"),
    ),
)

GUARANTEES: Final = FactTable(
    name="guarantees",
    row="one guarantee that was judged, over all checkers",
    columns=columns(
        ("guarantee", TEXT, "its name"),
        ("validity", TEXT, "`valid`, `invalid` or `unknown`"),
        ("standing", TEXT, "`promised`, `relied-upon` or `measured`; null when the system says nothing of it"),
        ("source", TEXT, "where the maker says so"),
        ("known_issue", TEXT, "the issue in which the maker disclaims it"),
        ("required", FLAG, "whether the plan requires it"),
        ("primary", FLAG, "whether it is the guarantee of the run's reads"),
        ("decides", FLAG, "whether a violation makes the run `invalid`"),
    ),
)

#: What is known of a run and its judgement.
OF_RUN: Final = (RUN, VERDICTS, ANOMALIES, EXPOSURES, RULES, GUARANTEES)
#: Every table that is kept beside a history, by name.
TABLES: Final = by_name((*OF_RUN, *DERIVED))
