"""`python -m bench.http2 [ROUNDS]`: the harness' own HTTP/2 against the library `h2`, in CPU time per operation.

Prints the table of docs/explanation/own-http2.md. `pip install h2` first: nothing else needs it.
"""

import asyncio
import os
import statistics
import sys
import time
from typing import Any, Final

import hpack

from bench.http2_by_h2 import H2Connection
from bench.http2_inside import CONNECTIONS, PACES
from fencepost.harness.systems.etcd.wire import http2
from fencepost.harness.systems.etcd.wire.headers import write_block
from tests.lab_scenario import run_scenario
from tests.systems.etcd import etcd_wire as wire

_ROUNDS: Final = 9
_SECONDS: Final = {"closed loop": 3.0, "paced": 10.0}
_EXCHANGES: Final = 5000
_ALONE: Final = "framing alone"
_REQUEST: Final = write_block(
    [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/etcdserverpb.KV/Put"),
        (":authority", "10.0.0.1:2379"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("user-agent", "fencepost"),
    ]
)
#: What grpc-go says as soon as it has a request.
_RECEIVED: Final = wire.window_update(0, 55) + wire.frame(wire.PING, 0, 0, http2._BANDWIDTH_PING)


def main(rounds: int) -> None:
    runs = [asyncio.run(_exchange(name)) for _ in range(rounds) for name in CONNECTIONS]
    runs += run_scenario(
        "bench.http2_inside:take_turns",
        {"rounds": rounds, "seconds": _SECONDS},
        timeout_s=60 + rounds * len(CONNECTIONS) * 2 * sum(_SECONDS.values()),
        uvloop=True,
    )
    print(f"{rounds} rounds in turns, load {os.getloadavg()[0]:.1f}")
    print("| pace | connection | CPU per operation, median (range) | more than own, median (range) | operations/s |")
    print("| --- | --- | --- | --- | --- |")
    for pace in (_ALONE, *PACES):
        own = [run["cpu_us"] for run in runs if (run["pace"], run["connection"]) == (pace, "own")]
        for name in CONNECTIONS:
            these = [run for run in runs if (run["pace"], run["connection"]) == (pace, name)]
            costs = [run["cpu_us"] for run in these]
            more = [cost - base for cost, base in zip(costs, own, strict=True)]
            rate = statistics.median(run["operations_per_s"] for run in these)
            print(f"| {pace} | {name} | {_spread(costs)} | {_spread(more) if name != 'own' else '-'} | {rate:.0f} |")


def _spread(figures: list[float]) -> str:
    return f"{statistics.median(figures):.0f} us ({min(figures):.0f} to {max(figures):.0f})"


async def _exchange(name: str) -> dict[str, Any]:
    """What a small request and its answer cost with no server and no socket: the framing's share of an operation."""
    connection = CONNECTIONS[name]("here")
    connection.connection_made(_Nowhere())
    connection.data_received(wire.settings() + wire.frame(wire.SETTINGS, wire.ACK, 0))
    encoder = hpack.Encoder()
    if type(connection) is not H2Connection:
        encoder.header_table_size = 0  # they asked the server to keep none
    answers = [_answer(encoder, number) for number in range(1, 2 * _EXCHANGES, 2)]
    began = time.process_time()
    for answer in answers:
        stream = connection.request(_REQUEST, bytes(55))
        connection.data_received(_RECEIVED)
        connection.data_received(answer)
        assert stream.answer.done()
    cost = (time.process_time() - began) / _EXCHANGES
    return {"pace": _ALONE, "connection": name, "cpu_us": cost * 1e6, "operations_per_s": 1 / cost}


def _answer(encoder: hpack.Encoder, number: int) -> bytes:
    head = wire.frame(wire.HEADERS, wire.END_HEADERS, number, encoder.encode(wire.OK_HEAD))
    end = wire.frame(wire.HEADERS, wire.END_HEADERS | wire.END_STREAM, number, encoder.encode(wire.OK_END))
    return head + wire.frame(wire.DATA, 0, number, wire.PUT) + end


class _Nowhere(asyncio.Transport):
    def write(self, data: Any) -> None:
        pass

    def is_closing(self) -> bool:
        return False


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else _ROUNDS)
