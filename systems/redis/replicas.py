"""What one server of Redis holds by its own answer: every key, read by one script while nothing else runs.

A replica has no command of its own for it: DEBUG DIGEST is off by default, and DUMP shows how a server keeps a value.
"""

from typing import Final

from fencepost.harness.contract.system import ReplicaState
from fencepost.harness.runtime.node import Place
from fencepost.systems.redis.wire import SERVER_PORT, ask_once

_ATTEMPT_S: Final = 4.0
_ALL: Final = """
local read = {string = {'GET'}, set = {'SMEMBERS'}, list = {'LRANGE', 0, -1}}
local held = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
    local kind = redis.call('TYPE', key).ok
    -- A kind that is not known here ends the script, and with it the comparison: nothing is left out unseen.
    if kind ~= 'none' then
        local how = read[kind]
        held[#held + 1] = {key, kind, redis.call(how[1], key, unpack(how, 2))}
    end
end
return held"""


async def read(place: Place) -> list[ReplicaState]:
    """Read the server's keys; raises Definite, Indefinite or TimeoutError."""
    entries: dict[str, str] = {}
    for key, kind, value in await ask_once(place.dial(SERVER_PORT), "EVAL", _ALL, 0, timeout_s=_ATTEMPT_S):
        name = _text(key)
        if kind == b"set":
            entries |= {f"{name} {_text(element)}": "an element" for element in value}
        elif kind == b"list":
            entries |= {f"{name} [{at}]": _text(element) for at, element in enumerate(value)}
        else:
            entries[name] = _text(value)
    return [ReplicaState(entries=entries)]


def _text(value: bytes) -> str:
    return value.decode(errors="backslashreplace")
