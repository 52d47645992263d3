"""Text measured in terminal cells: most characters take one cell, some take two, some none.

No text from a history may move the cursor or reverse the line, so unprintable characters become escapes.
"""

import unicodedata
from typing import Any, Final

from fencepost.harness.report.words.wording import text

#: Longer than any value that a drawing has room for.
_WHOLE: Final = 10_000


def cells(line: str) -> int:
    """Count the columns that a text takes."""
    if line.isascii():
        return len(line)
    return sum(_cell(character) for character in line)


def _cell(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def clipped(line: str, limit: int, more: str = "…") -> str:
    """Cut a text to `limit` cells; `more` marks the cut."""
    if cells(line) <= limit:
        return line
    if limit < len(more):
        return more[:limit]
    out, room = "", limit - len(more)
    for character in line:
        room -= _cell(character)
        if room < 0:
            break
        out += character
    return out + more


def wrapped(phrase: str, width: int, begin: str = "", then: str = "") -> list[str]:
    """Wrap a text into lines of at most `width` cells; the first starts with `begin`, the others with `then`."""
    lines, line, empty = [], begin, True
    for word in phrase.split(" "):
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


def plain(line: str, *, unicode: bool) -> str:
    """Remove from a text everything that a terminal would act on; without `unicode` the text becomes ASCII."""
    if line.isascii() and line.isprintable():
        return line
    return "".join(c if c.isprintable() and (unicode or c.isascii()) else _escape(c) for c in line)


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def value_words(value: Any) -> str:
    """Show a value: `nothing` for null, lists as `[1 2]`, maps as `{a 1, b 2}`, others as in the report."""
    if value is None:
        return "nothing"
    if isinstance(value, list | tuple):
        return f"[{' '.join(_part(part) for part in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_part(key)} {_part(part)}' for key, part in value.items())}}}"
    return text(value, _WHOLE)


def _part(value: Any) -> str:
    return "nil" if value is None else value_words(value)
