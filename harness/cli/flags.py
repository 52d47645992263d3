"""Values of flags that several commands take."""

import os

from fencepost.harness.base.errors import UsageError


def seed_or_drawn(given: int | None) -> int:
    """The seed that was given, else one of the system's randomness."""
    return given if given is not None else int.from_bytes(os.urandom(4), "big")


def jobs_or_auto(text: str) -> int | None:
    """The number of runs side by side; None: as many as fit. Raises UsageError."""
    if text == "auto":
        return None
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1000:
        raise UsageError(f"--jobs {text!r}: expected auto, or a number from 1 to 1000")
    return int(text)


def pairs(texts: tuple[str, ...], flag: str) -> dict[str, str]:
    """`NAME=VALUE` by name; raises UsageError."""
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"{flag} {text!r}: expected NAME=VALUE")
        if name in values:
            raise UsageError(f"{flag} {name}= is given twice", hint="leave one of them out")
        values[name] = value
    return values
