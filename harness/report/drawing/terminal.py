"""What a terminal can show: how wide it is, whether it knows more than ASCII, and whether it is to be coloured."""

import codecs
import os
import shutil
import sys
from typing import Final

import click
import msgspec

#: Wider lines are no longer read as one picture.
WIDTH_MAX: Final = 100
#: Below this nothing can be drawn: lines are as long as they must be then.
WIDTH_MIN: Final = 20
_COLOURS: Final = {"marked": "red", "unknown": "yellow", "kind": "cyan", "soft": "bright_black"}


class Terminal(msgspec.Struct, frozen=True, kw_only=True):
    """`width` in columns; `unicode`: lines and arrows may be drawn with characters beyond ASCII."""

    width: int = WIDTH_MAX
    unicode: bool = True
    colour: bool = False

    def narrower(self, indent: int) -> "Terminal":
        """The same with the room that an indent leaves; some always is."""
        return msgspec.structs.replace(self, width=max(self.width - indent, WIDTH_MIN))

    def painted(self, said: str, what: str) -> str:
        """A text in the colour of what it is, where colours are wanted."""
        if not self.colour or not what:
            return said
        return click.style(said, fg=_COLOURS[what], bold=what == "marked")


def of_stdout() -> Terminal:
    """Standard output as it is: COLUMNS and NO_COLOR are honoured."""
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
