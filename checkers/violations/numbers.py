"""Numbers for values, for searches that compare integers."""

from typing import Any

import msgspec

from fencepost.harness.history import Value


class Numbers:
    """Values that are equal as JSON get one number, in the order in which they were met."""

    def __init__(self) -> None:
        self.named: list[Value] = []
        self._numbers: dict[tuple[type, Any], int] = {}

    def number(self, value: Value) -> int:
        plain = isinstance(value, (int, str, float, bool, type(None)))
        known = type(value), value if plain else msgspec.json.encode(value, order="deterministic")
        if known not in self._numbers:
            self._numbers[known] = len(self.named)
            self.named.append(value)
        return self._numbers[known]
