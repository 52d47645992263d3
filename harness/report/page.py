"""The report: one self-contained HTML file that opens anywhere, without network, and reads without colour or scripts.

The verdict stands first and depends on nothing else. Every section is made behind its own guard: one that fails says
so in its place and is named in `Rendered.problems`; it can hide neither the verdict nor another section. Values are
escaped by the templates, and a content policy lets only this file's own script and style run.
"""

import functools
import traceback
from collections.abc import Callable
from typing import Any, Final

import msgspec
from markupsafe import Markup

from fencepost.harness.contract.server_settings import as_arguments
from fencepost.harness.history import UNNAMED_NODE, MigrationEvent
from fencepost.harness.report import tables
from fencepost.harness.report.documents import reproduce, typed_path
from fencepost.harness.report.drawing import cycle_of, witness_operations
from fencepost.harness.report.leaders import (
    PARTITION_LISTS,
    attached,
    episodes,
    left_out_table,
    partition_tables,
    partitions,
    quorum_table,
    reigns,
    zombies,
)
from fencepost.harness.report.overview import Lanes, lanes, overview
from fencepost.harness.report.page_kit import PageKit, asset
from fencepost.harness.report.section import (
    CLAIMS,
    EPISODES,
    FAULTS,
    AddedSection,
    AddedTables,
    ReportCase,
    TextTable,
    additions,
    cell,
    flat,
    generic,
    tables_within,
)
from fencepost.harness.report.service import latency, recovery, service
from fencepost.harness.report.timeline import timeline
from fencepost.harness.report.witness import cycle_picture, drawn, events_of, kinds_in_words, untimed
from fencepost.harness.report.words import SIGNS, Cited, Ledger, clock, count, event, length, text, traced
from fencepost.harness.verdict import Validity, Verdict, Witness
from fencepost.harness.verdict.by_guarantee import Opening, all_figures, by_guarantee, opening


def json_for_script(data: Any) -> Markup:
    """JSON that cannot end the script element it stands in, whatever its strings hold."""
    plain = msgspec.json.encode(data).decode()
    for character in ("<", ">", "&", "\u2028", "\u2029"):
        plain = plain.replace(character, f"\\u{ord(character):04x}")
    return Markup(plain)


#: Witnesses drawn per verdict; the counts are complete.
WITNESSES_MAX: Final = 3


class Rendered(msgspec.Struct, frozen=True):
    """The page, and one line for each section that could not be made."""

    html: str
    problems: tuple[str, ...] = ()


class Page:
    """What several sections need, each made once, on first use, so that its failure stays with those that use it."""

    def __init__(self, case: ReportCase) -> None:
        self.case = case
        self.word = case.facts.vocabulary.epoch
        self._lanes: Lanes | None = None
        self.ledger = Ledger(case.history)
        self.kit = PageKit(
            clock=clock,
            lasting=length,
            cell=lambda v, key="": cell(key, v),
            counted=_counted,
            grouped=count,
            traced=self.ledger.link,
            cited=self.ledger.cited,
        )

    @property
    def lanes(self) -> Lanes:
        if self._lanes is None:
            self._lanes = lanes(self.case.history, self.case.facts.nodes, self.case.derived)
        return self._lanes

    def made(self, template: str, **context: Any) -> Markup:
        return self.kit.part(template, case=self.case, word=self.word, signs=SIGNS, **context)


#: What a page is made of: a name, a heading, and who makes it; None where there is nothing to say.
Sections = tuple[tuple[str, str, Callable[[Page], Markup | None]], ...]


def render(case: ReportCase) -> Rendered:
    """The whole report of one run."""
    return assembled(Page(case), _verdict, _sections(case), case.name, script=asset("timeline.js"))


