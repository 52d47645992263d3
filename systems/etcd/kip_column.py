"""What etcd says to the rows of KIP-30 and KIP-273 (`harness.contract.kip_rows`)."""

from typing import Final

from fencepost.harness.contract.kip_rows import Column, Part, Recipe, RowId, by_recipe, cannot, promised

_API: Final = "etcd.io/docs/v3.5/learning/api_guarantees"
_STRICT: Final = f"{_API}, Strict serializability"
_WATCH: Final = f"{_API}, Watch APIs"
_RPC: Final = "api/etcdserverpb/rpc.proto"

COLUMN: Final = Column(
    recipes=(
        Recipe(part=Part.MEMBERSHIP, name="lease-key", version=1, about="a key on a lease, created where it is absent"),
        Recipe(part=Part.ELECTION, name="lease-lock", version=1, about="one key on the candidate's lease"),
        Recipe(part=Part.STORAGE, name="key", version=1, about="a key; put and update compare its create revision"),
        Recipe(part=Part.LISTENERS, name="watch", version=1, about="a watch from the revision after the read"),
        Recipe(
            part=Part.METASTORE, name="flat-keys", version=1, about="a path is a key; requests are calls on one channel"
        ),
    ),
    claims={
        RowId.M1: promised(f"{_STRICT}: transactions are atomic (create_revision = 0)"),
        RowId.M2: promised(f"{_STRICT}: a range is linearizable"),
        RowId.M3: promised(f"{_RPC}: LeaseRevoke deletes the keys of its lease alone"),
        RowId.M4A: promised(f'{_RPC}: a lease "expires if the server does not receive a keepAlive within" its TTL'),
        RowId.M4B: by_recipe("the leader's clock; a new leader begins every lease again"),
        RowId.M5: promised(f"{_API}: a range is of one revision"),
        RowId.M6: promised(f"{_STRICT}; serializable reads follow one member's revisions"),
        RowId.M7: promised(f"{_WATCH}: Reliable, Resumable"),
        RowId.M8: by_recipe("the member asks (keep-alive); the server calls nobody"),
        RowId.L1: by_recipe("the lease: a leader that stalls for longer still believes"),
        RowId.L2: promised(f"{_STRICT}"),
        RowId.L3: promised(f"{_STRICT}: a linearizable range"),
        RowId.L4: promised(f"{_STRICT}: a transaction compares the create revision of the grant"),
        RowId.L5: promised("a lease ends by its TTL; raft elects a leader while a majority is connected"),
        RowId.L6: promised(f"{_STRICT}: acts compare the create revision in their transaction"),
        RowId.L7: promised(f"{_WATCH}: Ordered"),
        RowId.L8: by_recipe("getLeader after a nominate of unknown outcome"),
        RowId.S1: promised(_STRICT),
        RowId.S2: promised(f"{_STRICT}: transactions are atomic"),
        RowId.S3: promised(f"{_API}, Durability"),
        RowId.S4: promised(f"{_STRICT}: transactions are atomic (create_revision > 0)"),
        RowId.S5: cannot("the interface has no version to compare, whatever etcd has"),
        RowId.S6: by_recipe("a fetch after a put of unknown outcome"),
        RowId.S7: promised(f"{_API}, Durability; not 3.5.0 to 3.5.2 (etcd#13766)"),
        RowId.N1: promised(f"{_WATCH}: a watch goes on until it is cancelled"),
        RowId.N2: promised("etcd.io/docs/v3.5/learning/api, Events"),
        RowId.N3: promised(f"{_WATCH}: Ordered"),
        RowId.N4: promised(f"{_WATCH}: Reliable; no bound on the delay is promised"),
        RowId.N5: promised(f"{_WATCH}: Resumable, from the revision of the read"),
        RowId.N6: by_recipe("the client stops calling; a cancel is not instant"),
        RowId.N7: promised(f"{_WATCH}: Atomic"),
        RowId.K1: cannot("unary calls on one connection are served side by side; only a client that waits has order"),
        RowId.K2: by_recipe("calls are independent of each other"),
        RowId.K3: promised(f"{_STRICT}: transactions are atomic, up to 128 operations by default"),
        RowId.K4: promised(f"{_API}: version counts the writes of a key since its creation; it begins at 1"),
        RowId.K5: by_recipe("the lease; nothing refuses children of such a key"),
        RowId.K6: by_recipe("the create revision as number"),
        RowId.K7: cannot("keys are flat: nothing ties a child to its parent without comparing ranges"),
        RowId.K8: cannot("a lease's end stops no request of the client that held it"),
        RowId.K9: cannot("watch and range are streams of their own, with no order between them"),
    },
)
