"""The fact tables about a whole run: the run itself and its verdicts."""

from typing import Final

from fencepost.harness.verdict.fact_table import FLAG, LONG, TEXT, TEXTS, FactTable, columns

RUN: Final = FactTable(
    name="run",
    row="the run",
    columns=columns(
        ("folder", TEXT, "the name of its folder when the facts were derived"),
        ("started_at", TEXT, "the wall-clock time of its start, UTC"),
        ("system", TEXT, "the system under test"),
        ("version", TEXT, "the release that ran, as the system itself reported it"),
        ("digest", TEXT, "SHA-256 over the digests of the binaries; null when none are known"),
        ("workload", TEXT, "the workload"),
        ("nemesis", TEXT, "the faults, as the plan writes them"),
        ("faults", TEXTS, "each of these faults"),
        ("options", TEXT, "the workload's options, as JSON"),
        ("system_options", TEXT, "the system's options, as JSON"),
        ("settings", TEXT, "the servers' own settings, as JSON"),
        ("runtime", TEXT, "the runtime that ran the nodes"),
        ("nodes", TEXTS, "the nodes"),
        ("machine", TEXT, "the machine, as JSON"),
        ("seed", LONG, "the seed"),
        ("length_ns", LONG, "the time of the last event"),
        ("planned_ns", LONG, "the planned length of the main phase"),
        ("played_ns", LONG, "the actual length of the main phase"),
        ("cut_short", TEXT, "where the run was cut short, and what stopped it; null for a whole run"),
        ("events", LONG, "rows of its history"),
        ("operations", LONG, "operations that were invoked"),
        ("outcome", TEXT, "`valid`, `invalid` or `unknown`"),
        ("exit_class", LONG, "the exit code of a command that judges only this run"),
        ("headline", TEXT, "the outcome in one sentence"),
    ),
)

VERDICTS: Final = FactTable(
    name="verdicts",
    row="the verdict of one checker on one guarantee",
    columns=columns(
        ("checker", TEXT, "the checker"),
        ("guarantee", TEXT, "the guarantee"),
        ("subject", TEXT, "the subject whose leaders the verdict is about; null for a guarantee without leaders"),
        ("validity", TEXT, "`valid`, `invalid` or `unknown`"),
        ("cause", TEXT, "why it is `unknown`; null otherwise"),
        ("reason", TEXT, "the reason of the verdict in one sentence"),
        ("decides", FLAG, "whether this verdict keeps the run from being valid"),
    ),
)

ANOMALIES: Final = FactTable(
    name="anomalies",
    row="one kind of anomaly, summed over all checkers that report it",
    columns=columns(
        ("guarantee", TEXT, "the guarantee that it breaks"),
        ("anomaly", TEXT, "its name"),
        ("count", LONG, "how often it occurred"),
        ("decides", FLAG, "whether the guarantee decides the run"),
        ("fingerprint", TEXT, "a text by which the same anomaly is recognised in another run"),
        ("fingerprints", TEXTS, "the fingerprints of all its witnesses"),
    ),
)

EXPOSURES: Final = FactTable(
    name="exposures",
    row="how often a run tested one guarantee, as one checker counted it",
    columns=columns(
        ("guarantee", TEXT, "the guarantee"),
        ("checker", TEXT, "the checker that counted"),
        ("exposure", LONG, "how often the guarantee was tested; null when the checker does not count it"),
        ("exposure_of", TEXT, "what the checker counted"),
        ("exposure_min", LONG, "how many tests the plan demands"),
    ),
)

RULES: Final = FactTable(
    name="rules",
    row="one rule of a guarantee, and how often the run could have broken it",
    columns=columns(
        ("guarantee", TEXT, "the guarantee"),
        ("checker", TEXT, "the checker that has the rule"),
        ("rule", TEXT, "the rule, named by the anomaly that breaks it"),
        ("chances", LONG, "how often a wrong answer or effect would have broken it"),
        ("lacks", TEXT, "what the run lacked to test the rule; empty when it had a chance"),
    ),
)

GUARANTEES: Final = FactTable(
    name="guarantees",
    version=2,
    row="one judged guarantee, over all checkers",
    columns=columns(
        ("guarantee", TEXT, "its name"),
        ("validity", TEXT, "`valid`, `invalid` or `unknown`"),
        ("standing", TEXT, "`promised`, `relied-upon` or `measured`; null when the system says nothing about it"),
        ("source", TEXT, "where the maker promises it"),
        ("known_issue", TEXT, "the issue in which the maker disclaims it"),
        ("unmet", TEXT, "the condition of the promise that the run did not keep to, and by which faults; null without"),
        ("required", FLAG, "whether the plan requires it"),
        ("primary", FLAG, "whether it is the guarantee of the run's reads"),
        ("decides", FLAG, "whether a violation makes the run `invalid`"),
    ),
)

#: The tables about a run and its verdicts.
OF_RUN: Final = (RUN, VERDICTS, ANOMALIES, EXPOSURES, RULES, GUARANTEES)
