"""The end of a `metadata` run: every node is asked everything, round by round, until all give the same answers.

There are at least two rounds, a while apart. A node publishes what it learns piece by piece, so a view is proven to
lack a change only when it answered well after it had shown a later change. If the deadline of the phase ends the rounds
early, the answers so far are judged.
"""

from typing import Final

import msgspec

from fencepost.harness.generators import PENDING, Context, Generator, Invocation, Offer
from fencepost.harness.generators.contract import Step
from fencepost.harness.history import OpEvent, Outcome, Value
from fencepost.systems.kafka.workloads.metadata_kinds import kind_of, things_at

#: The setting that is written last; it is read like the others.
LAST_KEY: Final = "k-last"
#: Rounds begin this far apart; `systems.kafka.checkers.metadata.views` rests on more than a second.
PAUSE_NS: Final = 1_300_000_000
_ROUNDS_MIN: Final = 2
#: At most this many of the newest names are asked for, so that the end of a long run stays short.
_NAMES_MAX: Final = 400
_THINGS_MAX: Final = 40
#: A node with this error does not answer this kind of question at all; it gets no more of them in this round.
_NEVER_ANSWERED: Final = frozenset({"unsupported-api", "not-controller"})
#: With this error the node is down: it is asked for nothing more in this round, which would keep the others waiting.
_DOWN: Final = "not-connected"


class FinalRounds(msgspec.Struct, frozen=True, kw_only=True):
    """Each worker asks all questions in turn; a round is over when every worker has.

    `next` is each worker's next question. `first` is the first answer to each question in this round. `agreed` says
    whether all answers so far were equal and none was missing.
    """

    keys: tuple[str, ...]
    every_ns: int
    #: Whether things are asked for too (`metadata_kinds`).
    things: bool = False
    questions: tuple[Offer, ...] = ()
    next: tuple[int, ...] = ()
    first: dict[Offer, Value] = {}
    agreed: bool = True
    begun: int = 0
    not_before_ns: int = 0

    def op(self, ctx: Context) -> Step:
        rounds = self if self.questions else self._prepared(ctx)
        for worker in ctx.free:
            at = ctx.workers.index(worker)
            number = rounds.next[at]
            if number < len(rounds.questions) and ctx.time_ns >= rounds.not_before_ns:
                after = _with(rounds.next, at, number + 1)
                offer = rounds.questions[number]
                return Invocation(worker, offer, ctx.time_ns), msgspec.structs.replace(rounds, next=after)
        if len(ctx.free) < len(ctx.workers) or any(number < len(rounds.questions) for number in rounds.next):
            return PENDING, rounds
        if rounds.agreed and rounds.begun >= _ROUNDS_MIN:
            return None, rounds
        return PENDING, rounds._again(ctx)

    def _prepared(self, ctx: Context) -> "FinalRounds":
        slots = range(max(0, ctx.time_ns // self.every_ns - _NAMES_MAX), ctx.time_ns // self.every_ns + 1)
        names = (Offer("exists", f"t{slot}") for slot in slots)
        # The last change first: a view that shows it must show all that went before.
        things = things_at(ctx.time_ns, self.every_ns, most=_THINGS_MAX) if self.things else ()
        questions = (*(Offer("describe", key) for key in (*reversed(self.keys), *things)), *names)
        return msgspec.structs.replace(self, questions=questions)._again(ctx, pause_ns=0)

    def _again(self, ctx: Context, pause_ns: int = PAUSE_NS) -> "FinalRounds":
        return msgspec.structs.replace(
            self,
            next=(0,) * len(ctx.workers),
            first={},
            agreed=True,
            begun=self.begun + 1,
            not_before_ns=ctx.time_ns + pause_ns,
        )

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        offer = Offer(event.f, event.key)
        if event.type is Outcome.OK:
            if offer not in self.first:
                return msgspec.structs.replace(self, first={**self.first, offer: event.value})
            alike = self.first[offer] == event.value
            return self if alike else msgspec.structs.replace(self, agreed=False)
        at = ctx.workers.index(ctx.worker_of(event))
        if event.error == _DOWN:
            return msgspec.structs.replace(self, agreed=False, next=_with(self.next, at, len(self.questions)))
        if event.error not in _NEVER_ANSWERED:
            return msgspec.structs.replace(self, agreed=False)
        number = self.next[at]
        while number < len(self.questions) and _is_alike(self.questions[number], offer):
            number += 1
        return msgspec.structs.replace(self, next=_with(self.next, at, number))


def _is_alike(one: Offer, other: Offer) -> bool:
    """Whether a node that does not answer one of these questions does not answer the other, either."""
    return one.f == other.f and (one.f != "describe" or kind_of(one.key or "") == kind_of(other.key or ""))


def _with(numbers: tuple[int, ...], at: int, number: int) -> tuple[int, ...]:
    return (*numbers[:at], number, *numbers[at + 1 :])
