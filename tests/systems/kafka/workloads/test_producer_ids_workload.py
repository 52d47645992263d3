"""Producer ids are asked for where the brokers are."""

from collections import Counter

from fencepost.harness.history import Outcome
from fencepost.harness.runtime.node import Member
from fencepost.harness.testing.simulation import simulate
from fencepost.systems.kafka.workloads.producer_ids import ProducerIds
from tests.fakes.log_runs import SYSTEM


def test_clients_connect_to_brokers_where_there_are_any() -> None:
    kraft = (Member("n1", ("controller",)), Member("b1", ("broker",), votes=False))
    assert ProducerIds().nodes(kraft) == ("b1",)
    assert ProducerIds().nodes((Member("n1"), Member("n2"))) == ("n1", "n2")


def test_ids_are_asked_for_on_every_node_at_the_end() -> None:
    workload = ProducerIds()
    options = workload.defaults(SYSTEM)
    events = simulate(workload.final_generator(options, 3), workers=9)
    assert Counter(e.node for e in events if e.type is Outcome.OK) == {"n1": 20, "n2": 20, "n3": 20}
