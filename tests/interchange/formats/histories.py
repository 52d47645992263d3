"""Small histories in EDN, from one operation a word: `0w1` process 0 writes 1; see `edn`."""

import io

from fencepost.harness.interchange.formats.imported import Imported
from fencepost.harness.interchange.formats.jepsen import read_edn

_F = {"w": ":write", "r": ":read", "c": ":cas", "a": ":add"}


def edn(words: str) -> str:
    """`0(w1` invokes, `0)` completes ok with what was said, `0)1` with this value, `0!` fails, `0?` is unknown.

    Functions: w write, r read, c cas (`0(c1,2`), a add. A value may be any EDN without white space.
    """
    lines, open_ops = [], {}
    for index, word in enumerate(words.split()):
        process, mark, rest = word[0], word[1], word[2:]
        if mark == "(":
            f, value = _F[rest[0]], rest[1:] or "nil"
            if rest[0] == "c":
                value = f"[{value.replace(',', ' ')}]"
            open_ops[process] = f, value
            kind = ":invoke"
        else:
            f, value = open_ops.pop(process)
            value = rest or value
            kind = {")": ":ok", "!": ":fail", "?": ":info"}[mark]
        lines.append(
            f"{{:type {kind}, :process {process}, :f {f}, :value {value}, :index {index}, :time {index * 1000}}}"
        )
    return "\n".join(lines) + "\n"


def read(text: str | bytes, **options: object) -> Imported:
    data = text.encode() if isinstance(text, str) else text
    return read_edn(io.BytesIO(data), "a.edn", **options)  # type: ignore[arg-type]
