"""What Consul says to the rows of KIP-30 (`harness.contract.kip_rows`)."""

from typing import Final

from fencepost.harness.contract.kip_rows import Column, Part, Recipe, RowId, by_recipe, cannot, promised
from fencepost.systems.consul.options import MembersBy

_DOCS: Final = "developer.hashicorp.com/consul"
_MODES: Final = f"{_DOCS}/api-docs/features/consistency"
_TXN: Final = f"{_DOCS}/api-docs/txn"
_SESSIONS: Final = f"{_DOCS}/docs/dynamic-app-config/sessions"
_BLOCKING: Final = f"{_DOCS}/api-docs/features/blocking"

COLUMN: Final = Column(
    recipes=(
        Recipe(
            part=Part.MEMBERSHIP, name=MembersBy.SESSION_KEY, version=1, about="a key locked by a session of its own"
        ),
        Recipe(
            part=Part.MEMBERSHIP,
            name=MembersBy.CATALOG_TTL,
            version=1,
            about="a service instance in the catalog with a TTL check; it cannot hold M1, M2, M4a, M6 and M8",
            chosen_by=f"members={MembersBy.CATALOG_TTL}",
        ),
        Recipe(part=Part.ELECTION, name="session-lock", version=1, about="one key locked by the candidate's session"),
        Recipe(part=Part.STORAGE, name="key", version=1, about="a key; put is a transaction that finds it absent"),
        Recipe(part=Part.LISTENERS, name="blocking-query", version=1, about="one blocking query after the other"),
    ),
    claims={
        RowId.M1: promised(f"{_TXN}: atomic"),
        RowId.M2: promised(f"{_MODES}: consistent"),
        RowId.M3: promised(f"{_SESSIONS}: a session's end deletes the keys that it holds"),
        RowId.M4A: promised(f'{_SESSIONS}: the TTL "represents a lower bound for invalidation"'),
        RowId.M4B: by_recipe("up to twice the TTL; it begins again when a server takes over"),
        RowId.M5: promised(f"{_DOCS}/api-docs/kv: a recursive read is of one index"),
        RowId.M6: by_recipe("one server applies entries in order; nothing is said of stale reads"),
        RowId.M7: by_recipe("blocking queries tell states, and may merge changes"),
        RowId.M8: by_recipe("the member asks (session renew)"),
        RowId.L1: by_recipe("the session and the lock-delay: advisory locks"),
        RowId.L2: promised(f"{_MODES}: consistent"),
        RowId.L3: promised(f"{_MODES}: consistent; the default mode only in almost all cases"),
        RowId.L4: promised(f"{_TXN}: the release checks the index of the grant"),
        RowId.L5: promised(f"{_SESSIONS}; the lock-delay adds to it"),
        RowId.L6: promised(f"{_TXN}: acts check the index of the grant"),
        RowId.L7: by_recipe("blocking queries of one client; an index may go back"),
        RowId.L8: by_recipe("getLeader after a nominate of unknown outcome"),
        RowId.S1: promised(f"{_MODES}: consistent"),
        RowId.S2: promised(f"{_TXN}: atomic"),
        RowId.S3: promised(f"{_DOCS}/docs/architecture/consensus: durable on a quorum"),
        RowId.S4: by_recipe("two requests: a read, and a write on condition that the key has not changed since"),
        RowId.S5: cannot("the interface has no version to compare, whatever Consul has"),
        RowId.S6: by_recipe("a fetch after a put of unknown outcome"),
        RowId.S7: promised(f"{_DOCS}/docs/architecture/consensus: durable on a quorum"),
        RowId.N1: by_recipe("the client asks again after each answer"),
        RowId.N2: promised(f"{_DOCS}/api-docs/kv: each value with its ModifyIndex"),
        RowId.N3: by_recipe(f"{_BLOCKING}: a client must begin again when the index goes back"),
        RowId.N4: promised(f"{_BLOCKING}: a query with an index waits for any change after it"),
        RowId.N5: promised(f"{_BLOCKING}: the index of the read"),
        RowId.N6: by_recipe("the client stops asking"),
        RowId.N7: promised(f"{_BLOCKING}: an answer is the state at its index"),
    },
    unmeasured={RowId.N7: "a listener of the workload is told the values of its keys, and no set of keys"},
)
