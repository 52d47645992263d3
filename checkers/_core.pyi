"""The native core: linearizability of registers and other objects, anomalies of transactions, and EDN.

Each row is one operation: `f` is 0 read, 1 write or 2 cas; `a` is the value read, written or compared with, `b` the new
value of a cas (else 0); `invoked` and `returned` are places in one order, `returned` -1 for an operation of
unknown outcome, which may take effect at any later point or never. Failed operations are left out by the caller.
Values are numbers from 0, and every register holds 0 at first. Columns are one-dimensional, contiguous int64 arrays.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Edn",
    "EdnEvents",
    "KeyResult",
    "ObjectResult",
    "Proof",
    "TransactionReport",
    "WeakReport",
    "build_info",
    "check_list_append",
    "check_model",
    "check_registers",
    "check_rw_register",
    "check_strings",
    "check_weak_isolation",
    "read_edn",
    "transaction_chances",
]

_Column = NDArray[np.int64]
#: The columns of `checkers.transactions.columns`, in its order.
_Transactions = Sequence[_Column]
_Stop = Literal["steps", "memory", "deadline", "interrupted", "contradicted"]

@final
class Proof:
    """Operations of one key that no order explains, whatever came before them; rows, each list by invocation.

    `fencepost.checkers.storage.register_proofs` says why this is a proof, and checks it with code of its own.
    """

    @property
    def kind(self) -> str:
        """`window`."""

    @property
    def since(self) -> int | None:
        """When the window begins; the register may hold any value then. None: with the history, when it holds 0."""

    @property
    def until(self) -> int: ...
    @property
    def must(self) -> list[int]:
        """Operations that were invoked and returned within the window, and must be explained."""

    @property
    def may(self) -> list[int]:
        """Operations that may take effect within the window or not: all that made a value which a named one saw."""

    @property
    def shown(self) -> list[tuple[int, int]]:
        """Operations that alone made a value, each with one that saw the value and so returned after it took effect."""

    @property
    def steps(self) -> int:
        """Configurations that the search for it looked at."""

@final
class KeyResult:
    """The search's answer for one key. Operations are named by their row."""

    @property
    def key(self) -> int: ...
    @property
    def verdict(self) -> str:
        """`valid`, `invalid` or `unknown`; `reason` says why it is unknown."""

    @property
    def reason(self) -> str: ...
    @property
    def stop(self) -> _Stop | None:
        """Unknown: what ended the search, as a value of `harness.verdict.Stop`; `reason` says it in words."""
    @property
    def method(self) -> str:
        """Which method decided; empty when the budget was spent before any was tried."""

    @property
    def operations(self) -> int: ...
    @property
    def steps(self) -> int:
        """Configurations that the search looked at; the same input always takes the same number."""

    @property
    def order(self) -> list[int]:
        """Valid, with `orders`: an order that explains all. Invalid: the longest one up to `failed` that was found."""

    @property
    def failed(self) -> int | None:
        """Invalid: the first operation to return that no order explains."""

    @property
    def open(self) -> list[int]:
        """Invalid: operations that had not returned when `failed` did; of unknown outcome, or concurrent with it."""

    @property
    def states(self) -> list[int]:
        """Invalid: every value that the register may hold at that moment, in any order; perhaps others besides."""

    @property
    def proof(self) -> Proof | None:
        """Invalid: the window by which a plain walk confirmed the answer; without it the answer is `unknown`.

        An answer by zones was confirmed by a check of its own, and has no window if it rests on very many operations.
        """

    @property
    def minimal(self) -> Proof | None:
        """Invalid: what is left of `proof` when no operation can be left out, unless the budget ended first."""

