"""Probes: seldom while their node is well, at once when it was superseded, and again soon after whatever went wrong."""

import msgspec

from fencepost.harness.generators import PENDING, Context, Generator, Invocation, Offer, on_workers, probes, validate
from fencepost.harness.history import OpEvent, Outcome

S = 1_000_000_000
KEEP = Offer("read", "k")


class Driver:
    """Asks one worker's probe every 5 ms, as a busy interpreter does, and ends each operation at once with `type`."""

    def __init__(self, seed: int = 1) -> None:
        self.generator: Generator = validate(
            probes(lambda draw: KEEP, lambda number, draw: Offer("write", "k", number))
        )
        self.ctx = Context(0, (0,), (0,), (0,), 1, seed)
        self.asked: list[tuple[int, Offer]] = []

    def run(self, until_s: float, *, superseded: bool, type: Outcome = Outcome.OK) -> list[tuple[int, Offer]]:
        """What was offered until then, with the times."""
        before = len(self.asked)
        self.ctx = msgspec.structs.replace(self.ctx, superseded=frozenset({0} if superseded else ()))
        while self.ctx.time_ns < until_s * S:
            step, self.generator = self.generator.op(self.ctx)
            if isinstance(step, Invocation):
                self.asked.append((self.ctx.time_ns, step.offer))
                self._end(step.offer, type)
            else:
                assert step is PENDING
            self.ctx = msgspec.structs.replace(self.ctx, time_ns=self.ctx.time_ns + 5_000_000)
        return self.asked[before:]

    def _end(self, offer: Offer, type: Outcome) -> None:
        self.ctx = msgspec.structs.replace(self.ctx, counts=(self.ctx.counts[0] + 1,))
        event = OpEvent(
            index=0, time_ns=self.ctx.time_ns, type=type, process=0, f=offer.f, node="n1", key=offer.key, value=None
        )
        self.generator = self.generator.update(self.ctx, event)


def test_a_probe_opens_its_connection_early_and_then_seldom_acts() -> None:
    times = [at_ns for at_ns, offer in Driver().run(200, superseded=False) if offer == KEEP]
    assert times[0] < 2.1 * S
    assert 10 <= len(times) <= 50  # one in 8 s on average


def test_a_superseded_node_is_asked_within_a_fraction_of_a_second_with_numbers_of_their_own() -> None:
    driver = Driver()
    driver.run(30, superseded=False)
    probing = driver.run(31, superseded=True)
    assert {offer.f for _, offer in probing} == {"write"}
    assert probing[0][0] < 30.2 * S
    assert len({offer.value for _, offer in probing}) == len(probing) > 5


def test_what_went_wrong_is_mended_soon() -> None:
    driver = Driver()
    driver.run(3, superseded=False, type=Outcome.FAIL)
    assert len(driver.run(22, superseded=False, type=Outcome.FAIL)) >= 10


def test_once_its_node_is_no_longer_superseded_a_probe_tries_its_connection() -> None:
    driver = Driver()
    driver.run(10, superseded=True)
    after = driver.run(12.1, superseded=False)
    assert [offer for _, offer in after][:1] == [KEEP]


def test_a_part_of_the_workers_sees_which_of_them_are_superseded() -> None:
    """Whoever hands a context on hands that on too."""
    generator = on_workers([1], probes(lambda draw: KEEP, lambda number, draw: Offer("write", "k", number)))
    ctx = Context(0, (0, 1), (0, 1), (0, 0), 2, 1, frozenset({1}))
    _, generator = generator.op(ctx)
    step, _ = generator.op(msgspec.structs.replace(ctx.alone(1), time_ns=S))
    assert isinstance(step, Invocation)
    assert (step.worker, step.offer.f) == (1, "write")
