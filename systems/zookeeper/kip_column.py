"""What ZooKeeper says to the rows of KIP-30 and KIP-273 (`harness.contract.kip_rows`)."""

from typing import Final

from fencepost.harness.contract.kip_rows import Column, Part, Recipe, RowId, by_recipe, cannot, promised

_GUIDE: Final = "Programmer's Guide"
_ORDER: Final = f"{_GUIDE}, Consistency Guarantees: sequential consistency"
_ATOMIC: Final = f"{_GUIDE}, Consistency Guarantees: atomicity"
_WATCHES: Final = f"{_GUIDE}, What ZooKeeper Guarantees about Watches"
_EPHEMERAL: Final = f"{_GUIDE}, Ephemeral Nodes"
_SYNC: Final = "a write of the same session before the read; sync alone asks no quorum (ZOOKEEPER-1675)"

COLUMN: Final = Column(
    recipes=(
        Recipe(part=Part.MEMBERSHIP, name="ephemeral", version=1, about="an ephemeral znode of a session of its own"),
        Recipe(part=Part.ELECTION, name="counted-lock", version=1, about="an ephemeral; its parent counts grants"),
        Recipe(part=Part.STORAGE, name="znode", version=1, about="a znode; put creates, update sets"),
        Recipe(part=Part.LISTENERS, name="recursive-watch", version=1, about="one persistent recursive watch (3.6)"),
        Recipe(part=Part.METASTORE, name="native", version=1, about="ZooKeeper's own requests on one session"),
    ),
    claims={
        RowId.M1: promised(f"{_ATOMIC}: a znode is created once"),
        RowId.M2: by_recipe(_SYNC),
        RowId.M3: by_recipe("leave closes the member's own session; a delete would go by id alone"),
        RowId.M4A: promised(f"{_EPHEMERAL}; the leader counts by its monotonic clock"),
        RowId.M4B: promised(f"{_GUIDE}, ZooKeeper Sessions; the guide does not say how soon after the time-out"),
        RowId.M5: by_recipe("getChildren and getData are several reads; each pair is of one incarnation"),
        RowId.M6: promised(f"{_GUIDE}, Consistency Guarantees: single system image"),
        RowId.M7: by_recipe("one-shot watches: each is set again by the next read"),
        RowId.M8: cannot("the client learns at its next connection; it must count its own time"),
        RowId.L1: by_recipe("the session: a leader that stalls for longer still believes"),
        RowId.L2: promised(_ORDER),
        RowId.L3: by_recipe(_SYNC),
        RowId.L4: by_recipe("a multi checks the version of the lock's own znode"),
        RowId.L5: promised(f"{_EPHEMERAL}: the znode goes with the session"),
        RowId.L6: promised(f"{_ATOMIC}: a multi checks the grant's version"),
        RowId.L7: promised(f"{_WATCHES}: in the order of the changes"),
        RowId.L8: by_recipe("getLeader after a nominate of unknown outcome"),
        RowId.S1: by_recipe(f"writes are linearizable; a read needs {_SYNC}"),
        RowId.S2: promised(f"{_ATOMIC}: a znode is created once"),
        RowId.S3: promised(f"{_GUIDE}, Consistency Guarantees: reliability"),
        RowId.S4: promised(f"{_ATOMIC}: setData of an absent znode is refused"),
        RowId.S5: cannot("the interface has no version to compare, whatever ZooKeeper has"),
        RowId.S6: by_recipe("a fetch after a put of unknown outcome"),
        RowId.S7: promised(f"{_GUIDE}, Consistency Guarantees: reliability"),
        RowId.N1: promised("addWatch of 3.6 is persistent; before, the client sets the watch again"),
        RowId.N2: promised(_WATCHES),
        RowId.N3: promised(f"{_WATCHES}: in the order of the changes"),
        RowId.N4: promised(f"{_WATCHES}: eventually, unless the session ends"),
        RowId.N5: by_recipe("the read that sets the watch; nothing reports what was missed while disconnected"),
        RowId.N6: by_recipe("the client stops calling"),
        RowId.N7: by_recipe("getChildren after the event: the set at the read, not at the event"),
        RowId.K1: promised(f"{_ORDER}: requests of a client take effect in the order sent"),
        RowId.K2: promised("requests of a session are answered in order, each by itself"),
        RowId.K3: promised(f"{_ATOMIC}: multi"),
        RowId.K4: promised(f"{_GUIDE}, ZooKeeper Stat Structure: version"),
        RowId.K5: promised(f"{_EPHEMERAL}: deleted with the session, without children"),
        RowId.K6: promised(f"{_GUIDE}, Sequence Nodes: a counter that the parent maintains"),
        RowId.K7: promised("delete refuses a znode with children (NotEmpty)"),
        RowId.K8: promised(f"{_GUIDE}, ZooKeeper Sessions: an expired session's requests are refused"),
        RowId.K9: promised(f"{_WATCHES}: a client sees the watch event before it sees the new data"),
    },
    unmeasured={RowId.N7: "a listener of the workload is told the values of its keys, and no set of keys"},
)
