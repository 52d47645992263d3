"""What an operator asks of Consul while it serves (developer.hashicorp.com/consul/api-docs, Snapshot and Operator)."""

import io
import json
import tarfile
from collections.abc import Mapping
from contextlib import closing
from typing import Final

from fencepost.harness.contract.system import MaintenanceRequest
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.runtime.node import Node
from fencepost.systems.consul.configuration import CLIENT_PORT
from fencepost.systems.consul.wire import errors
from fencepost.systems.consul.wire.calls import connect

_DIAL_S: Final = 2.0
_AUTOPILOT: Final = "/v1/operator/autopilot"


async def _snapshot(node: Node) -> str:
    """Have this server save a snapshot, whether it leads or not, which also compacts its log; and read the archive."""
    with closing(await connect(*node.place.dial(CLIENT_PORT), _DIAL_S)) as calls:
        archive = await calls.operate("GET", "/v1/snapshot?stale")
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            written = files.extractfile("meta.json")
            meta = json.load(written) if written else {}
        return f"index {meta['Index']} of term {meta['Term']}, {len(archive)} bytes"
    except (tarfile.TarError, EOFError, KeyError, OSError, ValueError) as error:
        raise Indefinite("malformed-archive", f"{len(archive)} bytes that cannot be read: {error}") from None


async def _autopilot(node: Node) -> str:
    """Write autopilot's configuration as it is, an entry of the log that changes nothing, and ask what it finds."""
    with closing(await connect(*node.place.dial(CLIENT_PORT), _DIAL_S)) as calls:
        configuration = json.loads(await calls.operate("GET", f"{_AUTOPILOT}/configuration"))
        index = configuration["ModifyIndex"]
        body = json.dumps(configuration).encode()
        if (await calls.operate("PUT", f"{_AUTOPILOT}/configuration?cas={index}", body)).strip() != b"true":
            raise Definite(errors.CAS_MISMATCH, f"the configuration is not that of index {index} any more")
        state = json.loads(await calls.operate("GET", f"{_AUTOPILOT}/state"))
    return f"written over index {index}; {len(state['Voters'])} voters, failure tolerance {state['FailureTolerance']}"


REQUESTS: Final[Mapping[str, MaintenanceRequest]] = {
    "autopilot": MaintenanceRequest(_autopilot),
    "snapshot": MaintenanceRequest(_snapshot),
}
