"""The requests that the client makes, each of them one HTTP request with one outcome."""

import itertools
from collections.abc import Mapping
from typing import Final

from fencepost.harness.coordination import Definite, Reply
from fencepost.harness.http.connection import HttpAnswer, HttpConnection, open_connection
from fencepost.systems.consul.wire import errors, messages
from fencepost.systems.consul.wire.messages import Instance, Pair, TxnOperation

#: Written by transactions that would otherwise name no index of their own. Its values differ, since Consul gives no new
#: index to a write that changes nothing.
_STAMP: Final = "fencepost/stamp"
_NUMBERS: Final = itertools.count(1)


async def connect(address: str, port: int, timeout_s: float) -> "ConsulCalls":
    """Connect once; raises `NotSent` when the agent refuses, or does not answer within `timeout_s`."""
    return ConsulCalls(await open_connection(address, port, timeout_s))


class ConsulCalls:
    """Requests on one connection; each returns, or raises `Definite` or `Indefinite`."""

    def __init__(self, connection: HttpConnection) -> None:
        self._connection: Final = connection

    def close(self) -> None:
        self._connection.close()

    async def pairs(self, prefix: str, query: str) -> tuple[list[Pair], int]:
        """Read one key, or with "recurse" all below it; and the index that the answer names."""
        answer = await self._connection.request("GET", f"/v1/kv/{prefix}?{query}")
        index = int(answer.headers.get("x-consul-index", 0))
        if answer.status == 404 and not answer.body.strip():
            return [], index
        return messages.pairs(_good(answer).body), index

    async def write(self, *operations: TxnOperation, otherwise: str | None = None) -> Reply:
        """Apply the operations in one transaction; the last one that answers with an entry names the index.

        Raises `Definite(otherwise)` when one of them does not hold.
        """
        answer = await self._connection.request("PUT", "/v1/txn", messages.transaction(*operations))
        if answer.status == 409:
            raise errors.outcome(409, messages.first_refusal(answer.body), otherwise)
        index = messages.results(_good(answer).body)[-1].modify_index
        return Reply(position=index, value_position=index)

    def stamp(self) -> TxnOperation:
        """A write that makes a transaction name its index."""
        return TxnOperation("set", _STAMP, b"%d" % next(_NUMBERS))

    async def make_session(self, ttl_ms: int, lock_delay_ms: int) -> str:
        body = messages.new_session(ttl_ms, lock_delay_ms)
        return messages.made_session(_good(await self._connection.request("PUT", "/v1/session/create", body)).body)

    async def renew_session(self, session: str) -> int:
        """Renew the session; returns its time to live in milliseconds."""
        body = _good(await self._connection.request("PUT", f"/v1/session/renew/{session}")).body
        return messages.renewed_ttl_ms(body)

    async def destroy_session(self, session: str) -> None:
        _good(await self._connection.request("PUT", f"/v1/session/destroy/{session}"))

    # Services, which belong to the agent at the other end. It answers from its own state, and tells the servers.

    async def register(self, service: str, instance: str, meta: Mapping[str, str], ttl_ms: int) -> None:
        body = messages.registration(service, instance, meta, ttl_ms)
        _good(await self._connection.request("PUT", "/v1/agent/service/register", body))

    async def pass_check(self, instance: str) -> None:
        """Let the check of this instance pass for another time to live."""
        _good(await self._connection.request("PUT", f"/v1/agent/check/pass/service:{instance}"))

    async def deregister(self, instance: str) -> None:
        _good(await self._connection.request("PUT", f"/v1/agent/service/deregister/{instance}"))

    async def passing(self, service: str, query: str) -> tuple[list[Instance], int]:
        """Every instance of which no check fails, its node's included; and the index that the answer names."""
        answer = _good(await self._connection.request("GET", f"/v1/health/service/{service}?passing&{query}"))
        return messages.instances(answer.body), int(answer.headers.get("x-consul-index", 0))

    async def transfer_leadership(self, server: str) -> None:
        """Ask the leader at the other end to let the server with this id lead."""
        answer = await self._connection.request("POST", f"/v1/operator/raft/transfer-leader?id={server}")
        if answer.status == 404 or answer.status == 405:
            raise Definite("refused", answer.body.decode(errors="replace").strip()[:300])
        _good(answer)

    async def operate(self, method: str, target: str, body: bytes = b"") -> bytes:
        """A request of an operator; returns the body of its answer."""
        return _good(await self._connection.request(method, target, body)).body


def _good(answer: HttpAnswer) -> HttpAnswer:
    """The answer, if its status says that the request was done; otherwise raises what the table says."""
    if answer.status == 200:
        return answer
    raise errors.outcome(answer.status, answer.body.decode(errors="replace").strip()[:300])
