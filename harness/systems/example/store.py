"""The state that the example's nodes agree on: keys with values, changed by commands in the order of the log.

A command is a JSON object: `op`, `key` and what the operation needs. Applying it gives its reply: the value read or
written, or `error` with a word for why nothing was done. `position` is the command's index in the log.
"""

from typing import Any

Command = dict[str, Any]
Answer = dict[str, Any]


class Store:
    """The state after the commands up to `position`."""

    def __init__(self) -> None:
        self.position = 0
        self._values: dict[str, tuple[str, int]] = {}

    def apply(self, position: int, command: Command) -> Answer:
        """Apply the command at this index of the log; returns its reply."""
        self.position = position
        op, key = command["op"], command.get("key", "")
        value, at = self._values.get(key, (None, None))
        match op:
            case "write":
                self._values[key] = (command["value"], position)
            case "cas" if value != command["old"]:
                return {"error": "cas-mismatch"}
            case "write-if" if at != command["at"]:
                return {"error": "cas-mismatch"}
            case "cas" | "write-if":
                self._values[key] = (command["value"], position)
            case "create" if value is not None:
                return {"error": "exists"}
            case "create":
                self._values[key] = (command["value"], position)
            case _:
                return self.read(command)
        return {"value": command["value"], "value_position": position, "position": position}

    def read(self, command: Command) -> Answer:
        """The reply of a read from the store as it is now."""
        if command["op"] == "members":
            name = command["key"] + "/"
            elements = sorted(int(key.removeprefix(name)) for key in self._values if key.startswith(name))
            return {"elements": elements, "position": self.position}
        value, at = self._values.get(command.get("key", ""), (None, None))
        return {"value": value, "value_position": at, "position": self.position}
