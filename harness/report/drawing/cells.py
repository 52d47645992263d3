"""Text measured as a terminal shows it: in cells, of which some characters take two and some none.

Nothing that a history holds may move the cursor or turn the line around: what is not printable is written as an escape.
"""

import unicodedata
from typing import Any, Final

from fencepost.harness.report.words.wording import text

#: Long enough that it is never reached by a value that could be drawn.
_WHOLE: Final = 10_000


def cells(said: str) -> int:
    """How many columns a text takes."""
    if said.isascii():
        return len(said)
    return sum(_cell(character) for character in said)


def _cell(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def clipped(said: str, limit: int, more: str = "…") -> str:
    """At most `limit` cells of a text; what was cut is marked by `more`."""
    if cells(said) <= limit:
        return said
    if limit < len(more):
        return more[:limit]
    out, room = "", limit - len(more)
    for character in said:
        room -= _cell(character)
        if room < 0:
            break
        out += character
    return out + more


def wrapped(said: str, width: int, begin: str = "", then: str = "") -> list[str]:
    """A text as lines of at most `width` cells, after `begin` on the first and `then` on the others."""
    lines, line, empty = [], begin, True
    for word in said.split(" "):
        while True:
            room = width - cells(line) - (0 if empty else 1)
            if cells(word) <= room:
                line += word if empty else f" {word}"
                empty = False
                break
            if empty:  # a word as long as a line is broken
                part = clipped(word, max(room, 2), "")
                lines.append(line + part)
                word = word[len(part) :]
            else:
                lines.append(line)
            line, empty = then, True
    return [*lines, line]


def plain(said: str, *, unicode: bool) -> str:
    """A text without anything that a terminal would act on; without `unicode` in ASCII."""
    if said.isascii() and said.isprintable():
        return said
    return "".join(c if c.isprintable() and (unicode or c.isascii()) else _escape(c) for c in said)


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def value_words(value: Any) -> str:
    """A value in words: nothing for null, lists `[1 2]`, maps `{a 1, b 2}`, else as the report has it."""
    if value is None:
        return "nothing"
    if isinstance(value, list | tuple):
        return f"[{' '.join(_part(part) for part in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_part(key)} {_part(part)}' for key, part in value.items())}}}"
    return text(value, _WHOLE)


def _part(value: Any) -> str:
    return "nil" if value is None else value_words(value)
