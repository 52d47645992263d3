"""The 40 rows: what each method must guarantee, how a breach is called, what measures it, and what the interface lacks.

Source: KIP-30, section Public Interfaces; KIP-273, the trait KafkaMetastore.
"""

from collections.abc import Sequence
from typing import Final

from fencepost.campaigns.kip.columns import KipPart, Proposal, RowId
from fencepost.campaigns.kip.experiments import ExperimentId
from fencepost.campaigns.kip.row import KipRow, RowMeasure

_E = ExperimentId


_COMPARES_NOTHING: Final = (
    "update compares nothing: two clients that read one value both succeed, and one update is lost"
)
_MAY_MISS: Final = "KIP-30 does not guarantee that a listener is told of each change"
_NO_TOKEN: Final = "nominate returns true and no token, so no resource can refuse a leader whose term is over"
_ASK: Final = "the interface cannot tell one's own request of unknown outcome from another's"


def _members(guarantee: str, *rules: str) -> RowMeasure:
    return RowMeasure(_E.MEMBERS, guarantee, rules)


def _brokers(guarantee: str) -> RowMeasure:
    return RowMeasure(_E.BROKERS, guarantee)


def _watched(guarantee: str, *rules: str) -> RowMeasure:
    return RowMeasure(_E.LISTENERS, guarantee, rules)


def _topics(guarantee: str, *rules: str) -> RowMeasure:
    return RowMeasure(_E.TOPICS, guarantee, rules)


def _sessions(guarantee: str, *rules: str) -> RowMeasure:
    return RowMeasure(_E.SESSIONS, guarantee, rules)


