"""What a listener of the metadata log asks for next, after each kind of answer."""

from fencepost.harness.history import OpEvent, Outcome, Value
from fencepost.systems.kafka.workloads.metadata_listeners import ListenMemory

NODES = 3


def event(*, value: Value = None, error: str | None = None) -> OpEvent:
    kind = Outcome.FAIL if error else Outcome.OK
    return OpEvent(index=0, time_ns=1_000, type=kind, process=0, f="listen", node="n1", value=value, error=error)


def entry(offset: int, epoch: int) -> Value:
    return ["entry", offset, epoch, "topic", {}]


def test_after_the_refusal_of_an_epoch_the_same_node_is_asked_once_more() -> None:
    memory = ListenMemory()
    memory.learn(0, 1, NODES, event(value=[2, 0, []]))
    memory.listener(0).node = 1
    memory.learn(0, 1, NODES, event(error="fenced-leader-epoch"))
    assert memory.listener(0).node == 1
    memory.learn(0, 1, NODES, event(error="fenced-leader-epoch"))
    assert memory.listener(0).node == 2
    memory.learn(0, 2, NODES, event(error="timeout"))
    assert memory.listener(0).node == 0


def test_after_the_logs_part_the_tail_of_a_later_epoch_is_dropped() -> None:
    memory = ListenMemory()
    memory.learn(0, 0, NODES, event(value=[2, 0, [entry(0, 1), entry(1, 1), entry(2, 2), entry(3, 2)]]))
    assert (memory.listener(0).next, memory.listener(0).epoch) == (4, 2)
    memory.learn(0, 0, NODES, event(value=[3, 0, [["parts", 1, 9]]]))
    assert (memory.listener(0).next, memory.listener(0).epoch) == (2, 1)
    memory.learn(0, 0, NODES, event(value=[3, 0, [["parts", 1, 1]]]))
    assert (memory.listener(0).next, memory.listener(0).epoch) == (1, 1)


def test_a_snapshot_stands_for_everything_below_it() -> None:
    memory = ListenMemory()
    memory.learn(0, 0, NODES, event(value=[4, 50, [["snapshot", 40, 3, []]]]))
    assert (memory.listener(0).next, memory.listener(0).epoch) == (40, 3)
    assert not memory.listener(0).has_all
    memory.learn(0, 0, NODES, event(value=[4, 40, []]))
    assert memory.listener(0).has_all


def test_listeners_do_not_share_what_they_know() -> None:
    memory = ListenMemory()
    memory.learn(0, 0, NODES, event(value=[1, 1, [entry(0, 1)]]))
    assert (memory.listener(0).next, memory.listener(1).next) == (1, 0)
