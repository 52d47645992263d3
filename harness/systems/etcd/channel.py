"""One gRPC connection to one etcd node, with everything that gRPC does behind one's back turned off.

gRPC retries, reconnects, shares connections and goes through proxies. Here:
  - `grpc.enable_retries=0` and no service config: no retries, transparent ones included (gRFC A6: a stream that the
    server provably did not process, refused or never written, would otherwise be sent again: harmless, but not ours);
  - an own subchannel pool: channels to one address share a TCP connection otherwise;
  - an `ipv4:` target and no HTTP proxy: no name lookup, and `http_proxy` in the environment is not obeyed;
  - no idle time-out (the default closes a quiet connection after 30 minutes).
A channel that lost its connection cannot be told not to reconnect: it goes idle, and the next call would dial. So
callers ask `connected` before every call, which never becomes true again once it was false.

gRPC's own event engine serves a connection from threads of its own: three switches between threads per request and a
third of the processor time. The older poller (one thread) is chosen by name, which must happen before gRPC's first
import in the process: so this is the only module that imports it. The same goes for its habit of telling stderr of
every connection that a server closes. A value that the user set stays.
"""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from typing import Any, Final

os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_client")
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

import grpc
import grpc.aio

from harness.coordination import NotSent
from harness.systems.etcd.errors import NOT_CONNECTED

__all__ = ["Connection", "Method", "RpcError", "connect", "grpc", "make", "unary"]

RpcError: Final = grpc.aio.AioRpcError
#: One request in, one answer out. Prebuilt: building one per request would cost as much as the request.
Method = Callable[[Any], Awaitable[Any]]

_READY: Final = grpc.ChannelConnectivity.READY
_INT_MAX: Final = 2**31 - 1

_OPTIONS: Final[list[tuple[str, Any]]] = [
    ("grpc.enable_retries", 0),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.client_idle_timeout_ms", _INT_MAX),
    ("grpc.max_receive_message_length", -1),
    # Bandwidth probes are extra pings beside the requests, and the loop-back needs none.
    ("grpc.http2.bdp_probe", 0),
]


def make(address: str, port: int, *more: tuple[str, Any]) -> grpc.aio.Channel:
    """A channel to this address that has not begun to connect."""
    return grpc.aio.insecure_channel(f"ipv4:{address}:{port}", options=[*_OPTIONS, *more])


def unary(channel: grpc.aio.Channel, method: str, request: type[Any], answer: type[Any]) -> Method:
    """The call "Service/Method" on this channel."""
    call: Method = channel.unary_unary(
        f"/etcdserverpb.{method}", request_serializer=request.SerializeToString, response_deserializer=answer.FromString
    )
    return call


class Connection:
    """A channel that was connected once. `connected` turns false for good when the connection is lost."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel: Final = channel
        self._lost = False
        # Sees also a loss that is followed by a new connection before anybody asks.
        self._watch = asyncio.create_task(self._watch_loss(), name="etcd connection watch")

    @property
    def connected(self) -> bool:
        if not self._lost and self.channel.get_state() is not _READY:
            self._lost = True
        return not self._lost

    def lose(self) -> None:
        """Count it as lost: a request told so before the channel's state did."""
        self._lost = True

    async def _watch_loss(self) -> None:
        await self.channel.wait_for_state_change(_READY)
        self._lost = True

    async def close(self) -> None:
        """Give the connection up; requests under way end as cancelled. Idempotent."""
        self._lost = True
        self._watch.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._watch
        await self.channel.close()


async def connect(address: str, port: int, timeout_s: float) -> Connection:
    """Connect once: raises `NotSent` at the first refusal, or when the server said nothing before the deadline.

    Connected means that the server's HTTP/2 settings came, so a paused server does not count.
    """
    channel = make(address, port)
    where = f"{address}:{port}"
    try:
        async with asyncio.timeout(timeout_s):
            state = channel.get_state(try_to_connect=True)
            while state is not _READY:
                if state in (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN):
                    raise NotSent(NOT_CONNECTED, f"{where} refused the connection")
                await channel.wait_for_state_change(state)
                state = channel.get_state(try_to_connect=True)
    except TimeoutError:
        await channel.close()
        raise NotSent(NOT_CONNECTED, f"{where} did not answer within {timeout_s:g} s") from None
    except BaseException:
        await channel.close()
        raise
    return Connection(channel)
