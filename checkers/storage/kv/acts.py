"""The operations of a key-value store with numbered writes, as the rules read them."""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from fencepost.harness.history import Operation

#: Stands for a time, a number or a version that is never reached.
ENDLESS: Final = 1 << 63


class Kind(StrEnum):
    READ = "read"
    PUT = "put"
    DELETE = "delete"
    SYNC = "sync"
    #: Of several keys; what it did to each is a part of it.
    TXN = "txn"


class Condition(StrEnum):
    """What a write needs of its key: its value, last write or version, that there is none, or that there is one."""

    VALUE = "value"
    MADE = "made"
    VERSION = "version"
    ABSENT = "absent"
    PRESENT = "present"


class Expected(NamedTuple):
    condition: Condition
    number: int


class Target(StrEnum):
    """What a compare of a Txn looks at. Of a key that is not there the numbers are 0, and no value is equal to it."""

    MADE = "mod-revision"
    CREATED = "create-revision"
    VERSION = "version"
    VALUE = "value"


class Compare(NamedTuple):
    """`result` is one of = != < >; of a value `number` is its number."""

    key: str
    target: Target
    result: str
    number: int

    def holds(self, actual: int | None) -> bool:
        """Whether the compare holds for the key's actual number; None: the value of a key that is not there."""
        match self.result:
            case _ if actual is None:
                return False
            case "=":
                return actual == self.number
            case "!=":
                return actual != self.number
            case "<":
                return actual < self.number
        return actual > self.number


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """One store's words. `number`, `made` and `created` are fields of a reply; `sign` is what a read may ask for.

    `current`: reads are held to real time unless they carry the sign; else only those that carry it are, by `sync`.
    """

    name: str
    number: str
    made: str
    created: str
    sign: str
    others: frozenset[str]
    conditions: dict[str, Condition]
    functions: dict[str, Kind]
    first_version: int
    current: bool
    #: The number of a store that never was written.
    empty: int
    #: What `write` needs: `setData` changes a znode that is there, while etcd's put makes its key.
    write_needs: Condition | None = None

    def begun(self, reached: Iterable[int]) -> int:
        """Up to which number there can be writes that the history does not have, by what its answers tell of that."""
        begun = min(reached, default=1 << 63)
        return begun if begun > self.empty else 0


class Act(msgspec.Struct, kw_only=True, eq=False):
    """One operation that ended ok, or a write of unknown outcome (`done` is None).

    `at` is the position of the state that a reply tells of, and of an ok write its own; None where it is unknown. For
    reads, `made` is the position of the write that made what was read, None where there was nothing; `value`, `created`
    and `version` are what was read of it. Values are numbers, equal where the values are. `current`: held to real time;
    `fresh`: a read behind a `sync` of its own.
    """

    op: Operation
    kind: Kind
    invoked: int
    done: int | None
    key: str | None
    at: int | None = None
    value: int = -1
    made: int | None = None
    created: int | None = None
    version: int | None = None
    expected: Expected | None = None
    current: bool = True
    fresh: bool = False
    session: tuple[str, int] = ("", 0)
    children: int | None = None
    #: What a transaction asked and did, and of a part of one the transaction.
    txn: "Txn | None" = None
    head: "Act | None" = None
    #: Of a delete: that it may have found nothing.
    may_miss: bool = False

    @property
    def row(self) -> int:
        """The event by which a proof names the act."""
        return self.invoked

    @property
    def ended(self) -> int:
        """The event of its reply."""
        assert self.done is not None
        return self.done

    @property
    def known(self) -> int:
        """The position of an ok write, or of a reply that tells one."""
        assert self.at is not None
        return self.at

    @property
    def reached(self) -> int:
        """A position that the store had certainly reached when this was answered."""
        return max(self.at or 0, self.made or 0)

    @property
    def shown(self) -> int | None:
        """The value that was read; None: unknown."""
        return None if self.value < 0 else self.value

    @property
    def writes(self) -> bool:
        if self.txn is not None:
            return any(part.writes for part in self.txn.parts)
        return self.kind is Kind.PUT or self.kind is Kind.DELETE

    @property
    def whole(self) -> "Act":
        """The transaction, of a part of one."""
        return self if self.head is None else self.head


class Txn(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What a transaction of several keys did, or would do: one of unknown outcome stands here once for each branch.

    `parts` are in the order of the request. `guards` are compares that say all that a read would: that a key is not
    there, or which write was its last.
    """

    compares: tuple[Compare, ...]
    succeeded: bool
    parts: tuple[Act, ...] = ()
    guards: tuple[Act, ...] = ()


def by_key(acts: Sequence[Act]) -> Iterator[Act]:
    """The acts, each of one key: in place of a transaction its parts and guards."""
    for act in acts:
        if act.txn is None:
            yield act
        else:
            yield from (*act.txn.parts, *act.txn.guards)
