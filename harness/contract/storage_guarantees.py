"""The guarantees about KIP-30's `put`, `update` and `fetch` (`checkers.storage.puts`), one text for all systems."""

from typing import Final

from fencepost.harness.contract.membership_guarantees import Source
from fencepost.harness.verdict import Guarantee, Standing

#: Where a session has no such request.
TWO_STEPS: Final = Source(
    Standing.RELIED_UPON, "two requests: a current read, and a write on condition that the key has not changed since"
)


def storage_guarantees(*, puts: Source, updates: Source = TWO_STEPS) -> tuple[Guarantee, ...]:
    """The guarantees of puts and updates with these sources, and the two that only the caller can keep."""
    texts = {
        "one-put-per-key": ("Of all puts of a key, which create it, one is acknowledged at most.", puts),
        "update-needs-key": (
            "An update of an absent key is refused and leaves none behind; one of a present key is not refused.",
            updates,
        ),
        "update-loses-none": (
            "Of two updates that were computed from one value one is acknowledged at most.",
            Source(Standing.MEASURED, "KIP-30, Storage: update takes no version, so nothing is compared"),
        ),
        "own-put-is-settled": (
            "Where the key exists after a put of unknown outcome, a fetch shows whose value is there.",
            Source(Standing.RELIED_UPON, "a current read after the refusal"),
        ),
    }
    return tuple(
        Guarantee(name=name, standing=by.standing, text=text, source=by.source, issues=by.issues)
        for name, (text, by) in texts.items()
    )