@final
class ObjectResult:
    """The search's answer for one object; as `KeyResult`, but for its states."""

    @property
    def verdict(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def stop(self) -> _Stop | None: ...
    @property
    def operations(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def order(self) -> list[int]: ...
    @property
    def failed(self) -> int | None: ...
    @property
    def open(self) -> list[int]: ...
    @property
    def states(self) -> list[Any]:
        """Invalid: what states the object may be in then, 64 of `states_count` at most."""

    @property
    def states_count(self) -> int: ...

@final
class TransactionReport:
    """The anomalies of a history of transactions, or an order of it. Rows are those of the columns; -1: none."""

    @property
    def anomalies(self) -> list[tuple[str, int, int, int, int, int, int]]:
        """Name, the transaction that shows it, another transaction, a micro-operation of each, key, value.

        The first ten of each name.
        """

    @property
    def counts(self) -> list[tuple[str, int]]:
        """How many anomalies of each name there are, but for cycles."""

    @property
    def misses_own(self) -> bool:
        """Whether some transaction did not read what it had written itself."""

    @property
    def cycles(self) -> list[tuple[str, bool, list[tuple[int, int, str, int, int, int, int]]]]:
        """Class, whether no cycle is shorter, and steps.

        A step is a transaction, the next one, the kind of the edge (`ww`, `wr`, `rw`, `process` or `realtime`), the
        micro-operation of each, and two more that show the order of versions.
        """

    @property
    def order(self) -> NDArray[np.uint32] | None:
        """Without any anomaly: the transactions in a confirmed order that explains all. None: none was found."""

    @property
    def edges(self) -> int: ...
    @property
    def components(self) -> int: ...
    @property
    def largest(self) -> int:
        """Transactions in the largest strongly connected component."""

    @property
    def unfinished(self) -> list[str]:
        """Classes of cycles for which the budget ended the search before it found one."""

    @property
    def stop(self) -> _Stop | None:
        """What part of the budget ended the search for cycles or for an order, if it did; as in `KeyResult`."""

    @property
    def steps(self) -> int:
        """Steps spent on shortest cycles; the same input always takes the same number."""

def build_info() -> dict[str, str]:
    """Version and build profile of this module."""

def check_registers(
    key: _Column,
    f: _Column,
    a: _Column,
    b: _Column,
    invoked: _Column,
    returned: _Column,
    *,
    steps: int,
    memory_bytes: int,
    wall_s: float,
    threads: int = 0,
    orders: bool = False,
) -> list[KeyResult]:
    """Judge the registers of all distinct keys, in ascending order of key, under one budget.

    The interpreter's lock is released. The answer does not depend on timing, but a key that is unfinished after
    `wall_s` is unknown.

    Args:
        key, f, a, b, invoked, returned: one row for each operation, in any order, as at the top of this file.
        steps: configurations that the search of all keys may look at.
        memory_bytes: what it may hold of them.
        wall_s: seconds; a backstop.
        threads: keys judged at the same time; 0: as many as there are processors.
        orders: whether to return an order for each valid key.

    Cost: linear in rows for a key whose values were written once each; exponential in concurrent operations at worst.
    Source: Gibbons & Korach (1997); Wing & Gong (1993); Lowe (2017).

    Raises:
        ValueError: columns of different length, or a row that means nothing; names the row.
        TypeError: a column that is not a one-dimensional, contiguous int64 array.
        RuntimeError: a defect of the search itself; no statement about the history.
    """

def check_model(
    subject: list[int],
    kind: list[int],
    invoked: list[int],
    returned: list[int],
    calls: Sequence[tuple[str, Any, Any]],
    reads: list[bool],
    step: Callable[[Any, str, Any, Any], Any],
    initial: Any,
    wrong: Callable[[int, Any], BaseException] | None,
    *,
    subjects: int,
    asked: int,
    asked_first: int,
    steps: int,
    memory_bytes: int,
    wall_s: float,
) -> list[ObjectResult]:
    """Judge so many objects under one budget, each from the state `initial` on, as `step` says what a call does to it.

    Row i is the call number `kind[i]` of `calls` (function, value, result) on the object `subject[i]`; `reads[i]` is
    1 where it leaves every state as it is. Times are as in `check_registers`. `step` is asked once for a state and
    call, at most `asked` times, and of each object `asked_first` times before all others had their turn; a list of
    states means any of them. What it raises ends the search, as the exception that `wrong` makes of the call's number
    and of what was raised; so does a state that has no hash or that a read changed.

    Raises: as `check_registers`, and what `wrong` makes.
    """

def check_strings(
    keys: Sequence[Sequence[tuple[str, str, int, int]]],
    initial: str,
    *,
    asked: int,
    asked_first: int,
    steps: int,
    memory_bytes: int,
    wall_s: float,
) -> list[ObjectResult | None]:
    """Judge keys that hold strings, `initial` at first, under one budget; None of a key of which nothing is left.

    A row is `get`, `put` or `append`, the string that it returned or wrote, and its times as in `check_registers`. The
    rest is as in `check_model`; a state is None where it is a string that no get returned.

    Raises: as `check_registers`.
    """

def check_list_append(
    columns: _Transactions,
    *,
    realtime: bool,
    steps: int,
    sessions: bool = False,
    realtime_cycles: bool = True,
    wall_s: float = 60.0,
) -> TransactionReport:
    """Judge lists to which transactions append unique values; the columns are those of `transaction_columns`.

    Args:
        realtime: whether a transaction that was completed precedes those invoked after it.
        sessions: whether it precedes those of its own process; this concerns `order` alone.
        realtime_cycles: with `realtime`, whether cycles with a step of real time are looked for.
        steps, wall_s: bounds of the search for shortest cycles; whether there is a cycle does not depend on them.

    Source: Adya (1999); Kingsbury & Alvaro, Elle (2020).

    Raises: as `check_registers`.
    """

def check_rw_register(
    columns: _Transactions,
    *,
    realtime: bool,
    wfr: bool,
    sequential: bool,
    linearizable: bool,
    steps: int,
    sessions: bool = False,
    realtime_cycles: bool = True,
    thorough: bool = True,
    wall_s: float = 60.0,
) -> TransactionReport:
    """Judge registers to which transactions write unique values, as `check_list_append` judges lists.

    `wfr`, `sequential` and `linearizable` say what the order of versions may be inferred from; each of the last two
    includes the first. Unless `thorough`, the search for an order ends early.
    """

@final
class WeakReport:
    """What decides a model that asks less than serializability: an order, a circle, or neither; and for commits the
    anomalies that were met, all but cycles, as in `TransactionReport`."""

    @property
    def anomalies(self) -> list[tuple[str, int, int, int, int, int, int]]: ...
    @property
    def counts(self) -> list[tuple[str, int]]: ...
    @property
    def misses_own(self) -> bool: ...
    @property
    def order(self) -> NDArray[np.uint32] | None:
        """A confirmed order of commits, by row; for `snapshot` of starts (twice the row) and commits (one more)."""

    @property
    def circle(
        self,
    ) -> list[tuple[tuple[int, int, str, int, int, int, int], int, list[tuple[int, int, str, int, int, int, int]]]]:
        """Why there is no order of commits: a step as in cycles, a read and a path in each entry.

        The read is the micro-operation that returned the version of the step's end, although its transaction had to see
        that of the step's begin; the path has the steps by which it had to.
        """

    @property
    def stop(self) -> _Stop | None:
        """Neither: what ended the search, as in `KeyResult`; None where the search is not a complete one."""

def check_weak_isolation(
    columns: _Transactions,
    *,
    lists: bool,
    level: str,
    sessions: bool,
    realtime: bool,
    steps: int,
    wall_s: float = 60.0,
) -> WeakReport:
    """Look for an order of commits that keeps `level` (`committed`, `view`, `atomic`, `causal`), or for a schedule of
    starts and commits (`snapshot`); `sessions` and `realtime` (of schedules) say what it is to keep besides.

    No order is looked for where the history has an anomaly that read committed forbids.

    Raises: as `check_registers`.
    """

def transaction_chances(
    columns: _Transactions,
    *,
    lists: bool,
) -> dict[str, int]:
    """How many micro-operations could have shown an anomaly, by what that takes; see `transactions/rules.py`.

    Raises: ValueError for columns that mean nothing.
    """

@final
class Edn:
    """A value of EDN for which Python has no type: all but nil, booleans, numbers, strings and vectors (lists).

    Equal values of one history are one object.
    """

    @property
    def kind(self) -> str:
        """`keyword`, `symbol`, `character`, `ratio`, `decimal`, `list`, `set`, `map` or `tagged`."""

    @property
    def text(self) -> str:
        """The name without its colon, the character, the digits, the tag; else empty."""

    @property
    def items(self) -> list[Any]:
        """What a list, set or tag holds; a map's keys and values in turn. Sets and maps are in order."""

@final
class EdnEvents:
    """A history's events as columns, row i being event i; ids are places in `forms`, 2^32 - 1 for none."""

    @property
    def line(self) -> NDArray[np.uint32]: ...
    @property
    def column(self) -> NDArray[np.uint32]: ...
    @property
    def time(self) -> NDArray[np.int64]:
        """Nanoseconds; -1 in all rows of a history that tells no times."""

    @property
    def kind(self) -> NDArray[np.uint8]:
        """0 invoke, 1 ok, 2 fail, 3 info."""

    @property
    def process(self) -> NDArray[np.int64]:
        """-1 for the nemesis."""

    @property
    def function(self) -> NDArray[np.uint32]: ...
    @property
    def value(self) -> NDArray[np.uint32]: ...
    @property
    def error(self) -> NDArray[np.uint32]: ...
    @property
    def node(self) -> NDArray[np.uint32]: ...
    @property
    def key(self) -> NDArray[np.uint32]: ...
    @property
    def invocation(self) -> NDArray[np.uint32]:
        """For a client's completion, the row of its invocation; else 2^32 - 1."""

    @property
    def forms(self) -> list[Any]:
        """Every distinct value once, in the order of its first appearance."""

def read_edn(read: Callable[[int], bytes], *, json: bool = False) -> EdnEvents:
    """Read a history as Jepsen writes it from `read(size)`: maps one after the other, or one vector of them.

    `json`: the bytes are JSON, as the caller knows; a text like ":read" is then a keyword.

    Raises:
        ValueError: (line, column, what was expected): malformed EDN, a key that is missing or means nothing, times or
            indexes that go backwards, a process with two open operations or with two completions of one.
        Whatever `read` raises.
    """
