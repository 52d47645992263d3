"""What shrinking keeps: every try in `shrink.json`, the outcome so far, and a lock against a second search."""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.campaigns.replay.recorded import Recorded
from fencepost.campaigns.replay.reductions import ReducedPlan, dropped
from fencepost.campaigns.replay.search import rate_of
from fencepost.campaigns.replay.tries import Try
from fencepost.harness.base.errors import UsageError
from fencepost.harness.base.files import locked
from fencepost.harness.findings.rate import Rate
from fencepost.harness.results import run_folder as store

DOCUMENT: Final = "shrink.json"
SMALLER: Final = "smaller.toml"
FORMAT: Final = 1
_LOCK: Final = ".lock"


class KeptTry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One try as `shrink.json` holds it: `candidate` is the key of what was tried."""

    candidate: str
    confirms: bool
    made: Try


class Shrunk(msgspec.Struct, kw_only=True):
    """The outcome. `complete`: the search reached its end, so nothing more can be left out."""

    folder: Path
    fingerprint: str
    whole: ReducedPlan
    best: ReducedPlan
    #: For the whole plan: how often it showed, and in how many tries.
    baseline: tuple[int, int]
    #: The same for the smaller plan in the new runs that confirm it; None before these.
    confirmation: tuple[int, int] | None = None
    confirmations: int
    complete: bool = False
    stopped: bool = False
    tries: int = 0
    #: How long a try takes, by the latest ones.
    per_try_s: float = 0.0

    @property
    def smaller(self) -> bool:
        return self.best.key != self.whole.key

    @property
    def confirmed(self) -> bool:
        """Whether all confirming runs were made, and showed it at least a third as often as the whole plan."""
        if self.confirmation is None or self.confirmation[1] < self.confirmations:
            return False
        shows, tries = self.confirmation
        return shows > 0 and shows / tries >= rate_of(*self.baseline) / 3


def document(shrunk: Shrunk, recorded: Recorded, kept: Iterable[KeptTry]) -> dict[str, Any]:
    """Make the contents of `shrink.json`."""
    return {
        "format": FORMAT,
        "run": str(recorded.folder),
        "fingerprint": shrunk.fingerprint,
        "complete": shrunk.complete,
        "confirmed": shrunk.confirmed,
        "baseline": _share(shrunk.baseline),
        "confirmation": _share(shrunk.confirmation),
        "smaller": SMALLER if shrunk.smaller else None,
        "faults": {"before": len(shrunk.whole.rows), "after": len(shrunk.best.rows)},
        "dropped": dropped(shrunk.whole, shrunk.best),
        "tries": msgspec.to_builtins(list(kept)),
    }


def _share(counts: tuple[int, int] | None) -> dict[str, Any] | None:
    if counts is None:
        return None
    low, high = Rate(*counts).interval()
    return {"shown": counts[0], "of": counts[1], "interval_95": [round(low, 4), round(high, 4)]}


def folder_of(recorded: Recorded, results: Path) -> Path:
    """Make the folder of this run's search; the same command finds it again and continues."""
    folder = results / f"shrink-{recorded.folder.parent.name}" / recorded.folder.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}", hint="give another folder with --results") from None
    return folder.resolve()


def read_tries(path: Path) -> list[KeptTry]:
    data = store.read_json(path)
    if not data:
        return []
    if data.get("format") != FORMAT:
        raise UsageError(
            f"{path}: format {data.get('format')!r} where {FORMAT} was expected",
            hint="move the folder away to begin again",
        )
    try:
        return msgspec.convert(data.get("tries"), list[KeptTry])
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {error}", hint="move the folder away to begin again") from None


@contextlib.contextmanager
def one_search(folder: Path) -> Iterator[None]:
    """Lock the folder: two searches in one folder would mix their tries. Raises UsageError when it is locked."""
    with locked(folder / _LOCK) as held:
        if not held:
            raise UsageError(f"{folder}: this run is being shrunk already", hint="let that end, or stop it")
        yield
