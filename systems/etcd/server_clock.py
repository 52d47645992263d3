"""The time that an etcd member reports: the Date of an HTTP answer (RFC 9110, 6.6.1), from the member's wall clock."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from fencepost.harness.contract.system import ReportedTime
from fencepost.harness.http.connection import ask as get


async def ask(address: str, port: int) -> ReportedTime:
    """Read the Date of one answer; the caller bounds the wait. Raises OSError, and ValueError for another answer."""
    headers = (await get(address, port, "/version")).headers
    if "date" not in headers:
        raise ValueError(f"etcd answered without a date: {dict(headers)}")
    since = parsedate_to_datetime(headers["date"]) - datetime(1970, 1, 1, tzinfo=UTC)
    # Whole seconds instead of timestamp(): in a far skewed year a float cannot hold nanoseconds.
    return ReportedTime((since.days * 86_400 + since.seconds) * 10**9, 10**9, "the Date of its HTTP answer")
