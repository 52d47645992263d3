"""The 40 rows: what each method must guarantee, how a breach is called, what measures it, and what the interface lacks.

Source: KIP-30, section Public Interfaces; KIP-273, the trait KafkaMetastore.
"""

from collections.abc import Sequence
from typing import Final

from fencepost.campaigns.kip.columns import Part, Proposal, RowId
from fencepost.campaigns.kip.experiments import ExperimentId
from fencepost.campaigns.kip.row import Measure, Row

_E = ExperimentId


_COMPARES_NOTHING: Final = (
    "update compares nothing: two clients that read one value both succeed, and one update is lost"
)
_MAY_MISS: Final = "KIP-30 does not guarantee that a listener is told of each change"
_NO_TOKEN: Final = "nominate returns true and no token, so no resource can refuse a leader whose term is over"
_ASK: Final = "the interface cannot tell one's own request of unknown outcome from another's"


def _members(guarantee: str, *rules: str) -> Measure:
    return Measure(_E.MEMBERS, guarantee, rules)


def _brokers(guarantee: str) -> Measure:
    return Measure(_E.BROKERS, guarantee)


def _watched(guarantee: str, *rules: str) -> Measure:
    return Measure(_E.LISTENERS, guarantee, rules)


def _topics(guarantee: str, *rules: str) -> Measure:
    return Measure(_E.TOPICS, guarantee, rules)


def _sessions(guarantee: str, *rules: str) -> Measure:
    return Measure(_E.SESSIONS, guarantee, rules)


