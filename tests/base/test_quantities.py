"""Values with a unit: what is read, what is written back, and what is refused."""

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.base.quantities import ByteRate, Duration, Quantity, Share, SignedDuration


@pytest.mark.parametrize(
    ("kind", "text", "value", "again"),
    [
        (Duration, "1500ms", 1_500_000_000, "1500ms"),
        (Duration, "1m30s", 90 * 10**9, "90s"),
        (SignedDuration, "-5s", -5 * 10**9, "-5s"),
        (SignedDuration, "2m", 120 * 10**9, "2m"),
        (Share, "10%", 0.1, "10%"),
        (Share, ".005", 0.005, "0.5%"),
        (ByteRate, "64KB/s", 64_000, "64KB/s"),
        (ByteRate, "2000KB/s", 2_000_000, "2MB/s"),
    ],
)
def test_a_value_is_read_and_written_back(kind: type[Quantity], text: str, value: float, again: str) -> None:
    found = kind.read(text, what="it")
    assert isinstance(found, int | float)
    assert (float(found), type(found), str(found)) == (value, kind, again)
    assert kind.read(again, what="it") == found


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Duration, "-5s"),
        (SignedDuration, "--5s"),
        (SignedDuration, "5"),
        *((Share, text) for text in ("", "%", "nan", "-1%", "1e2", "ten", "\uff15%")),
        *((ByteRate, text) for text in ("64", "KB/s", "1.5MB/s", "-1KB/s", "64 KB/s", "\uff15KB/s")),
    ],
)
def test_what_is_none_is_refused_with_an_example(kind: type[Quantity], text: str) -> None:
    with pytest.raises(UsageError, match=r"^it: ") as caught:
        kind.read(text, what="it")
    assert "such as" in str(caught.value.hint)