def assembled(
    page: Page, make_verdict: Callable[[Page], Markup], sections: Sections, name: str, *, script: str = ""
) -> Rendered:
    """A page of these sections, each behind its own guard; without a script of its own it may run none."""
    case = page.case
    problems: list[str] = []
    made = []
    # First, so that what it claims stands among the claims that the last section lists.
    verdict = _guarded_verdict(page, make_verdict, problems)
    for id_, heading, make in sections:
        try:
            body = make(page)
        except Exception as error:
            problems.append(f"section {heading!r} failed: {type(error).__name__}: {error}")
            body = _failed(error)
        if body is not None:
            made.append({"id": id_, "title": heading, "body": body})
    html = page.kit.page(
        "page",
        title=f"{SIGNS[case.validity]} {case.validity}: {name}",
        script=script,
        verdict=verdict,
        validity=case.validity.value,
        sections=made,
        problems=problems,
    )
    return Rendered(html, tuple(problems))


def _counted(verdict: Verdict, anomaly: str, number: int) -> str:
    """How often a verdict has an anomaly, with a row for each."""
    return traced(count(number), verdict.anomalies[anomaly].rows if anomaly in verdict.anomalies else ())


def _failed(error: Exception) -> Markup:
    where = traceback.extract_tb(error.__traceback__)[-1]
    message = f"this section failed: {type(error).__name__}: {error} ({where.name}, line {where.lineno})"
    return Markup('<p class="failed" role="alert">{}</p>').format(message)


def _guarded_verdict(page: Page, make: Callable[[Page], Markup], problems: list[str]) -> Markup:
    """The verdict in full; if that fails, its word and sentence, which need nothing."""
    case = page.case
    try:
        return make(page)
    except Exception as error:
        problems.append(f"section 'verdict' failed: {type(error).__name__}: {error}")
        plain = (
            '<header class="verdict {}"><h1><span class="sign">{}</span> {}</h1><p class="headline">{}</p>{}</header>'
        )
        return Markup(plain).format(case.validity, SIGNS[case.validity], case.validity, case.headline, _failed(error))


def _verdict(page: Page) -> Markup:
    history = page.case.history
    faults, proven = history.faults, [f for f in history.faults if f.certain_from_ns is not None]
    return page.made(
        "verdict",
        sign=SIGNS[page.case.validity],
        opening=_opening(page.case),
        rows=tables.guarantees(page.case),
        notes=tables.notes(page.case.history),
        version=text(page.case.fact("version") or "", 40),
        seed=page.case.fact("seed"),
        started=text(page.case.fact("started_at") or "", 40),
        settings=[text(word, 200) for word in as_arguments(page.case.settings)],
        duration=traced(length(history.end_ns), [len(history.events) - 1] if history.events else None),
        operations=traced(count(len(history.operations)), [o.invoke_index for o in history.operations]),
        faults=traced(str(len(faults)), [f.events[0] for f in faults]),
        proven=traced(str(len(proven)), [f.events[1] for f in proven]),
    )


def _opening(case: ReportCase) -> Opening:
    folder = None if case.folder is None else typed_path(case.folder)
    return opening(case.validity, case.headline, by_guarantee(case.verdicts, case.facts), case.facts, folder)


def witness_context(page: Page, verdict: Verdict, witness: Witness, number: int) -> dict[str, Any]:
    events, more = events_of(witness, page.case.history)
    rows = [
        {
            "index": e.index,
            "at": clock(e.time_ns),
            "kind": str(getattr(e, "type", "")) or type(e).__name__.removesuffix("Event").lower(),
            "process": getattr(e, "process", ""),
            "node": getattr(e, "node", ""),
            "text": event(e),
            "position": page.case.facts.vocabulary.position(getattr(e, "position", None)),
            "value_position": page.case.facts.vocabulary.position(getattr(e, "value_position", None)),
            "epoch": "" if getattr(e, "epoch", None) is None else str(getattr(e, "epoch", "")),
        }
        for e in events
    ]
    name = f"Witness {number} of {verdict.guarantee}: {witness.anomaly}"
    picture = drawn(witness, page.case.history, page.lanes, page.word, name)
    cycle = cycle_of(witness, page.case.history)
    return {
        "witness": witness,
        # A register that is the only one has a name for sentences alone, and so has a node that nothing is known of.
        "key": witness.key if any(getattr(e, "key", None) is not None for e in events) else None,
        "nodes": [node for node in witness.nodes if node != UNNAMED_NODE],
        "verdict": verdict,
        "breaks": verdict.validity is Validity.INVALID,
        "steps": _steps(witness),
        "events": rows,
        "more": more,
        "picture": picture,
        "faint": ' context"' in picture,
        "timed": not untimed(witness, page.case.history),
        "cycle": None if cycle is None else cycle_picture(cycle, f"{name}, the cycle"),
        "kinds": [] if cycle is None else kinds_in_words(cycle),
        "others": [] if cycle is None else cycle.others,
        "number": number,
    }