ROWS: Final = (
    Row(
        id=RowId.M1,
        part=Part.MEMBERSHIP,
        text="join: of concurrent joins of one id exactly one succeeds while the first lives",
        anomaly="duplicate-member",
        measures=(_members("one-member-per-id"), _brokers("one-broker-per-id")),
    ),
    Row(
        id=RowId.M2,
        part=Part.MEMBERSHIP,
        text="a join that was acknowledged is in every list that is asked for later",
        anomaly="member-not-seen",
        measures=(_members("joined-member-listed"),),
    ),
    Row(
        id=RowId.M3,
        part=Part.MEMBERSHIP,
        text="leave removes one's own incarnation only",
        anomaly="stale-leave",
        measures=(_members("leave-ends-own-membership"), _brokers("broker-epochs")),
        lacks="leave takes an id and no incarnation; the recipe has to remember its own",
    ),
    Row(
        id=RowId.M4A,
        part=Part.MEMBERSHIP,
        text="a member that renewed within its time to live is not dropped",
        anomaly="early-eviction",
        measures=(_members("renewing-member-stays"),),
    ),
    Row(
        id=RowId.M4B,
        part=Part.MEMBERSHIP,
        text="a dead member goes within a bound",
        anomaly="ghost-member",
        measures=(_members("silent-member-goes"), _brokers("broker-fenced-in-time")),
    ),
    Row(
        id=RowId.M5,
        part=Part.MEMBERSHIP,
        text="membership pairs an id with the data of one incarnation",
        anomaly="torn-member",
        measures=(_members("member-data-belongs"),),
    ),
    Row(
        id=RowId.M6,
        part=Part.MEMBERSHIP,
        text="one client's lists never go back",
        anomaly="membership-went-back",
        measures=(_members("member-lists-in-order", "membership-went-back"), _brokers("partition-states-forward")),
    ),
    Row(
        id=RowId.M7,
        part=Part.MEMBERSHIP,
        text="a listener converges: its last call is the final membership",
        anomaly="listener-stuck",
        measures=(_members("group-listener-converges"), _brokers("partition-states-converge")),
        lacks=_MAY_MISS,
    ),
    Row(
        id=RowId.M8,
        part=Part.MEMBERSHIP,
        text="a member learns of its end no later than others act on it",
        anomaly="unaware-ghost",
        measures=(_members("member-told-of-its-end"), _brokers("broker-self-fencing")),
        lacks="no method tells a member that it was dropped, and its listener may miss that",
    ),
    Row(
        id=RowId.L1,
        part=Part.ELECTION,
        text="mutual exclusion: nobody leads from another's answer true to that one's resign or own expiry",
        anomaly="two-believers",
        measures=(Measure(_E.BELIEF, "one-believed-leader"),),
        lacks="nominate returns no time until which its answer holds",
    ),
    Row(
        id=RowId.L2,
        part=Part.ELECTION,
        text="after nominate returned true, one's own getLeader says so",
        anomaly="leader-unsure",
        measures=(
            Measure(_E.FENCING, "linearizable", ("leader-unsure",)),
            Measure(_E.FENCING, "fresh-after-sync", ("leader-unsure",)),
        ),
    ),
    Row(
        id=RowId.L3,
        part=Part.ELECTION,
        text="getLeader is linearizable",
        anomaly="stale-leader-read",
        measures=(Measure(_E.FENCING, "linearizable"), Measure(_E.FENCING, "fresh-after-sync")),
    ),
    Row(
        id=RowId.L4,
        part=Part.ELECTION,
        text="resign by a non-leader or an old incarnation changes nothing",
        anomaly="deposed-by-stale-resign",
        measures=(Measure(_E.BELIEF, "resign-ends-own-term"), Measure(_E.FENCING, "resign-ends-own-term")),
        lacks="resign takes an id and no incarnation; the recipe has to remember its own",
    ),
    Row(
        id=RowId.L5,
        part=Part.ELECTION,
        text="somebody leads within a bound after healing",
        anomaly="no-leader",
        measures=(Measure(_E.BELIEF, "somebody-leads-again"), Measure(_E.FENCING, "somebody-leads-again")),
    ),
    Row(
        id=RowId.L6,
        part=Part.ELECTION,
        text="effects carry a token that grows with leadership, and the resource refuses older ones",
        anomaly="acted-after-its-term",
        measures=(Measure(_E.FENCING, "one-acting-leader"), Measure(_E.FENCING, "terms-grow")),
        lacks=_NO_TOKEN,
    ),
    Row(
        id=RowId.L7,
        part=Part.ELECTION,
        text="what one observer sees of leaders never goes back to an older one",
        anomaly="observed-term-went-back",
        measures=(
            Measure(_E.BELIEF, "session-order", ("observed-term-went-back",)),
            Measure(_E.FENCING, "linearizable", ("observed-term-went-back",)),
        ),
        lacks=_MAY_MISS,
    ),
    Row(
        id=RowId.L8,
        part=Part.ELECTION,
        text="a nominate that timed out may have won: getLeader must settle it before anyone acts",
        anomaly="unknowing-leader",
        measures=(Measure(_E.FENCING, "unknown-campaign-is-settled"),),
        lacks=_ASK,
    ),
    Row(
        id=RowId.S1,
        part=Part.STORAGE,
        text="fetch, put and update of one key are linearizable",
        anomaly="stale-read, lost-write",
        measures=(Measure(_E.REGISTERS, "linearizable"), _topics("metadata-forward")),
    ),
    Row(
        id=RowId.S2,
        part=Part.STORAGE,
        text="put: exactly one winner on an absent key",
        anomaly="double-create",
        measures=(
            Measure(_E.STORAGE, "one-put-per-key"),
            Measure(_E.MEMBERS, "one-member-per-id"),
            _topics("topic-names-linearizable", "name-taken-twice"),
        ),
    ),
    Row(
        id=RowId.S3,
        part=Part.STORAGE,
        text="after an acknowledged put, fetch is never None, since there is no delete",
        anomaly="vanished-key",
        measures=(
            Measure(_E.ELEMENTS, "no-lost-acknowledged-writes"),
            _topics("topic-names-linearizable", "denied-taken-name"),
        ),
    ),
    Row(
        id=RowId.S4,
        part=Part.STORAGE,
        text="update of an absent key fails",
        anomaly="update-created",
        measures=(Measure(_E.STORAGE, "update-needs-key"),),
    ),
    Row(
        id=RowId.S5,
        part=Part.STORAGE,
        text="read, change and update loses no other update",
        anomaly="lost-update",
        measures=(Measure(_E.STORAGE, "update-loses-none"),),
        lacks=_COMPARES_NOTHING,
        construction=_COMPARES_NOTHING,
    ),
    Row(
        id=RowId.S6,
        part=Part.STORAGE,
        text="where put is told that the key exists, after one's own put that timed out, a fetch shows whose it is",
        anomaly="phantom-conflict",
        measures=(
            Measure(_E.STORAGE, "own-put-is-settled"),
            _topics("topic-names-linearizable", "invented-name"),
        ),
        lacks=_ASK,
    ),
    Row(
        id=RowId.S7,
        part=Part.STORAGE,
        text="what was acknowledged survives the death of a minority",
        anomaly="lost-acknowledged-write",
        measures=(
            Measure(_E.ELEMENTS, "no-lost-acknowledged-writes", ("lost-write", "lost-after-seen")),
            _topics("metadata-durable"),
        ),
    ),
    Row(
        id=RowId.N1,
        part=Part.LISTENERS,
        text="a listener is permanent: it is called again without a new registration",
        anomaly="one-shot",
        measures=(_watched("watch-reliable"), _topics("metadata-listener-complete")),
        lacks=_MAY_MISS,
    ),
    Row(
        id=RowId.N2,
        part=Part.LISTENERS,
        text="a listener is called with written values only",
        anomaly="phantom-event",
        measures=(
            _watched("watch-truthful"),
            _topics("metadata-durable", "refused-change-took-effect"),
            _topics("metadata-listener-order", "listener-differs-from-disk"),
        ),
    ),
    Row(
        id=RowId.N3,
        part=Part.LISTENERS,
        text="per key, a listener is never called back in time",
        anomaly="event-back",
        measures=(_watched("watch-ordered"), _topics("metadata-listener-order")),
    ),
    Row(
        id=RowId.N4,
        part=Part.LISTENERS,
        text="the last value arrives once it is quiet",
        anomaly="lost-last-event",
        measures=(_watched("watch-reliable"), _topics("metadata-listener-complete")),
        lacks=_MAY_MISS,
    ),
    Row(
        id=RowId.N5,
        part=Part.LISTENERS,
        text="no change falls between the read and the first call",
        anomaly="missed-update",
        measures=(
            _watched("watch-resumable"),
            _watched("watch-ordered", "event-from-before-the-start"),
            _topics("metadata-listener-order", "listener-missed-offset"),
        ),
        lacks="a listener is added without the version of a read, so the gap is the recipe's to close",
    ),
    Row(
        id=RowId.N6,
        part=Part.LISTENERS,
        text="no call comes after the removal returned",
        anomaly="callback-after-remove",
        construction="the client's own table of listeners decides whom it calls, and a removed one is not in it,"
        " whatever the store still sends",
    ),
    Row(
        id=RowId.N7,
        part=Part.LISTENERS,
        text="a key set that a listener is called with was the set at some moment, and moments go forward",
        anomaly="torn-keyset",
        measures=(
            _watched("watch-atomic"),
            _topics("metadata-converges", "two-views-of-one-offset"),
        ),
    ),
    Row(
        id=RowId.K1,
        part=Part.METASTORE,
        text="requests of one session take effect and are answered in order, and reads see earlier writes",
        anomaly="session-order",
        measures=(_sessions("session-requests-in-order"),),
    ),
    Row(
        id=RowId.K2,
        part=Part.METASTORE,
        text="handleRequests sends all at once; after a refusal the rest is carried out",
        anomaly="batch-broken",
        measures=(_sessions("batches-go-on"),),
    ),
    Row(
        id=RowId.K3,
        part=Part.METASTORE,
        text="multi with check is atomic",
        anomaly="acted-after-its-term",
        measures=(Measure(_E.FENCING, "one-acting-leader"),),
    ),
    Row(
        id=RowId.K4,
        part=Part.METASTORE,
        text="zkVersion begins at 0 and grows by one with every write",
        anomaly="version-skew",
        measures=(_sessions("versions-count-writes"),),
    ),
    Row(
        id=RowId.K5,
        part=Part.METASTORE,
        text="an ephemeral goes with its session and has no children",
        anomaly="orphan-ephemeral, child-of-ephemeral",
        measures=(_sessions("ephemerals-belong-to-sessions"),),
    ),
    Row(
        id=RowId.K6,
        part=Part.METASTORE,
        text="sequential names grow and are never used again",
        anomaly="seq-reuse",
        unmeasured="no scenario makes sequential names",
    ),
    Row(
        id=RowId.K7,
        part=Part.METASTORE,
        text="a parent with children is not deleted (NotEmpty)",
        anomaly="orphan-child",
        measures=(_sessions("no-orphan-children"),),
    ),
    Row(
        id=RowId.K8,
        part=Part.METASTORE,
        text="a session that is over serves nothing more, and its owner is told before it goes on",
        anomaly="silent-new-session",
        measures=(_sessions("ended-session-is-refused"),),
    ),
    Row(
        id=RowId.K9,
        part=Part.METASTORE,
        text="a handler hears of a change before an answer shows it",
        anomaly="watch-before-answer",
        measures=(_sessions("events-before-answers"),),
    ),
)


def rows_of(proposal: Proposal) -> tuple[Row, ...]:
    return tuple(row for row in ROWS if row.proposal is proposal)


def parts_of(proposal: Proposal) -> frozenset[Part]:
    return frozenset(row.part for row in rows_of(proposal))


def experiments_of(rows: Sequence[Row]) -> frozenset[ExperimentId]:
    """The experiments that these rows are measured by."""
    return frozenset(measure.experiment for row in rows for measure in row.measures)
