"""The table from JetStream's answers to outcomes.

A row is *definite* only where no leader can store the message any more, or where nothing answered because nobody was
subscribed. In doubt a row is indefinite. A stream without a quorum does not answer a publish at all, so most losses end
as the caller's time-out.

That a leader refuses a message before it proposes it proves nothing: a superseded leader stays subscribed to the
stream's subjects until it hears of the new term, so both get the message, and the first answer may be its refusal while
the new leader stores the message (seen on 2.14.9: refusal 10164, then an acknowledgement).

Sources: nats-server 2.14 server/errors.json (codes and texts), jetstream_cluster.go (processClusteredInboundMsg),
jetstream_batching.go (checkMsgHeadersPreClusteredProposal), client.go (no responders).
"""

from typing import Final

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.coordination.session import Row, outcome
from fencepost.harness.history import CAS_MISMATCH as CAS_MISMATCH

#: Outcomes that the client itself decides, without an answer or from what an answer says.
NOT_CONNECTED: Final = "not-connected"
CONNECTION_LOST: Final = "connection-lost"
EXISTS: Final = "exists"
BEHIND: Final = "behind"
MALFORMED: Final = "malformed-answer"
WRONG_LAST_SEQUENCE: Final = "wrong-last-sequence"
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
    CAS_MISMATCH: "a read showed another value than the compare-and-set expects, or the answer names a later message of"
    " the subject than the expected one",
    EXISTS: "the answer names a message that the subject has already, so nothing was stored",
    ABSENT: "a read showed no value, or the mark of a deletion, so nothing was stored",
    UNSUPPORTED: "nothing was sent: NATS has no transaction over several subjects that has one position",
    NOT_WATCHING: "the client has no consumer, so nothing was sent",
    WATCH_SILENT: "neither a message nor a heartbeat came for 3 s: the watch is over, and changes nothing",
    WATCH_GAP: "the consumer's own sequence has a gap: the watch is over, and changes nothing",
    BEHIND: "the answer stands behind a message that was acknowledged before it was asked for: an effect-free read",
}


#: By `err_code` of an answer.
ERRORS: Final = {
    10071: Row(
        WRONG_LAST_SEQUENCE,
        Indefinite,
        "a leader that knows no message later than the expected one may be superseded (`publish_if` tells the others)",
    ),
    10164: Row(
        "wrong-last-sequence-in-flight",
        Indefinite,
        "what a superseded leader has proposed and cannot store stays in flight: the present leader may store this one",
    ),
    10060: Row("other-stream", Definite, "the stream of the subject is not the expected one: no leader takes it"),
    10059: Row(NO_STREAM, Definite, "there is no such stream: nothing to act on"),
    10037: Row(NO_MESSAGE, Definite, "a read found no message"),
    10008: Row(
        "no-leader",
        Indefinite,
        "the group has lost its quorum; a read changes nothing, and a message may have been proposed before",
    ),
    10005: Row(
        "no-suitable-peers",
        Definite,
        "the stream was not placed: too few servers are known to the leader of the meta group",
    ),
    10040: Row("peer-not-a-member", Definite, "the stream has no replica there: nothing changed"),
    10044: Row("server-not-a-member", Definite, "the meta group has no such server"),
    10075: Row("peer-remap-failed", Definite, "no other server can take the replica: refused before the proposal"),
    10202: Row(
        "member-change-in-progress",
        Definite,
        "the meta group changes one member at a time: refused before the proposal",
    ),
    10077: Row(
        "not-stored", Indefinite, "a superseded leader may find the stream full while the present one stores it"
    ),
    10023: Row("insufficient-resources", Indefinite, "may be answered when a stored message used up the limit"),
}

#: By the status of a message without content.
STATUSES: Final = {
    503: Row(
        NO_RESPONDERS, Definite, "the client's server knows nobody who is subscribed, and passed the message to nobody"
    ),
    404: Row(NO_MESSAGE, Definite, "a direct read found no message"),
    400: Row("bad-request", Definite, "the request was not understood"),
    408: Row("request-timed-out", Indefinite, "nothing arrived in time"),
}


def of_error(number: int, text: str) -> Definite | Indefinite:
    """The outcome of an answer with this `err_code`."""
    return outcome(ERRORS.get(number), f"jetstream-{number}", text)


def of_status(number: int, text: str) -> Definite | Indefinite:
    """The outcome of a message without content that has this status."""
    return outcome(STATUSES.get(number), f"status-{number}", text)


def number_at_end(refused: Indefinite) -> int:
    """The sequence that a refusal names: "wrong last sequence: 7"; 0 where it names none."""
    number = str(refused).rpartition(" ")[2]
    return int(number) if number.isdigit() else 0
