"""What one server of Consul holds by its own answer: all pairs by a stale read."""

from fencepost.harness.contract.system import ReplicaState
from fencepost.harness.runtime.node import Place
from fencepost.systems.consul import agent
from fencepost.systems.consul.wire.messages import PAIRS


async def read(place: Place) -> list[ReplicaState]:
    """Read the server's pairs; raises OSError or ValueError. The caller bounds the wait."""
    pairs = PAIRS.decode(await agent.get(place, "/v1/kv/?recurse&stale", absent=True) or b"[]")
    return [
        ReplicaState(
            entries={
                pair.key: f"{(pair.value or b'').decode(errors='backslashreplace')}, of index {pair.modify_index}, "
                f"created at {pair.create_index}"
                for pair in pairs
            }
        )
    ]
