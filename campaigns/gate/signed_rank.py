"""Wilcoxon's signed-rank test, exact for any number of pairs and for ties.

The chance is counted over all signs that the ranks can have, so no table and no normal approximation is needed. Twenty
lines of counting replace SciPy, which is no dependency of fencepost. Source: Wilcoxon, "Individual comparisons by
ranking methods" (1945); the effect size is Kerby's, "The simple difference formula" (2014).
"""

from collections.abc import Sequence

import msgspec


class SignedRank(msgspec.Struct, frozen=True, kw_only=True):
    """`p` is the chance of ranks as high as these were both alike; `effect`: -1 all lower, 1 all higher."""

    p: float
    effect: float


def signed_rank(differences: Sequence[float]) -> SignedRank:
    """Test whether differences lie above 0; those of exactly 0 are left out, as Wilcoxon does."""
    sizes = sorted(abs(d) for d in differences if d)
    if not sizes:
        return SignedRank(p=1.0, effect=0.0)
    # Twice the mean rank of equal sizes: always whole.
    doubled = {size: 2 * sizes.index(size) + sizes.count(size) + 1 for size in set(sizes)}
    above = sum(doubled[abs(d)] for d in differences if d > 0)
    ranks = [doubled[size] for size in sizes]
    total = sum(ranks)
    ways = [1] + [0] * total
    for rank in ranks:
        for at in range(total, rank - 1, -1):
            ways[at] += ways[at - rank]
    return SignedRank(p=sum(ways[above:]) / 2 ** len(ranks), effect=(2 * above - total) / total)
