"""Which systems promise a guarantee, and on which it is only measured, in a line for a terminal."""

from collections.abc import Mapping
from typing import Final

from fencepost.harness.verdict import Guarantee

#: What fits beside a name in a terminal of 100 columns.
_LINE_MAX: Final = 86


def standings_in_words(of: Mapping[str, Guarantee]) -> str:
    """Name the systems by standing, and count the most of them where the line is too short: "measured: 6 systems"."""
    by_standing: dict[str, list[str]] = {}
    for system, guarantee in of.items():
        by_standing.setdefault(guarantee.standing.value, []).append(system)
    shown = {standing: ", ".join(systems) for standing, systems in by_standing.items()}
    for standing, systems in sorted(by_standing.items(), key=lambda item: -len(item[1])):
        about = "; ".join(f"{name}: {names}" for name, names in shown.items())
        if len(about) <= _LINE_MAX:
            break
        shown[standing] = f"{len(systems)} systems"
    return "; ".join(f"{name}: {names}" for name, names in shown.items())
