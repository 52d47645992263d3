"""Wilson's interval for "k of n": honest for few tries and for shares near none and all.

Source: Wilson, "Probable inference, the law of succession, and statistical inference" (1927).
"""

import math
from typing import Final

#: The two-sided 95 % quantile of the normal distribution.
_Z: Final = 1.959963984540054


def interval(k: int, n: int) -> tuple[float, float]:
    """The 95 % interval of the share behind `k` of `n`; all of [0, 1] when nothing was tried."""
    if n == 0:
        return 0.0, 1.0
    share, z2 = k / n, _Z * _Z
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    # At the ends the arithmetic misses 0 and 1 by a rounding.
    return 0.0 if k == 0 else max(middle - half, 0.0), 1.0 if k == n else min(middle + half, 1.0)


def in_words(k: int, n: int) -> str:
    """`7 of 10, 95 % interval 40 to 89 %`."""
    low, high = interval(k, n)
    return f"{k} of {n}, 95 % interval {100 * low:.0f} to {100 * high:.0f} %"