def _steps(witness: Witness) -> list[str]:
    """The sentences; the last one names the rows behind all of them."""
    *before, last = witness.steps or ("",)
    return [*before, Cited(last, witness.events)]


def _witnesses(page: Page, verdicts: tuple[Verdict, ...]) -> list[dict[str, Any]]:
    """By verdict: its first witness and the next few; `again` when an earlier verdict showed the same operations."""
    out = []
    seen: set[tuple[int, ...]] = set()
    for verdict in verdicts:
        shown = [witness_context(page, verdict, w, n) for n, w in enumerate(verdict.witnesses[:WITNESSES_MAX], 1)]
        if shown:
            operations = tuple(o.invoke_index for o in witness_operations(verdict.witnesses[0], page.case.history))
            out.append({"first": shown[0], "more": shown[1:], "again": bool(operations) and operations in seen})
            seen.add(operations)
    return out


def _violated(page: Page) -> tuple[Verdict, ...]:
    return tuple(v for v in page.case.deciding() if v.validity is Validity.INVALID)


def _witness(page: Page) -> Markup | None:
    """The witnesses of what decides; no chapter where nothing that decides is violated."""
    violated = _violated(page)
    if not violated and page.case.validity is not Validity.INVALID:
        return None
    return page.made("witness", groups=_witnesses(page, violated))


def _timeline(page: Page) -> Markup:
    history, vocabulary = page.case.history, page.case.facts.vocabulary
    deciding = [w for v in _violated(page) for w in v.witnesses[:WITNESSES_MAX]]
    beside = [w for v in page.case.not_deciding() for w in v.witnesses[:1]]
    data, chosen = timeline(history, page.lanes, deciding or beside, vocabulary)
    picture = overview(history, page.lanes, page.word)
    return page.made(
        "timeline",
        overview=picture,
        data=json_for_script(data),
        data_focus=data["focus"] is not None,
        cut=chosen.summary,
        empty=not history.events,
        subjects=[(s.subject, vocabulary.subject(s.subject)) for s in page.lanes.every] if page.lanes.others else [],
        migrates=bool(history.of(MigrationEvent)),
    )


def _latency(page: Page) -> Markup:
    picture, left_out = latency(page.case.history)
    return page.made("latency", picture=picture, left_out=left_out, tables=tables.operations(page.case.history))


def _faults(page: Page) -> Markup:
    return page.made(
        "faults",
        found=tables.faults(page.case.history, page.word),
        recovery=recovery(page.case),
        quorum=quorum_table(page.case),
        left_out=left_out_table(page.case),
        more=tables_within(FAULTS, page.case),
    )


def _exposure(page: Page) -> Markup:
    return page.made(
        "tables", intro="A guarantee that was never tested is unknown, not valid.", tables=[tables.exposure(page.case)]
    )


def _mechanisms(page: Page) -> Markup | None:
    return (
        page.made(
            "tables",
            intro="What has code, and bugs, of its own in the system: a mechanism that was never met was not tested."
            " Only what happened from the main phase on counts.",
            tables=tables.mechanisms(page.case),
        )
        if page.case.facts.mechanisms
        else None
    )


