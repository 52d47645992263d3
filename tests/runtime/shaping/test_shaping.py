"""When a packet of a shaped link goes on, and what several faults of one link come to; without a network."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.harness.runtime.network import Link, PacketShape
from fencepost.harness.runtime.shaping.packets import BACKLOG_NS, Lane, merged

MS = 1_000_000
shares = st.sampled_from([0.0, 0.1, 0.5])
shapes = st.builds(
    PacketShape,
    delay_ns=st.integers(0, 100 * MS),
    jitter_ns=st.integers(0, 50 * MS),
    loss=shares,
    duplicate=shares,
    reorder=shares,
    reorder_by_ns=st.integers(0, 20 * MS),
    rate_bytes_s=st.sampled_from([0, 10_000, 1_000_000]),
    seed=st.integers(0, 2**32),
)
arrivals = st.lists(st.integers(0, 5 * MS), max_size=50).map(lambda gaps: list(itertools.accumulate(gaps)))


@given(shapes, arrivals)
def test_no_packet_leaves_too_early_and_only_the_held_back_ones_are_overtaken(
    shape: PacketShape, at: list[int]
) -> None:
    lane = Lane(shape)
    last_ns = 0
    for now in at:
        before = lane.counts.overtaken
        due = lane.due_ns(now, 100)
        assert len(due) <= 2
        held_back = lane.counts.overtaken > before
        for due_ns in due:
            assert due_ns >= now + max(0, shape.delay_ns - shape.jitter_ns)
            if not held_back:
                assert due_ns >= last_ns, "a packet keeps its place"
                last_ns = due_ns
    assert lane.counts.seen == len(at)


@given(shapes, arrivals)
def test_the_same_seed_draws_the_same(shape: PacketShape, at: list[int]) -> None:
    one, other = Lane(shape), Lane(shape)
    assert [one.due_ns(now, 100) for now in at] == [other.due_ns(now, 100) for now in at]


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_shares_are_kept(share: float) -> None:
    lane = Lane(PacketShape(loss=share, duplicate=share, reorder=share, reorder_by_ns=MS, seed=1))
    for now in range(20_000):
        lane.due_ns(now, 100)
    counts = lane.counts
    passed = counts.seen - counts.lost
    assert counts.lost / counts.seen == pytest.approx(share, rel=0.1)
    assert counts.doubled / passed == pytest.approx(share, rel=0.1)
    assert counts.overtaken / passed == pytest.approx(share, rel=0.1)


def test_a_narrow_line_serves_one_packet_after_the_other_and_holds_a_second_of_them() -> None:
    lane = Lane(PacketShape(rate_bytes_s=10_000))
    due = [due_ns for _ in range(50) for due_ns in lane.due_ns(0, 1000)]
    assert due == [100 * MS * (number + 1) for number in range(len(due))]
    assert due[-1] - 100 * MS <= BACKLOG_NS < due[-1] + 100 * MS
    assert lane.counts.crowded_out == 50 - len(due)
    assert lane.due_ns(due[-1] + MS, 1000) == (due[-1] + 101 * MS,), "an idle line is free at once"


def test_faults_add_up() -> None:
    link, other = Link("n1", "n2"), Link("n2", "n1")
    one = {link: PacketShape(delay_ns=10, loss=0.5, rate_bytes_s=100)}
    two = {
        link: PacketShape(delay_ns=5, jitter_ns=2, loss=0.5, rate_bytes_s=50),
        other: PacketShape(reorder=0.1, reorder_by_ns=3),
    }
    total = merged({1: one, 2: two})
    assert total[link] == PacketShape(delay_ns=15, jitter_ns=2, loss=0.75, rate_bytes_s=50)
    assert total[other].reorder == pytest.approx(0.1)
    assert merged({2: two, 1: one}) == total
    assert merged({1: one}) == one
    assert merged({}) == {}


@given(st.permutations(range(4)), st.lists(shapes, min_size=4, max_size=4))
def test_the_order_of_faults_does_not_matter(order: list[int], given: list[PacketShape]) -> None:
    link = Link("n1", "n2")
    assert merged({n: {link: given[n]} for n in order}) == merged({n: {link: given[n]} for n in range(4)})
