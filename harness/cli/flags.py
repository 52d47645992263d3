"""Values of flags that several commands take."""

import os

from fencepost.harness.base.errors import UsageError


def seed_or_drawn(given: int | None) -> int:
    """The seed that was given, else one of the system's randomness."""
    return given if given is not None else int.from_bytes(os.urandom(4), "big")


def pairs(texts: tuple[str, ...], flag: str) -> dict[str, str]:
    """`NAME=VALUE` by name; raises UsageError."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"{flag} {text!r}: expected NAME=VALUE")
        if name in found:
            raise UsageError(f"{flag} {name}= is given twice", hint="leave one of them out")
        found[name] = value
    return found
