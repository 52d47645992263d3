"""`list-append`: transactions that read some lists and append to some, several keys at a time.

One operation, `txn`, whose value is a list of micro-operations: ["r", key, the list, or null before it was answered]
and ["append", key, number]. All reads of a transaction come first. No two appends of a run have the same number, and a
list shows the order of its appends, so every read shows which transactions it follows (Kingsbury & Alvaro, "Elle",
2020). A few lists are in use at a time, so that transactions meet; after a while each is left for a new one.

At the end every list is read again.
"""

from collections.abc import Callable
from typing import Annotated, Final, Literal

import msgspec

from fencepost.harness.base.options import Duration, Options, about, seconds
from fencepost.harness.coordination import Interface, ListTransactions
from fencepost.harness.generators import Generator, Offer, at_rate, reserve
from fencepost.harness.generators.contract import Context, Draw, Invocation, Step
from fencepost.harness.history import Completion, OpEvent, Value
from fencepost.harness.interpreter.client import Client, SessionClient
from fencepost.harness.plugins.workload import Workload

READ: Final = "r"
APPEND: Final = "append"
#: Lists that one of the last transactions reads.
_AT_THE_END: Final = 4


class ListAppendOptions(Options, frozen=True, kw_only=True):
    rate: Annotated[float, about("transactions per second, all workers together", above=0, most=1e6)] = 60.0
    workers_per_node: Annotated[int, about("workers per node", least=1, most=1000)] = 4
    timeout: Annotated[Duration, about("a transaction is given up after this long", above=0)] = seconds(3)
    lists: Annotated[int, about("lists in use at a time", least=1, most=1000)] = 6
    transactions_per_list: Annotated[int, about("about as many transactions later a list is left", least=1)] = 60
    size: Annotated[int, about("most reads and appends of a transaction, together", least=1, most=8)] = 4
    appends: Annotated[
        Literal["once", "again"], about("whether a transaction appends to a list once at most, or also again")
    ] = "once"


class ListAppend(Workload[ListAppendOptions]):
    name = "list-append"
    about = "transactions that read and append to several lists, in one order that agrees with time"
    protocol = Interface.LISTS
    options = ListAppendOptions
    promise = "strict-serializable"
    judges = ("list-append",)

    def workers(self, options: ListAppendOptions, node_count: int) -> int:
        return node_count * options.workers_per_node

    def timeout_s(self, options: ListAppendOptions, node_count: int, worker: int, patient_s: float) -> float:
        return options.timeout.seconds

    def generator(self, options: ListAppendOptions, node_count: int) -> Generator:
        return at_rate(options.rate, _Transactions(rules=options))

    def final_generator(self, options: ListAppendOptions, node_count: int) -> Generator:
        return reserve((node_count, _LastReads(rules=options)))

    def client(self, store: ListTransactions, options: ListAppendOptions, now_ns: Callable[[], int]) -> Client:
        return ListAppendClient(store)


def _first_list(rules: ListAppendOptions, ctx: Context) -> int:
    """The oldest list in use: every so many transactions another one takes its place."""
    return sum(ctx.counts) * rules.lists // rules.transactions_per_list


class _Transactions(msgspec.Struct, frozen=True, kw_only=True):
    rules: ListAppendOptions

    def op(self, ctx: Context) -> Step:
        worker = ctx.free[0]
        value = self._value(_first_list(self.rules, ctx), ctx.number(worker) * self.rules.size, ctx.draw(worker))
        return Invocation(worker, Offer("txn", value=value), ctx.time_ns), self

    def _value(self, first: int, number: int, draw: Draw) -> list[Value]:
        reads: dict[str, Value] = {}
        appends: list[tuple[str, int]] = []
        for i in range(1 + draw.below(self.rules.size)):
            key = f"l{first + draw.below(self.rules.lists)}"
            if draw.below(2):
                reads[key] = [READ, key, None]
            elif self.rules.appends == "again" or key not in dict(appends):
                appends.append((key, number + i))
        return [*reads.values(), *([APPEND, key, element] for key, element in appends)]

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        return self


class _LastReads(msgspec.Struct, frozen=True, kw_only=True):
    """Read all lists that were ever in use, a few in each transaction; `lists` is how many those are, once known."""

    rules: ListAppendOptions
    lists: int = 0
    done: int = 0

    def op(self, ctx: Context) -> Step:
        lists = self.lists or _first_list(self.rules, ctx) + self.rules.lists
        if self.done >= lists:
            return None, self
        some = range(self.done, min(self.done + _AT_THE_END, lists))
        offer = Offer("txn", value=[[READ, f"l{i}", None] for i in some])
        after = msgspec.structs.replace(self, lists=lists, done=some.stop)
        return Invocation(ctx.free[0], offer, ctx.time_ns), after

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        return self


class ListAppendClient(SessionClient[ListTransactions]):
    """One connection."""

    async def invoke(self, offer: Offer) -> Completion:
        micro = offer.value or []
        reads = [key for f, key, _ in micro if f == READ]
        appends = [(key, value) for f, key, value in micro if f == APPEND]
        answer = await self._store.transact(reads, appends)
        read = zip(reads, answer.lists, strict=True)
        done: list[Value] = [*([READ, key, list(elements)] for key, elements in read)]
        return self._ok([*done, *([APPEND, key, value] for key, value in appends)], answer)
