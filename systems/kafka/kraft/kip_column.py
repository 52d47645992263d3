"""What KRaft says to the rows of KIP-30 (`harness.contract.kip_rows`), from what it offers.

Members are brokers that register, storage is topics' names and settings, and a listener fetches the metadata log from
the controllers as a broker does.
"""

from typing import Final

from fencepost.harness.contract.kip_rows import Column, Part, Recipe, RowId, by_recipe, cannot, promised

_BEHIND: Final = "a broker answers from its own copy of the log, which is behind"

COLUMN: Final = Column(
    recipes=(
        Recipe(part=Part.MEMBERSHIP, name="registration", version=1, about="a broker registers with an incarnation id"),
        Recipe(part=Part.ELECTION, name="transactional-id", version=1, about="a producer's epoch as the term"),
        Recipe(part=Part.STORAGE, name="topics-and-settings", version=1, about="names of topics, and configurations"),
        Recipe(
            part=Part.LISTENERS,
            name="metadata-log",
            version=2,
            about="an observer fetches the controllers' log, as a broker does",
        ),
    ),
    claims={
        RowId.M1: promised("KIP-631: DUPLICATE_BROKER_REGISTRATION"),
        RowId.M2: cannot(_BEHIND),
        RowId.M3: promised("KIP-631: a broker's requests carry its epoch"),
        RowId.M4A: promised("KIP-631, broker.session.timeout.ms; a new controller begins each session again"),
        RowId.M4B: promised("KIP-631, broker.session.timeout.ms"),
        RowId.M5: promised("one record holds id, incarnation and endpoints"),
        RowId.M6: by_recipe("one broker's copy of the log never goes back; another broker's may be older"),
        RowId.M7: by_recipe("brokers fetch the log until they have all of it"),
        RowId.M8: by_recipe("KIP-500: a broker that cannot heartbeat should stop serving"),
        RowId.L1: by_recipe("a quorum elects per epoch; two epochs may claim (KAFKA-15489, before 3.7)"),
        RowId.L2: by_recipe("the answer carries the epoch"),
        RowId.L3: cannot(_BEHIND),
        RowId.L4: promised("requests carry the producer's epoch"),
        RowId.L5: promised("KIP-595: a quorum elects"),
        RowId.L6: promised("KIP-890, KIP-360: a producer with an older epoch is fenced"),
        RowId.L7: by_recipe("the log's order, per broker"),
        RowId.L8: by_recipe("a second request of unknown outcome has a higher epoch"),
        RowId.S1: by_recipe(f"changes are ordered by the log; {_BEHIND}"),
        RowId.S2: promised("TOPIC_ALREADY_EXISTS"),
        RowId.S3: by_recipe(
            "a committed record is not lost (KIP-595), but a superseded controller may still answer that a name is free"
        ),
        RowId.S5: cannot("the interface has no version to compare"),
        RowId.S6: by_recipe("a second look after a creation of unknown outcome"),
        RowId.S7: promised("KIP-595: a quorum has it"),
        RowId.N1: promised("an observer fetches for as long as it runs"),
        RowId.N2: promised("KIP-595: the log of the quorum"),
        RowId.N3: promised("KIP-595: the log's offsets"),
        RowId.N4: promised("KIP-595: what is below the high watermark is given to whoever fetches"),
        RowId.N5: promised("a snapshot has an offset, and fetching goes on from there"),
        RowId.N7: promised("an image is of one offset"),
    },
    unmeasured={
        RowId.M4A: "no log says when a broker sent its heartbeats: one that was fenced too early looks like one whose"
        " heartbeats were late",
        RowId.M5: "a broker's endpoints are the same in each of its incarnations here, so mixed ones would not show",
        RowId.L2: "DescribeTransactions answers from a coordinator's memory, and there is no current read beside it",
    },
)
