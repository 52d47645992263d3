"""The page Gate: what each policy said of its newest candidate, and of those before it."""

from typing import Any, Final

from fencepost.harness.report.words import SIGNS
from fencepost.harness.verdict import Validity
from fencepost.warehouse.pages.telling import night_text, night_tone
from fencepost.warehouse.pages.values import NightSummary, Overview

#: Links to runs of one requirement; more of them stand on the gate's own page.
_LINKS_MAX: Final = 8


def gate_values(overview: Overview) -> dict[str, Any]:
    """What the template shows."""
    newest = [night for night, *_ in newest_gates(overview)]
    return {
        "gates": newest_gates(overview),
        "earlier": [_in_words(night) for night in overview.gates if night not in newest],
        "links_max": _LINKS_MAX,
    }


def newest_gates(overview: Overview) -> list[tuple[NightSummary, str, str, str]]:
    """The newest gate of each policy and candidate with its tone, sign and outcome in words; the newest first."""
    newest: dict[tuple[str, str], NightSummary] = {}
    for night in overview.gates:
        if night.gate is not None:
            newest.setdefault((night.gate.policy, night.gate.candidate), night)
    return [_in_words(night) for night in newest.values()]


def _in_words(night: NightSummary) -> tuple[NightSummary, str, str, str]:
    tone = night_tone(night)
    return night, tone, SIGNS[Validity(tone)], night_text(night)
