"""Connects PySpark to a gateway that is running already, and lets go of it again.

PySpark keeps the gateway, its address and its session in globals of the interpreter, so only one connection is possible
at a time.
"""

import contextlib
import logging
import os
import signal
import sys
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fencepost.harness.base.errors import HarnessError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: PySpark writes every exception of a query to these logs, as one long line, before it raises the exception.
_QUERY_LOGS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether a record of the root logger is not of Py4J, which writes there, with a traceback, what it then raises."""
    return "py4j" not in Path(record.pathname).parts


def require_none_active() -> None:
    """Raise HarnessError if a session is in use: PySpark would return that one, and stopping it would end both."""
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        raise HarnessError("another Spark session is in use in this interpreter")


def connect(port: int, secret: str, *, master: str) -> "SparkSession":
    """Open a PySpark session on the gateway at `port`.

    PySpark reads the address only from the environment, so the variables are set during the call. The Python workers of
    an embedded Spark run on this interpreter, those of a cluster on what PYSPARK_PYTHON names there. PySpark also
    replaces the handler of SIGINT, and we restore ours: Ctrl-C belongs to the command.
    """
    from pyspark.sql import SparkSession

    ours = signal.getsignal(signal.SIGINT)
    address = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    if master.startswith("local"):
        address["PYSPARK_PYTHON"] = sys.executable
    before = {name: os.environ.get(name) for name in address}
    os.environ.update(address)
    for name in _QUERY_LOGS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_ours)
    try:
        return SparkSession.builder.getOrCreate()
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, ours)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def disconnect(session: "SparkSession | None") -> None:
    """Stop the session and clear the gateway, which PySpark would otherwise keep until the interpreter ends."""
    from pyspark import SparkContext

    with warnings.catch_warnings():
        # The JVM may be dead already, and PySpark warns about that. The caller ends the JVM anyway.
        warnings.simplefilter("ignore")
        if session is not None:
            with contextlib.suppress(Exception):
                # The JVM closes its connection to this server first, and the server would print a traceback for that.
                setattr(session.sparkContext._accumulatorServer, "handle_error", lambda *_: None)  # noqa: B010
            with contextlib.suppress(Exception):
                session.stop()
        gateway = SparkContext._gateway
        if gateway is not None:
            with contextlib.suppress(Exception):
                gateway.shutdown()
        SparkContext._gateway = None
        SparkContext._jvm = None
