"""What a terminal can show: its width, whether it knows more than ASCII, and whether colours are wanted."""

import codecs
import os
import shutil
import sys
from typing import Final

import click
import msgspec

#: Nobody reads wider lines as one picture.
WIDTH_MAX: Final = 100
#: A narrower terminal has no room for a drawing; its lines may be longer than the terminal.
WIDTH_MIN: Final = 20
_COLOURS: Final = {"marked": "red", "unknown": "yellow", "kind": "cyan", "soft": "bright_black"}


class Terminal(msgspec.Struct, frozen=True, kw_only=True):
    """A terminal: `width` in columns; with `unicode`, lines and arrows may use characters beyond ASCII."""

    width: int = WIDTH_MAX
    unicode: bool = True
    colour: bool = False

    def narrower(self, indent: int) -> "Terminal":
        """Return this terminal without the columns of an indent; a minimum width always remains."""
        return msgspec.structs.replace(self, width=max(self.width - indent, WIDTH_MIN))

    def painted(self, phrase: str, what: str) -> str:
        """Colour a text by its kind, if colours are wanted."""
        if not self.colour or not what:
            return phrase
        return click.style(phrase, fg=_COLOURS[what], bold=what == "marked")


def of_stdout() -> Terminal:
    """Describe standard output; COLUMNS and NO_COLOR are honoured."""
    out = sys.stdout
    try:
        known = codecs.lookup(out.encoding or "ascii").name
    except LookupError:
        known = "ascii"
    wide = shutil.get_terminal_size((WIDTH_MAX, 24)).columns
    return Terminal(
        width=min(wide, WIDTH_MAX),
        unicode=known.startswith("utf"),
        colour=out.isatty() and not os.environ.get("NO_COLOR"),
    )
