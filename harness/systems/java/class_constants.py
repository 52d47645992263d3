"""Whether a Java program knows a word: a name that its code reads stands as a constant in one of its class files.

So a misspelt setting is found without a list of settings to maintain, for whichever release a person gives. A class
file holds each constant as tag 1, its length in two bytes and the text (JVM specification, 4.4.7). A name that is put
together only at run time is not found, and a word that is there for another purpose is.
"""

import re
import zipfile
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import MachineError

_ACCESSOR: Final = re.compile(rb"(get|set|is|with)[A-Z]")
#: A constant of 4 to 80 letters, in front of which its length stands.
_NAME: Final = re.compile(rb"\x01(\x00[\x04-\x50])(?=([a-z][A-Za-z0-9]*(?:\.[A-Za-z0-9]+)*))")


def constants(jars: Iterable[Path], wanted: Collection[str], *, only: str = "") -> set[str]:
    """Those of `wanted` that stand in a class of these jars, or in `only` that one (its path in a jar).

    Raises MachineError for a jar that cannot be read.
    """
    left = {b"\x01" + len(word.encode()).to_bytes(2, "big") + word.encode(): word for word in wanted}
    found: set[str] = set()
    for content in _classes(jars, only):
        for pattern in [pattern for pattern in left if pattern in content]:
            found.add(left.pop(pattern))
        if not left:
            break
    return found


def names(jars: Iterable[Path]) -> set[str]:
    """Every constant that looks like the name of a setting, and not like that of a method of one; for a hint."""
    found: set[str] = set()
    for content in _classes(jars):
        for match in _NAME.finditer(content):
            length = int.from_bytes(match[1], "big")
            text = match[2][:length]
            if len(text) == length and not _ACCESSOR.match(text):
                found.add(text.decode())
    return found


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
