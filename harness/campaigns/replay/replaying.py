"""`replay`: the recorded schedule with the same plan, so many times, and in how many runs the same fingerprint showed.

Every run is kept. Verdicts of stored histories come again exactly; a run does only k of n times, since threads,
networks and disks have no seed.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.harness.campaigns.replay import wilson
from fencepost.harness.campaigns.replay.recorded import Recorded
from fencepost.harness.campaigns.replay.tries import Carry, Resemblance, Try, resemblance
from fencepost.harness.results import run_folder as store
from fencepost.harness.verdict import Validity

DOCUMENT: Final = "replay.json"
FORMAT: Final = 1


class Replay(msgspec.Struct, kw_only=True):
    """What came of it so far; `fingerprint` is None when the recorded run shows no violation."""

    folder: Path
    recorded: Recorded
    fingerprint: str | None
    times: int
    tries: list[Try] = []
    resemblances: list[Resemblance] = []

    @property
    def counted(self) -> list[Try]:
        return [made for made in self.tries if made.counts]

    @property
    def shows(self) -> int:
        return sum(self.fingerprint in made.fingerprints for made in self.counted)

    def document(self) -> dict[str, Any]:
        """As `replay.json` holds it."""
        low, high = wilson.interval(self.shows, len(self.counted))
        return {
            "format": FORMAT,
            "run": str(self.recorded.folder),
            "fingerprint": self.fingerprint,
            "asked": self.times,
            "shown": self.shows if self.fingerprint else None,
            "of": len(self.counted),
            "interval_95": [round(low, 4), round(high, 4)] if self.fingerprint else None,
            "tries": [
                {**msgspec.to_builtins(made), "resemblance": msgspec.to_builtins(alike)}
                for made, alike in zip(self.tries, self.resemblances, strict=True)
            ],
        }


def replay(
    recorded: Recorded,
    fingerprint: str | None,
    results: Path,
    *,
    times: int,
    until_invalid: bool,
    carry: Carry,
    stopped: Callable[[], bool],
    say: Callable[[str], None],
) -> Replay:
    """Run up to `times` times, with `until_invalid` only until one run is invalid; `replay.json` is kept up to date."""
    folder = store.make_run_folder(results, f"replay-{recorded.folder.parent.name}")
    done = Replay(folder=folder, recorded=recorded, fingerprint=fingerprint, times=times)
    for number in range(times):
        say(f"replay {number + 1} of {times}")
        made = carry(recorded.checked, folder)
        alike = resemblance(recorded.rows, folder / made.folder / store.SCHEDULE)
        done.tries.append(made)
        done.resemblances.append(alike)
        store.write_json(folder / DOCUMENT, done.document())
        say(_in_words(made, alike, fingerprint))
        if stopped() or (until_invalid and made.validity == Validity.INVALID.value):
            break
    return done


def _in_words(made: Try, alike: Resemblance, fingerprint: str | None) -> str:
    if not made.counts:
        return f"not counted: {made.why}"
    shown = ""
    if fingerprint:
        shown = "the same fingerprint; " if fingerprint in made.fingerprints else "not the same fingerprint; "
    return (
        f"{made.validity}; {shown}{alike.injected} of {alike.faults} faults injected, "
        f"{alike.same_targets} on the same targets"
    )
