"""The state that the example's nodes agree on: keys with values, changed by commands in the order of the log.

A command is a JSON object: `op`, `key` and what the operation needs. Applying it gives its reply: the value read or
written, or `error` with a word for why nothing was done. `position` is the command's index in the log.

A key may be bound to a lease and goes with it. Time does not stand in the log: the leader counts, and asks for the end
of a lease that was kept `kept` times; if it was kept again meanwhile, nothing happens.
"""

from typing import Any, Final

Command = dict[str, Any]
Answer = dict[str, Any]

LEASE_COMMANDS: Final = ("grant", "keep", "end")


class ExampleStore:
    """The state after the commands up to `position`; one that `skips` leaves out every tenth command."""

    def __init__(self, *, skips: bool = False) -> None:
        self._skips = skips
        self.position = 0
        self._values: dict[str, tuple[str, int]] = {}
        #: By lease: its time to live in milliseconds, and how often it was kept.
        self.leases: dict[str, tuple[int, int]] = {}
        self._bound: dict[str, list[str]] = {}

    def apply(self, position: int, command: Command) -> Answer:
        """Apply the command at this index of the log; returns its reply."""
        self.position = position
        if self._skips and position % 10 == 0:
            command = {"op": "read"}
        op, key = command["op"], command.get("key", "")
        if op in LEASE_COMMANDS:
            return self._apply_to_lease(position, command)
        if "lease" in command and command["lease"] not in self.leases:
            return {"error": "lease-expired"}
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
        if "lease" in command:
            self._bound.setdefault(command["lease"], []).append(key)
        return {"value": command["value"], "value_position": position, "position": position}

    def _apply_to_lease(self, position: int, command: Command) -> Answer:
        op, lease = command["op"], command.get("lease", f"{position:x}")
        if op == "grant":
            self.leases[lease] = (command["ttl_ms"], 0)
        if lease not in self.leases:
            return {"error": "lease-expired"}
        ttl_ms, kept = self.leases[lease]
        if op == "keep":
            self.leases[lease] = (ttl_ms, kept + 1)
        elif op == "end":
            if command.get("kept", kept) != kept:
                return {"error": "kept"}
            del self.leases[lease]
            for key in self._bound.pop(lease, ()):
                self._values.pop(key, None)
        return {"lease": lease, "ttl_ms": ttl_ms, "position": position}

    def read(self, command: Command) -> Answer:
        """The reply of a read from the store as it is now; that of "dump" has a text for each key."""
        if command["op"] == "dump":
            leases = {f"lease {lease}": f"kept {kept} times" for lease, (_, kept) in self.leases.items()}
            values = {key: f"{value} at {at}" for key, (value, at) in self._values.items()}
            return {"entries": values | leases, "position": self.position}
        if command["op"] == "members":
            name = command["key"] + "/"
            elements = sorted(int(key.removeprefix(name)) for key in self._values if key.startswith(name))
            return {"elements": elements, "position": self.position}
        if command["op"] == "roster":
            name = command["key"] + "/"
            pairs = sorted((key, *pair) for key, pair in self._values.items() if key.startswith(name))
            return {"pairs": [[key.removeprefix(name), *pair] for key, *pair in pairs], "position": self.position}
        value, at = self._values.get(command.get("key", ""), (None, None))
        return {"value": value, "value_position": at, "position": self.position}
