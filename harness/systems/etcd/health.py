"""One short attempt to learn how one member is: a fresh connection, one or two questions, and away."""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.systems.etcd.wire import rpc_pb2 as rpc
from fencepost.harness.systems.etcd.wire.grpc_call import connect, unary

_PROBED_KEY: Final = b"fencepost/probe"


class NoAnswer(Exception):
    """The member did not answer; the text says how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What one member said; `wrong` is None when it serves."""

    node: str
    leader: int = 0
    term: int = 0
    wrong: str | None = None


async def status(address: str, port: int, timeout_s: float) -> Any:
    """The member's Status; raises NoAnswer."""
    return await _asked(address, port, timeout_s, read=False)


async def health(node: str, address: str, port: int, timeout_s: float) -> Health:
    """Status and, where that finds nothing wrong, whether a linearizable read is answered."""
    try:
        said = await _asked(address, port, timeout_s, read=True)
    except NoAnswer as error:
        return Health(node=node, wrong=str(error))
    return Health(node=node, leader=said.leader, term=said.raftTerm, wrong=_complaint(said))


def _complaint(said: Any) -> str | None:
    return "; ".join(said.errors) or ("it knows no leader" if said.leader == 0 else None)


async def _asked(address: str, port: int, timeout_s: float, *, read: bool) -> Any:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    try:
        connection = await connect(address, port, timeout_s)
    except Definite as error:
        raise NoAnswer(str(error)) from None
    what = "Status"
    try:
        async with asyncio.timeout_at(deadline):
            ask = unary(connection, "Maintenance/Status", rpc.StatusResponse)
            said = await ask(rpc.StatusRequest())
            if read and _complaint(said) is None:
                what = "a linearizable read"
                ask = unary(connection, "KV/Range", rpc.RangeResponse)
                await ask(rpc.RangeRequest(key=_PROBED_KEY))
            return said
    except TimeoutError:
        raise NoAnswer(f"{what} was not answered within {timeout_s:g} s") from None
    except (Definite, Indefinite) as error:
        raise NoAnswer(f"{what} failed: {error}") from None
    finally:
        connection.close()
