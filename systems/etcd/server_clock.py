"""The time that an etcd member reports: the Date of an HTTP answer (RFC 9110, 6.6.1), from the member's wall clock."""

import asyncio
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from fencepost.harness.contract.servers import ReportedTime


async def ask(address: str, port: int) -> ReportedTime:
    """Read the Date of one answer; the caller bounds the wait. Raises OSError, and ValueError for another answer."""
    reader, writer = await asyncio.open_connection(address, port)
    try:
        writer.write(f"GET /version HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError as error:
        raise ConnectionResetError(f"etcd closed after {len(error.partial)} bytes") from None
    finally:
        writer.close()
    dates = [line.partition(":")[2].strip() for line in head.splitlines() if line.lower().startswith("date:")]
    if len(dates) != 1:
        raise ValueError(f"etcd answered without a date: {head[:200]!r}")
    since = parsedate_to_datetime(dates[0]) - datetime(1970, 1, 1, tzinfo=UTC)
    # Whole seconds instead of timestamp(): in a far skewed year a float cannot hold nanoseconds.
    return ReportedTime((since.days * 86_400 + since.seconds) * 10**9, 10**9, "the Date of its HTTP answer")
