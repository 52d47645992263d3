"""`fencepost check TABLE --spark MASTER`: tables of operations and transactions, and histories of registers."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.verdict import Facts, Verdict
from fencepost.warehouse.by_spark import register_histories, registers, transactions
from fencepost.warehouse.spark_session import FULLY_COMPILED, SparkHandle

_SESSION_S: Final = 120.0
#: About five million operations: from here on Spark works for so long that its own code is worth compiling in full.
_LARGE_BYTES: Final = 64 << 20
#: By what the table holds; a history of registers becomes a table of operations first.
_JUDGES: Final[Mapping[str, Callable[..., Verdict]]] = {
    "history": register_histories.check,
    "operations": registers.check,
    "transactions": transactions.check,
}


def judge(path: Path, master: str, holds: str, facts: Facts, *more: object) -> Verdict:
    """Judge a table through Spark at `master`; raises HarnessError when Spark fails, for that is no verdict."""
    large = _bytes(path) >= _LARGE_BYTES
    with SparkHandle(master, jvm_flags=FULLY_COMPILED if large else None) as handle:
        try:
            return _JUDGES[holds](handle.session(_SESSION_S), str(path.resolve()), facts, *more)
        except (PySparkException, Py4JJavaError) as error:
            reason = _reason(str(error).splitlines())
            lacking = "ModuleNotFoundError" in reason or "ImportError" in reason
            raise HarnessError(
                f"{path}: Spark at {master} gave no verdict: {reason}",
                hint="executors need fencepost and its native core for the Python that PYSPARK_PYTHON names there"
                if lacking
                else "without --spark it is judged on this machine",
            ) from error


def _bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in ([path] if path.is_file() else path.glob("*.parquet")))


def _reason(lines: list[str]) -> str:
    """The innermost exception that is named: it stands behind its traceback, before Spark's own."""
    named = [line.strip() for line in lines if re.match(r"(Caused by: )?[\w.]+(Error|Exception)\b", line)]
    filled = [line for line in lines if line.strip()]
    return (named[-1] if named else filled[0] if filled else "no reason given").removeprefix("Caused by: ")
