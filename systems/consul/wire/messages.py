"""The parts of Consul's JSON that are used: pairs of the store, operations of transactions, services, what an agent
says."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec


class Pair(msgspec.Struct, frozen=True, rename="pascal", gc=False):
    """One entry of the key-value store; values are base64 on the wire."""

    key: str
    modify_index: int
    create_index: int = 0
    value: bytes | None = None


class TxnOperation(msgspec.Struct, frozen=True, rename="pascal", omit_defaults=True, gc=False):
    """One operation of a transaction on the key-value store."""

    verb: str
    key: str
    value: bytes | None = None
    index: int = 0
    session: str = ""


class _Done(msgspec.Struct, frozen=True, gc=False):
    KV: Pair


class _Refusal(msgspec.Struct, frozen=True, rename="pascal", gc=False):
    what: str
    op_index: int = 0


class _Outcome(msgspec.Struct, frozen=True, rename="pascal", gc=False):
    results: list[_Done] | None = None
    errors: list[_Refusal] | None = None


class _Configuration(msgspec.Struct, frozen=True, rename="pascal", gc=False):
    version: str


class Self(msgspec.Struct, frozen=True, rename="pascal", gc=False):
    """What an agent says of itself (`/v1/agent/self`): its release, and raft's figures as texts."""

    config: _Configuration
    stats: Mapping[str, Mapping[str, str]]


class Running(msgspec.Struct, frozen=True, rename="pascal", gc=False):
    """The same answer's other part: what the agent's configuration became."""

    debug_config: Mapping[str, Any]


class RaftServer(msgspec.Struct, frozen=True, rename="pascal", gc=False):
    """A server of the raft configuration; `node` is its name, `address` host and port of its RPC listener."""

    id: str = msgspec.field(name="ID")
    node: str
    address: str
    leader: bool
    voter: bool


class RaftConfiguration(msgspec.Struct, frozen=True, rename="pascal", gc=False):
    """The members of raft, as one server knows them (`/v1/operator/raft/configuration`)."""

    servers: list[RaftServer]


_ENCODE: Final = msgspec.json.Encoder()
_OUTCOME: Final = msgspec.json.Decoder(_Outcome)
PAIRS: Final = msgspec.json.Decoder(list[Pair])


def transaction(*operations: TxnOperation) -> bytes:
    """The body of a transaction."""
    return _ENCODE.encode([{"KV": operation} for operation in operations])


def results(body: bytes) -> list[Pair]:
    """The entries that a transaction's operations answered with, in order; some operations answer with none."""
    return [done.KV for done in _OUTCOME.decode(body).results or ()]


def first_refusal(body: bytes) -> str:
    """Why a transaction was rolled back, in the server's words."""
    refusals = _OUTCOME.decode(body).errors or ()
    return "; ".join(f"operation {refusal.op_index}: {refusal.what}" for refusal in refusals) or "no reason"


def pairs(body: bytes) -> list[Pair]:
    return PAIRS.decode(body)


def new_session(ttl_ms: int, lock_delay_ms: int) -> bytes:
    """The body of a request for a session that ends by its time to live alone, and deletes its keys then."""
    return _ENCODE.encode(
        {
            "TTL": f"{ttl_ms}ms",
            "LockDelay": f"{lock_delay_ms}ms",
            "Behavior": "delete",
            # An empty list: otherwise a session also ends when gossip declares its node failed.
            "NodeChecks": [],
        }
    )


class _Made(msgspec.Struct, frozen=True):
    ID: str


def made_session(body: bytes) -> str:
    """The id of the session that was made."""
    return msgspec.json.decode(body, type=_Made).ID


class _Renewed(msgspec.Struct, frozen=True):
    TTL: str


def renewed_ttl_ms(body: bytes) -> int:
    """The time to live of the session that was renewed, as it was written when the session was made."""
    return int(msgspec.json.decode(body, type=list[_Renewed])[0].TTL.removesuffix("ms"))


class _Registered(msgspec.Struct, frozen=True, rename="pascal", gc=False):
    meta: Mapping[str, str]
    create_index: int


class Instance(msgspec.Struct, frozen=True, rename="pascal", gc=False):
    """One instance of a service, as the catalog lists it: what it was registered with, and at which index."""

    service: _Registered


def registration(service: str, instance: str, meta: Mapping[str, str], ttl_ms: int) -> bytes:
    """The body that registers an instance whose check passes until nobody says so for its time to live."""
    check = {"TTL": f"{ttl_ms}ms", "Status": "passing"}
    return _ENCODE.encode({"ID": instance, "Name": service, "Meta": meta, "Check": check})


def instances(body: bytes) -> list[Instance]:
    return msgspec.json.decode(body, type=list[Instance])
