"""One short check of one member: a new connection, one or two requests, and close."""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.systems.etcd.wire import rpc_pb2 as rpc
from fencepost.systems.etcd.wire.grpc_call import connect, unary

_PROBED_KEY: Final = b"fencepost/probe"


class _NoAnswer(Exception):
    """The member did not answer; the text says what happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdHealth:
    """The answer of one member; `wrong` is None when it serves."""

    node: str
    leader: int = 0
    term: int = 0
    wrong: str | None = None


async def status(address: str, port: int, timeout_s: float) -> Any:
    """Ask the member for its Status; raises NoAnswer."""
    return await _ask_status(address, port, timeout_s, read=False)


async def health(node: str, address: str, port: int, timeout_s: float) -> EtcdHealth:
    """Ask for Status and, where that is good, for a linearizable read."""
    try:
        status = await _ask_status(address, port, timeout_s, read=True)
    except _NoAnswer as error:
        return EtcdHealth(node=node, wrong=str(error))
    return EtcdHealth(node=node, leader=status.leader, term=status.raftTerm, wrong=_complaint(status))


def _complaint(status: Any) -> str | None:
    return "; ".join(status.errors) or ("it knows no leader" if status.leader == 0 else None)


async def _ask_status(address: str, port: int, timeout_s: float, *, read: bool) -> Any:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    try:
        connection = await connect(address, port, timeout_s)
    except Definite as error:
        raise _NoAnswer(str(error)) from None
    what = "Status"
    try:
        async with asyncio.timeout_at(deadline):
            ask = unary(connection, "Maintenance/Status", rpc.StatusResponse)
            status = await ask(rpc.StatusRequest())
            if read and _complaint(status) is None:
                what = "a linearizable read"
                ask = unary(connection, "KV/Range", rpc.RangeResponse)
                await ask(rpc.RangeRequest(key=_PROBED_KEY))
            return status
    except TimeoutError:
        raise _NoAnswer(f"{what} was not answered within {timeout_s:g} s") from None
    except (Definite, Indefinite) as error:
        raise _NoAnswer(f"{what} failed: {error}") from None
    finally:
        connection.close()