def _leadership(page: Page) -> Markup:
    superseded = zombies(page.case)
    return page.made(
        "leadership",
        reigns=reigns(page.lanes, page.case.facts.vocabulary),
        attached=attached(page.lanes, page.word),
        episodes=[*episodes(page.case, page.word), *tables_within(EPISODES, page.case)],
        more=tables_within(CLAIMS, page.case),
        zombies=superseded[0] if superseded else None,
        claimed=superseded[1] if superseded else None,
        details=superseded[2] if superseded else [],
        bound=page.case.facts.leadership,
    )


def _partitions(page: Page) -> Markup | None:
    pictured = partitions(page.case)
    return None if pictured is None else page.made("partitions", found=pictured, tables=partition_tables(page.case))


def rows_section(page: Page) -> Markup:
    ledger = page.ledger
    rows = ledger.rows()
    named = {i for claim in ledger.claims for i in claim.rows}
    return page.made("rows", claims=ledger.listed(), rows=rows, cut=len(named) > len(rows))


def _reproduce(page: Page) -> Markup | None:
    commands = reproduce(page.case)
    return None if commands is None else page.made("reproduce", commands=commands)


def _health(page: Page) -> Markup:
    return page.made("health", health=tables.health(page.case), servers=tables.servers(page.case.history))


def _beside(page: Page) -> Markup:
    violated = tuple(v for v in page.case.not_deciding() if v.anomalies or v.validity is Validity.INVALID)
    return page.made("beside", verdicts=violated, witnesses=_witnesses(page, tuple(v for v in violated if v.witnesses)))


def _service(page: Page) -> Markup:
    """What clients got, by phase and node."""
    return page.made("service", derived=bool(page.case.derived), tables=service(page.case))


def _facts(page: Page) -> Markup:
    checkers = []
    added = (one for one in additions(page.case).values() if isinstance(one, AddedTables))
    elsewhere = frozenset[str]().union(PARTITION_LISTS, *(one.shows for one in added))
    for verdict in page.case.verdicts:
        if "leadership" not in verdict.checker:
            shown = {key: value for key, value in all_figures(verdict).items() if key not in elsewhere}
            checkers += generic(f"{verdict.checker} on {verdict.guarantee}", shown)
    # The table of service has the phases already.
    run, long = flat({name: value for name, value in page.case.run.items() if name != "phases"})
    facts = TextTable(caption="The run's facts", columns=("fact", "value"), rows=run)
    hashes = TextTable(caption="Binaries, paths and hashes", columns=("what", "value"), rows=long)
    return page.made("facts", facts=facts, hashes=hashes, checkers=checkers)


_SECTIONS: Final[Sections] = (
    ("witness", "Witness", _witness),
    ("timeline", "Timeline", _timeline),
    ("latency", "Latency", _latency),
    ("service", "Service", _service),
    ("faults", "Faults", _faults),
    ("exposure", "How often tested", _exposure),
    ("mechanisms", "What was met", _mechanisms),
    ("leadership", "Who led when", _leadership),
    ("partitions", "Topic partitions", _partitions),
    ("beside", "Not deciding", _beside),
    ("health", "Health", _health),
    ("reproduce", "Reproduce", _reproduce),
    ("facts", "The run", _facts),
    ("rows", "Rows", rows_section),
)


def _sections(case: ReportCase) -> Sections:
    """The sections of a run's page, those of leaves in their places."""
    sections = list(_SECTIONS)
    for name, added in additions(case).items():
        if isinstance(added, AddedSection):
            place = next((i for i, (id_, *_) in enumerate(sections) if id_ == added.after), len(sections) - 1)
            sections.insert(place + 1, (name, added.heading, functools.partial(_added, added)))
    return tuple(sections)


def _added(section: AddedSection, page: Page) -> Markup | None:
    return section.make(page.case)
