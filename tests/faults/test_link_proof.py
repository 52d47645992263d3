"""What counts as a proof of a shaped link, apart from the fault that asks for one."""

import random

from fencepost.harness.faults.link_proof import is_by_chance


def test_a_share_is_judged_by_what_chance_allows() -> None:
    draw = random.Random(5)
    for share in (0.01, 0.1, 0.5, 0.9):
        tries = round(12 / share) if share < 0.2 else 60
        for _ in range(200):
            hits = sum(draw.random() < share for _ in range(tries))
            assert hits == 0 or is_by_chance(hits, tries, share)
    assert not is_by_chance(0, 100, 0.1)
    assert not is_by_chance(40, 100, 0.1)
    assert not is_by_chance(5, 100, 0.5)