ROWS: Final = (
    KipRow(
        id=RowId.M1,
        part=KipPart.MEMBERSHIP,
        text="join: of concurrent joins of one id exactly one succeeds while the first lives",
        anomaly="duplicate-member",
        measures=(_members("one-member-per-id"), _brokers("one-broker-per-id")),
    ),
    KipRow(
        id=RowId.M2,
        part=KipPart.MEMBERSHIP,
        text="a join that was acknowledged is in every list that is asked for later",
        anomaly="member-not-seen",
        measures=(_members("joined-member-listed"),),
    ),
    KipRow(
        id=RowId.M3,
        part=KipPart.MEMBERSHIP,
        text="leave removes one's own incarnation only",
        anomaly="stale-leave",
        measures=(_members("leave-ends-own-membership"), _brokers("broker-epochs")),
        lacks="leave takes an id and no incarnation; the recipe has to remember its own",
    ),
    KipRow(
        id=RowId.M4A,
        part=KipPart.MEMBERSHIP,
        text="a member that renewed within its time to live is not dropped",
        anomaly="early-eviction",
        measures=(_members("renewing-member-stays"),),
    ),
    KipRow(
        id=RowId.M4B,
        part=KipPart.MEMBERSHIP,
        text="a dead member goes within a bound",
        anomaly="ghost-member",
        measures=(_members("silent-member-goes"), _brokers("broker-fenced-in-time")),
    ),
    KipRow(
        id=RowId.M5,
        part=KipPart.MEMBERSHIP,
        text="membership pairs an id with the data of one incarnation",
        anomaly="torn-member",
        measures=(_members("member-data-belongs"),),
    ),
    KipRow(
        id=RowId.M6,
        part=KipPart.MEMBERSHIP,
        text="one client's lists never go back",
        anomaly="membership-went-back",
        measures=(_members("member-lists-in-order", "membership-went-back"), _brokers("partition-states-forward")),
    ),
    KipRow(
        id=RowId.M7,
        part=KipPart.MEMBERSHIP,
        text="a listener converges: its last call is the final membership",
        anomaly="listener-stuck",
        measures=(_members("group-listener-converges"), _brokers("partition-states-converge")),
        lacks=_MAY_MISS,
    ),
    KipRow(
        id=RowId.M8,
        part=KipPart.MEMBERSHIP,
        text="a member learns of its end no later than others act on it",
        anomaly="unaware-ghost",
        measures=(_members("member-told-of-its-end"), _brokers("broker-self-fencing")),
        lacks="no method tells a member that it was dropped, and its listener may miss that",
    ),
    KipRow(
        id=RowId.L1,
        part=KipPart.ELECTION,
        text="mutual exclusion: nobody leads from another's answer true to that one's resign or own expiry",
        anomaly="two-believers",
        measures=(RowMeasure(_E.BELIEF, "one-believed-leader"),),
        lacks="nominate returns no time until which its answer holds",
    ),
    KipRow(
        id=RowId.L2,
        part=KipPart.ELECTION,
        text="after nominate returned true, one's own getLeader says so",
        anomaly="leader-unsure",
        measures=(
            RowMeasure(_E.FENCING, "linearizable", ("leader-unsure",)),
            RowMeasure(_E.FENCING, "fresh-after-sync", ("leader-unsure",)),
        ),
    ),
    KipRow(
        id=RowId.L3,
        part=KipPart.ELECTION,
        text="getLeader is linearizable",
        anomaly="stale-leader-read",
        measures=(RowMeasure(_E.FENCING, "linearizable"), RowMeasure(_E.FENCING, "fresh-after-sync")),
    ),
    KipRow(
        id=RowId.L4,
        part=KipPart.ELECTION,
        text="resign by a non-leader or an old incarnation changes nothing",
        anomaly="deposed-by-stale-resign",
        measures=(RowMeasure(_E.BELIEF, "resign-ends-own-term"), RowMeasure(_E.FENCING, "resign-ends-own-term")),
        lacks="resign takes an id and no incarnation; the recipe has to remember its own",
    ),
    KipRow(
        id=RowId.L5,
        part=KipPart.ELECTION,
        text="somebody leads within a bound after healing",
        anomaly="no-leader",
        measures=(RowMeasure(_E.BELIEF, "somebody-leads-again"), RowMeasure(_E.FENCING, "somebody-leads-again")),
    ),
    KipRow(
        id=RowId.L6,
        part=KipPart.ELECTION,
        text="effects carry a token that grows with leadership, and the resource refuses older ones",
        anomaly="acted-after-its-term",
        measures=(RowMeasure(_E.FENCING, "one-acting-leader"), RowMeasure(_E.FENCING, "terms-grow")),
        lacks=_NO_TOKEN,
    ),
    KipRow(
        id=RowId.L7,
        part=KipPart.ELECTION,
        text="what one observer sees of leaders never goes back to an older one",
        anomaly="observed-term-went-back",
        measures=(
            RowMeasure(_E.BELIEF, "session-order", ("observed-term-went-back",)),
            RowMeasure(_E.FENCING, "linearizable", ("observed-term-went-back",)),
        ),
        lacks=_MAY_MISS,
    ),
    KipRow(
        id=RowId.L8,
        part=KipPart.ELECTION,
        text="a nominate that timed out may have won: getLeader must settle it before anyone acts",
        anomaly="unknowing-leader",
        measures=(RowMeasure(_E.FENCING, "unknown-campaign-is-settled"),),
        lacks=_ASK,
    ),
    KipRow(
        id=RowId.S1,
        part=KipPart.STORAGE,
        text="fetch, put and update of one key are linearizable",
        anomaly="stale-read, lost-write",
        measures=(RowMeasure(_E.REGISTERS, "linearizable"), _topics("metadata-forward")),
    ),
    KipRow(
        id=RowId.S2,
        part=KipPart.STORAGE,
        text="put: exactly one winner on an absent key",
        anomaly="double-create",
        measures=(
            RowMeasure(_E.STORAGE, "one-put-per-key"),
            RowMeasure(_E.MEMBERS, "one-member-per-id"),
            _topics("topic-names-linearizable", "name-taken-twice"),
        ),
    ),
    KipRow(
        id=RowId.S3,
        part=KipPart.STORAGE,
        text="after an acknowledged put, fetch is never None, since there is no delete",
        anomaly="vanished-key",
        measures=(
            RowMeasure(_E.ELEMENTS, "no-lost-acknowledged-writes"),
            _topics("topic-names-linearizable", "denied-taken-name"),
        ),
    ),
    KipRow(
        id=RowId.S4,
        part=KipPart.STORAGE,
        text="update of an absent key fails",
        anomaly="update-created",
        measures=(RowMeasure(_E.STORAGE, "update-needs-key"),),
    ),
    KipRow(
        id=RowId.S5,
        part=KipPart.STORAGE,
        text="read, change and update loses no other update",
        anomaly="lost-update",
        measures=(RowMeasure(_E.STORAGE, "update-loses-none"),),
        lacks=_COMPARES_NOTHING,
        construction=_COMPARES_NOTHING,
    ),
    KipRow(
        id=RowId.S6,
        part=KipPart.STORAGE,
        text="where put is told that the key exists, after one's own put that timed out, a fetch shows whose it is",
        anomaly="phantom-conflict",
        measures=(
            RowMeasure(_E.STORAGE, "own-put-is-settled"),
            _topics("topic-names-linearizable", "invented-name"),
        ),
        lacks=_ASK,
    ),
    KipRow(
        id=RowId.S7,
        part=KipPart.STORAGE,
        text="what was acknowledged survives the death of a minority",
        anomaly="lost-acknowledged-write",
        measures=(
            RowMeasure(_E.ELEMENTS, "no-lost-acknowledged-writes", ("lost-write", "lost-after-seen")),
            _topics("metadata-durable"),
        ),
    ),
    KipRow(
        id=RowId.N1,
        part=KipPart.LISTENERS,
        text="a listener is permanent: it is called again without a new registration",
        anomaly="one-shot",
        measures=(_watched("watch-reliable"), _topics("metadata-listener-complete")),
        lacks=_MAY_MISS,
    ),
    KipRow(
        id=RowId.N2,
        part=KipPart.LISTENERS,
        text="a listener is called with written values only",
        anomaly="phantom-event",
        measures=(
            _watched("watch-truthful"),
            _topics("metadata-durable", "refused-change-took-effect"),
            _topics("metadata-listener-order", "listener-differs-from-disk"),
        ),
    ),
    KipRow(
        id=RowId.N3,
        part=KipPart.LISTENERS,
        text="per key, a listener is never called back in time",
        anomaly="event-back",
        measures=(_watched("watch-ordered"), _topics("metadata-listener-order")),
    ),
    KipRow(
        id=RowId.N4,
        part=KipPart.LISTENERS,
        text="the last value arrives once it is quiet",
        anomaly="lost-last-event",
        measures=(_watched("watch-reliable"), _topics("metadata-listener-complete")),
        lacks=_MAY_MISS,
    ),
    KipRow(
        id=RowId.N5,
        part=KipPart.LISTENERS,
        text="no change falls between the read and the first call",
        anomaly="missed-update",
        measures=(
            _watched("watch-resumable"),
            _watched("watch-ordered", "event-from-before-the-start"),
            _topics("metadata-listener-order", "listener-missed-offset"),
        ),
        lacks="a listener is added without the version of a read, so the gap is the recipe's to close",
    ),
    KipRow(
        id=RowId.N6,
        part=KipPart.LISTENERS,
        text="no call comes after the removal returned",
        anomaly="callback-after-remove",
        construction="the client's own table of listeners decides whom it calls, and a removed one is not in it,"
        " whatever the store still sends",
    ),
    KipRow(
        id=RowId.N7,
        part=KipPart.LISTENERS,
        text="a key set that a listener is called with was the set at some moment, and moments go forward",
        anomaly="torn-keyset",
        measures=(
            _watched("watch-atomic"),
            _topics("metadata-converges", "two-views-of-one-offset"),
        ),
    ),
    KipRow(
        id=RowId.K1,
        part=KipPart.METASTORE,
        text="requests of one session take effect and are answered in order, and reads see earlier writes",
        anomaly="session-order",
        measures=(_sessions("session-requests-in-order"),),
    ),
    KipRow(
        id=RowId.K2,
        part=KipPart.METASTORE,
        text="handleRequests sends all at once; after a refusal the rest is carried out",
        anomaly="batch-broken",
        measures=(_sessions("batches-go-on"),),
    ),
    KipRow(
        id=RowId.K3,
        part=KipPart.METASTORE,
        text="multi with check is atomic",
        anomaly="acted-after-its-term",
        measures=(RowMeasure(_E.FENCING, "one-acting-leader"),),
    ),
    KipRow(
        id=RowId.K4,
        part=KipPart.METASTORE,
        text="zkVersion begins at 0 and grows by one with every write",
        anomaly="version-skew",
        measures=(_sessions("versions-count-writes"),),
    ),
    KipRow(
        id=RowId.K5,
        part=KipPart.METASTORE,
        text="an ephemeral goes with its session and has no children",
        anomaly="orphan-ephemeral, child-of-ephemeral",
        measures=(_sessions("ephemerals-belong-to-sessions"),),
    ),
    KipRow(
        id=RowId.K6,
        part=KipPart.METASTORE,
        text="sequential names grow and are never used again",
        anomaly="seq-reuse",
        unmeasured="no scenario makes sequential names",
    ),
    KipRow(
        id=RowId.K7,
        part=KipPart.METASTORE,
        text="a parent with children is not deleted (NotEmpty)",
        anomaly="orphan-child",
        measures=(_sessions("no-orphan-children"),),
    ),
    KipRow(
        id=RowId.K8,
        part=KipPart.METASTORE,
        text="a session that is over serves nothing more, and its owner is told before it goes on",
        anomaly="silent-new-session",
        measures=(_sessions("ended-session-is-refused"),),
    ),
    KipRow(
        id=RowId.K9,
        part=KipPart.METASTORE,
        text="a handler hears of a change before an answer shows it",
        anomaly="watch-before-answer",
        measures=(_sessions("events-before-answers"),),
    ),
)


def rows_of(proposal: Proposal) -> tuple[KipRow, ...]:
    return tuple(row for row in ROWS if row.proposal is proposal)


def parts_of(proposal: Proposal) -> frozenset[KipPart]:
    return frozenset(row.part for row in rows_of(proposal))


def experiments_of(rows: Sequence[KipRow]) -> frozenset[ExperimentId]:
    """The experiments that these rows are measured by."""
    return frozenset(measure.experiment for row in rows for measure in row.measures)
