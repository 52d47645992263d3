"""Release numbers in the order of their numbers, and as a person reads them: "3.5.0 to 3.5.21, 3.6.0"."""

from collections.abc import Iterable
from itertools import groupby


def in_order(releases: Iterable[str]) -> tuple[str, ...]:
    """Sort by number, not by letter: 3.5.9 comes before 3.5.10, and 6.0-alpha2 before 6.0."""
    return tuple(sorted(releases, key=_order))


def in_words(releases: Iterable[str]) -> str:
    """List the releases for a person, consecutive patch releases as "first to last"."""
    runs = groupby(enumerate(in_order(releases)), key=lambda item: _beside(*item))
    parts = []
    for _, members in runs:
        run = [release for _, release in members]
        parts.append(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(run))
    return ", ".join(parts)


def _order(release: str) -> tuple[tuple[int, ...], bool, str]:
    number, dash, early = release.partition("-")
    return numbers(number), not dash, early


def _beside(at: int, release: str) -> tuple[object, ...]:
    """The same for releases that follow each other by their last number, given the place in the order."""
    number, _, early = _order(release)
    return number[:-1], number[-1] - at, early


def numbers(release: str) -> tuple[int, ...]:
    """The numbers of a release: (3, 5, 1) for "3.5.1"; raises ValueError for anything else."""
    return tuple(map(int, release.split(".")))


def is_before(version: str, first: tuple[int, ...]) -> bool:
    """Whether this is certainly a release before `first`; False for what is not a number, such as "latest"."""
    try:
        return numbers(version.partition("-")[0]) < first
    except ValueError:
        return False


def lacks_fix(version: str, fixed: Iterable[str]) -> bool:
    """Whether this release stands before the first fixed one of its line of releases; False for what is no number."""
    firsts = sorted(map(numbers, fixed))
    own = next((first for first in firsts if is_before(version, (*first[:-2], first[-2] + 1))), firsts[-1])
    return is_before(version, own)
