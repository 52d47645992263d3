"""The table from JetStream's answers to outcomes.

A row is *definite* only where the stream's leader refuses a message before it proposes it to its group, or where
nothing answered because nobody was subscribed. In doubt a row is indefinite. A stream without a quorum does not answer
a publish at all, so most losses end as the caller's time-out.

Sources: nats-server 2.12 server/errors.json (codes and texts), server/jetstream_cluster.go (processClusteredInboundMsg:
what is checked before the proposal, and what when the message is stored), server/client.go (no responders).
"""

from dataclasses import dataclass
from typing import Final

from fencepost.harness.coordination import Definite, Indefinite

#: Outcomes that the client itself decides, without an answer or from what an answer says.
NOT_CONNECTED: Final = "not-connected"
CONNECTION_LOST: Final = "connection-lost"
CAS_MISMATCH: Final = "cas-mismatch"
EXISTS: Final = "exists"
BEHIND: Final = "behind"
MALFORMED: Final = "malformed-answer"
NO_MESSAGE: Final = "no-message"
NO_STREAM: Final = "no-stream"
NO_RESPONDERS: Final = "no-responders"
ABSENT: Final = "absent"
UNSUPPORTED: Final = "unsupported"
NOT_WATCHING: Final = "not-watching"
WATCH_SILENT: Final = "watch-silent"
WATCH_GAP: Final = "watch-gap"

#: Definite by what the client itself knows: code and reason.
OWN_DEFINITE: Final = {
    NOT_CONNECTED: "the connection was not open when the request was made, so no byte of it was sent",
    CAS_MISMATCH: "a read showed another value than the compare-and-set expects, or the stream's leader answered that"
    " the subject has another last sequence",
    EXISTS: "the answer says that the subject has a message already, so nothing was stored",
    ABSENT: "a read showed no value, or the mark of a deletion, so nothing was stored",
    UNSUPPORTED: "nothing was sent: NATS has no transaction over several subjects that has one position",
    NOT_WATCHING: "the client has no consumer, so nothing was sent",
    WATCH_SILENT: "neither a message nor a heartbeat came for 3 s: the watch is over, and changes nothing",
    WATCH_GAP: "the consumer's own sequence has a gap: the watch is over, and changes nothing",
    BEHIND: "the answer stands behind a message that was acknowledged before it was asked for: an effect-free read",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One kind of refusal, by JetStream's own `err_code`, or by the status of a message without content."""

    code: str
    number: int
    definite: bool
    why: str


#: By `err_code` of an answer.
ERRORS: Final = (
    Row(
        code="wrong-last-sequence",
        number=10071,
        definite=True,
        why="compared before the message is stored, and on every replica in the same way: it is not stored",
    ),
    Row(
        code="wrong-last-sequence-in-flight",
        number=10164,
        definite=True,
        why="another message of the subject is proposed and not stored yet: refused before the proposal",
    ),
    Row(
        code="other-stream",
        number=10060,
        definite=True,
        why="the stream of the subject is not the expected one: refused before the proposal",
    ),
    Row(code=NO_STREAM, number=10059, definite=True, why="there is no such stream: nothing to act on"),
    Row(code=NO_MESSAGE, number=10037, definite=True, why="a read found no message"),
    Row(
        code="no-leader",
        number=10008,
        definite=False,
        why="the group has lost its quorum; a read changes nothing, and a message may have been proposed before",
    ),
    Row(
        code="no-suitable-peers",
        number=10005,
        definite=True,
        why="the stream was not placed: too few servers are known to the leader of the meta group",
    ),
    Row(code="peer-not-a-member", number=10040, definite=True, why="the stream has no replica there: nothing changed"),
    Row(code="server-not-a-member", number=10044, definite=True, why="the meta group has no such server"),
    Row(
        code="peer-remap-failed",
        number=10075,
        definite=True,
        why="no other server can take the replica: refused before the proposal",
    ),
    Row(
        code="member-change-in-progress",
        number=10202,
        definite=True,
        why="the meta group changes one member at a time: refused before the proposal",
    ),
    Row(
        code="insufficient-resources",
        number=10023,
        definite=False,
        why="may be answered when a stored message used up the limit",
    ),
)

#: By the status of a message without content.
STATUSES: Final = (
    Row(
        code=NO_RESPONDERS,
        number=503,
        definite=True,
        why="the client's server knows nobody who is subscribed, and passed the message to nobody",
    ),
    Row(code=NO_MESSAGE, number=404, definite=True, why="a direct read found no message"),
    Row(code="bad-request", number=400, definite=True, why="the request was not understood"),
    Row(code="request-timed-out", number=408, definite=False, why="nothing arrived in time"),
)

_BY_ERROR: Final = {row.number: row for row in ERRORS}
_BY_STATUS: Final = {row.number: row for row in STATUSES}


def of_error(number: int, text: str) -> Definite | Indefinite:
    """The outcome of an answer with this `err_code`."""
    return _outcome(_BY_ERROR.get(number), f"jetstream-{number}", text)


def of_status(number: int, text: str) -> Definite | Indefinite:
    """The outcome of a message without content that has this status."""
    return _outcome(_BY_STATUS.get(number), f"status-{number}", text)


def _outcome(row: Row | None, unknown: str, text: str) -> Definite | Indefinite:
    if row is None:
        return Indefinite(unknown, text)
    return (Definite if row.definite else Indefinite)(row.code, text)
