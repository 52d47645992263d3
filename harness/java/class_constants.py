"""Whether a Java program knows a name: a name that its code reads is a constant in one of its class files.

This finds a misspelt setting in any release without a list of settings. A class file holds each constant as tag 1, its
length in two bytes and the text (JVM specification, 4.4.7). A name that is built only at run time is missed, and a
constant with another purpose is accepted.
"""

import re
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import MachineError, Refusal
from fencepost.harness.contract.server_settings import unknown

_ACCESSOR: Final = re.compile(rb"(get|set|is|with)[A-Z]")
#: A constant of 4 to 80 letters, after its length.
_NAME: Final = re.compile(rb"\x01(\x00[\x04-\x50])(?=([a-z][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*))")


def refuse_unknown(
    of: str,
    spelled: Mapping[str, Collection[str]],
    jars: Sequence[Path],
    *,
    what: str,
    only: str = "",
    prefix: str = "",
) -> Refusal | None:
    """Refuse the first key of this owner that has no name in the classes; None when all have, or there are no jars.

    Args:
        spelled: by key, the constants of which one must be there.
        what: what an unknown key is not, for the message: "known to Kafka 4.0.0".
        only: the class to look into, a path in a jar; "" for all.
        prefix: of constants, left out where a key is compared with them for a hint.
    """
    if not spelled or not jars:
        return None
    known = constants(jars, {name for alternatives in spelled.values() for name in alternatives}, only=only)
    for key, alternatives in spelled.items():
        if known.isdisjoint(alternatives):
            near = {name if key.startswith(prefix) else name.removeprefix(prefix) for name in names(jars, only=only)}
            return unknown(of, key, near, what=what)
    return None


def constants(jars: Iterable[Path], wanted: Collection[str], *, only: str = "") -> set[str]:
    """The names of `wanted` that are constants in a class of these jars, or in the class `only` (a path in a jar).

    Raises MachineError for a jar that cannot be read.
    """
    left = {b"\x01" + len(word.encode()).to_bytes(2, "big") + word.encode(): word for word in wanted}
    present: set[str] = set()
    for content in _classes(jars, only):
        for pattern in [pattern for pattern in left if pattern in content]:
            present.add(left.pop(pattern))
        if not left:
            break
    return present


def names(jars: Iterable[Path], *, only: str = "") -> set[str]:
    """Every constant that looks like the name of a setting and not like a method; for hints. `only` as above."""
    candidates: set[str] = set()
    for content in _classes(jars, only):
        for match in _NAME.finditer(content):
            length = int.from_bytes(match[1], "big")
            text = match[2][:length]
            if len(text) == length and not _ACCESSOR.match(text):
                candidates.add(text.decode())
    return candidates


def _classes(jars: Iterable[Path], only: str = "") -> Iterator[bytes]:
    for jar in jars:
        try:
            with zipfile.ZipFile(jar) as archive:
                for entry in archive.infolist():
                    if entry.filename == only or (not only and entry.filename.endswith(".class")):
                        yield archive.read(entry)
        except (OSError, zipfile.BadZipFile) as error:
            raise MachineError(
                f"{jar} cannot be read: {error}", hint="fetch it again: remove it from the cache"
            ) from None
