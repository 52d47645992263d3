"""The result of one step of the lab's trial, as a value: `trials` prints it, `provider` reads it."""

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One tried step. `detail` says how it worked, or why it failed; an empty `remedy` means the usual remedy."""

    step: str
    ok: bool
    detail: str
    remedy: str = ""

    def encode(self) -> str:
        """Return the result as one line of JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def decode(line: str) -> "Trial":
        """Read a line that `encode` wrote."""
        return Trial(**json.loads(line))
