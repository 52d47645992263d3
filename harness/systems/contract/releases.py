"""Release numbers in the order of their numbers, and as a person reads them: "3.5.0 to 3.5.21, 3.6.0"."""

from collections.abc import Iterable
from itertools import groupby


def in_order(releases: Iterable[str]) -> tuple[str, ...]:
    """By number, not by letter: 3.5.9 comes before 3.5.10."""
    return tuple(sorted(releases, key=numbers))


def in_words(releases: Iterable[str]) -> str:
    """Runs of consecutive patch releases as "first to last"."""
    runs = groupby(
        enumerate(in_order(releases)), key=lambda item: (numbers(item[1])[:-1], numbers(item[1])[-1] - item[0])
    )
    words = []
    for _, members in runs:
        run = [release for _, release in members]
        words.append(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(run))
    return ", ".join(words)


def numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def is_before(version: str, first: tuple[int, ...]) -> bool:
    """Whether this is certainly a release before `first`; "latest", say, is told apart where it is looked up."""
    try:
        return numbers(version.partition("-")[0]) < first
    except ValueError:
        return False
