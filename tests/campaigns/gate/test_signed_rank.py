"""The exact signed-rank test: published values, all signs counted by hand, and ties."""

import itertools
import random

import pytest

from fencepost.campaigns.gate.signed_rank import signed_rank


@pytest.mark.parametrize(
    ("differences", "p", "effect"),
    [
        ([1, 2, 3, 4, 5], 1 / 32, 1.0),
        ([-1, -2, -3, -4, -5], 1.0, -1.0),
        ([-1, 2, 3, 4, 5], 2 / 32, 13 / 15),
        ([0, 0, 0], 1.0, 0.0),
        ([], 1.0, 0.0),
        # Table of Wilcoxon (1945): of 8 pairs, a sum of ranks of at most 5 for the rarer sign has p = 10 / 256.
        ([-5, 1, 2, 3, 4, 6, 7, 8], 10 / 256, 26 / 36),
    ],
)
def test_known_values(differences: list[float], p: float, effect: float) -> None:
    result = signed_rank(differences)
    assert result.p == pytest.approx(p)
    assert result.effect == pytest.approx(effect)


def test_every_sign_counted_by_hand_gives_the_same() -> None:
    rng = random.Random(5)
    for _ in range(200):
        differences = [float(rng.randint(-4, 4)) for _ in range(rng.randint(1, 8))]
        sizes = sorted(abs(d) for d in differences if d)
        rank = {s: sum(i + 1 for i, x in enumerate(sizes) if x == s) / sizes.count(s) for s in sizes}
        above = sum(rank[d] for d in differences if d > 0)
        sums = [
            sum(rank[s] for s, is_up in zip(sizes, signs, strict=True) if is_up)
            for signs in itertools.product([False, True], repeat=len(sizes))
        ]
        expected = sum(each >= above - 1e-9 for each in sums) / len(sums)
        assert signed_rank(differences).p == pytest.approx(expected)


def test_equal_releases_are_called_different_at_most_as_often_as_promised() -> None:
    rng = random.Random(11)
    false_alarms = sum(signed_rank([rng.gauss(0, 1) for _ in range(6)]).p <= 0.05 for _ in range(4_000))
    assert false_alarms / 4_000 <= 0.06
