"""The rows of the suite: what each one asks of a system, and how it ended."""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final

import msgspec


class RowOutcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    #: What the row asks does not exist here; the text says why.
    NOT_APPLICABLE = "n/a"


class SuiteRow(msgspec.Struct, frozen=True, kw_only=True):
    """How one row ended: `text` is what was measured, or the reason; `remedy` what to do about a failure."""

    name: str
    outcome: RowOutcome
    text: str
    remedy: str = ""
    seconds: float = 0.0


#: Every row in the order of the table, with what it asks.
ROWS: Final[Mapping[str, str]] = {
    "declarations": "what the system declares fits together",
    "options": "every option changes how servers start, a bound, or the client",
    "start": "the servers start and become ready within their deadlines",
    "version": "every server says the release that it was started from",
    "settings": "settings of the servers take effect and are read back",
    "leader": "one node leads, the others name it, and its log says so",
    "requests": "an acknowledged change is read back by a current read",
    "wrong-input": "a request that the store must refuse ends Definite, and changes nothing",
    "one-request": "one request is sent once, over one connection",
    "dropped-request": "a request that never arrives: no answer, no Definite that is wrong, no second try",
    "dropped-answer": "an answer that never arrives: not Definite, no second try",
    "reset": "a reset connection: Indefinite, no second try, no new connection",
    "closed": "a connection that the server closes: Indefinite, no second try, no new connection",
    "after-the-end": "a session whose connection ended refuses further requests",
    "paused": "a paused server: the request waits, and is not sent again",
    "minority": "without a majority nothing is acknowledged",
    "killed": "a server that is killed with a request in flight: not Definite",
    "refused": "a server that does not run: opening a connection ends Definite",
    "left-process": "a killed server leaves no process behind",
    "restart": "acknowledged changes survive a kill and restart of every server",
    "membership": "a member is removed and added again, and the voters say so",
    "nothing-left": "no process, namespace, container or mount stays after the end",
}

#: What no choice of rows leaves out: the others need it.
_ALWAYS: Final = frozenset({"start", "requests", "nothing-left"})
#: Whether a request was sent again while the server was paused is told by how often it is sent as a rule.
_NEEDS: Final = {"paused": "one-request"}

#: What to do about a failure of a row.
REMEDIES: Final[Mapping[str, str]] = {
    "declarations": "correct profile, promises or releases of the system",
    "options": "use the option in specs, in a bound or in open_client, or take it out of the options",
    "start": "see the servers' logs; NodeSpec.ready_timeout_s is the deadline, ready and healthy are the conditions",
    "version": "reported_version must return what the server says, version_of what the artifacts are",
    "settings": "hand the settings to the servers in specs, and read them back in settings.applied",
    "leader": "question must ask one node about itself; the table of logs must know the line of a new leader",
    "requests": "see the client: a reply must come from the store, and a current read must be current",
    "wrong-input": "map the store's refusals to Definite in the client's error table",
    "one-request": "turn off retries, hedging and queues in the client's library, or write the protocol yourself",
    "dropped-request": "the client must neither send again nor give up with Definite; leave time-outs to the caller",
    "dropped-answer": "an error after the request was sent is Indefinite; and the client must not send again",
    "reset": "an error after the request was sent is Indefinite; turn off redials and retries",
    "closed": "an error after the request was sent is Indefinite; turn off redials and retries",
    "after-the-end": "keep in the session that its connection ended, and raise NotSent from then on",
    "paused": "the client must not send again while it waits; leave time-outs to the caller",
    "minority": "see the servers: a write may be acknowledged once a majority has it",
    "killed": "an error after the request was sent is Indefinite",
    "refused": "open_client must raise Definite when it cannot connect",
    "left-process": "start the server in the foreground: a process that leaves its session escapes every fault",
    "restart": "see the servers: data must be on the disk, in the node's data directory, before it is acknowledged",
    "membership": "see the part member-changes",
    "nothing-left": "start the server in the foreground, and write only below the node's folders",
}


def played(wanted: Collection[str]) -> frozenset[str]:
    """The rows that a choice means: these and what they need, or all where none is named."""
    if not wanted:
        return frozenset(ROWS)
    return _ALWAYS.union(wanted, (_NEEDS[name] for name in wanted if name in _NEEDS))


def passed(name: str, text: str) -> SuiteRow:
    return SuiteRow(name=name, outcome=RowOutcome.PASSED, text=text)


def failed(name: str, text: str) -> SuiteRow:
    return SuiteRow(name=name, outcome=RowOutcome.FAILED, text=text, remedy=REMEDIES[name])


def not_applicable(name: str, text: str) -> SuiteRow:
    return SuiteRow(name=name, outcome=RowOutcome.NOT_APPLICABLE, text=text)
