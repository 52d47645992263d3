"""Text as wide as the terminal; whole lines where output is piped, so that `grep` finds them."""

import shutil
import sys
import textwrap


def wrapped(text: str, *, hanging: int) -> str:
    """Wrap `text` to the terminal's width; lines after the first start `hanging` columns further right."""
    if not sys.stdout.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return textwrap.fill(text, width, subsequent_indent=" " * hanging, break_on_hyphens=False, break_long_words=False)
