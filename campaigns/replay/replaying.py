"""`replay`: runs a plan with its recorded schedule several times and counts how often the same fingerprint shows.

Every run is kept. Judging a stored history always gives the same verdict; running again shows the violation only k of n
times, since threads, networks and disks have no seed.
"""

from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.campaigns.replay.recorded import Recorded
from fencepost.campaigns.replay.tries import Carrier, Resemblance, Try, resemblance
from fencepost.harness.findings.rate import Rate
from fencepost.harness.results import run_folder as store
from fencepost.harness.verdict import Validity
from fencepost.harness.verdict.fingerprint import is_shown

DOCUMENT: Final = "replay.json"
FORMAT: Final = 1


class Replay(msgspec.Struct, kw_only=True):
    """The runs so far; `fingerprint` is None when the recorded run shows no violation."""

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
        return sum(is_shown(self.fingerprint, made.fingerprints) for made in self.counted)

    def document(self) -> dict[str, Any]:
        """Make the contents of `replay.json`."""
        low, high = Rate(self.shows, len(self.counted)).interval()
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
    carrier: Carrier,
) -> Replay:
    """Run up to `times` times, with `until_invalid` only until one run is invalid; `replay.json` is kept up to date."""
    say = carrier.say
    folder = store.make_run_folder(results, f"replay-{recorded.folder.parent.name}")
    done = Replay(folder=folder, recorded=recorded, fingerprint=fingerprint, times=times)
    for number in range(times):
        say(f"replay {number + 1} of {times}")
        made = carrier.carry(recorded.checked, folder)
        alike = resemblance(recorded.rows, folder / made.folder / store.SCHEDULE)
        done.tries.append(made)
        done.resemblances.append(alike)
        store.write_json(folder / DOCUMENT, done.document())
        say(_in_words(made, alike, fingerprint))
        if carrier.stopped() or (until_invalid and made.validity == Validity.INVALID.value):
            break
    return done


def _in_words(made: Try, alike: Resemblance, fingerprint: str | None) -> str:
    if not made.counts:
        return f"not counted: {made.why}"
    shown = ""
    if fingerprint:
        shown = "the same fingerprint; " if is_shown(fingerprint, made.fingerprints) else "not the same fingerprint; "
    return (
        f"{made.validity}; {shown}{alike.injected} of {alike.faults} faults injected, "
        f"{alike.same_targets} on the same targets"
    )
