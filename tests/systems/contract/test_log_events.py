"""Lines of real servers' logs, and the events that faults may wait for."""

import pytest

from fencepost.harness.faults.fault_options import LOGGED, triggers_of, triggers_told_by
from fencepost.harness.plugins import registry

#: By system, lines and the most precise event of each, of the releases that run by default.
LINES = {
    "etcd": """
election   {"level":"info","logger":"raft","msg":"5e1a2c345d734 is starting a new election at term 2"}
-          {"level":"info","msg":"starting initial election tick advance","election-ticks":10}
truncation {"level":"info","logger":"raft","msg":"found conflict at index 629 [existing term: 2, conflicting term: 3]"}
snapshot   {"level":"info","msg":"applied snapshot","current-snapshot-index":0,"incoming-leader-snapshot-index":9000}
-          {"level":"info","msg":"applying snapshot"}
saved      {"level":"info","caller":"etcdserver/server.go:2363","msg":"saved snapshot","snapshot-index":612}
compaction {"level":"info","caller":"etcdserver/server.go:2393","msg":"compacted Raft logs","compact-index":1}
compaction {"level":"info","msg":"finished scheduled compaction","compact-revision":501,"took":"1.2ms"}
""",
    "zookeeper": """
election   09:36:09.663 INFO FastLeaderElection New election. My id = 1, proposed zxid=0x1000001d7
-          09:36:09.716 INFO Learner FOLLOWING - LEADER ELECTION TOOK - 54 MS
difference 23:03:55.242 INFO Learner Getting a diff from the leader 0x4000004f7
snapshot   23:03:55.242 INFO Learner Getting a snapshot from leader 0x4000004f7
truncation 23:03:55.242 WARN Learner Truncating log to get in sync with the leader 0x4000004f7
loaded     23:03:55.949 INFO FileSnap Reading snapshot snapshot.2000007b2
saved      09:36:00.947 INFO FileTxnSnapLog Snapshotting: 0x20000000a to data/version-2/snapshot.20000000a
-          09:36:00.954 INFO ZooKeeperServer Snapshot taken in 7 ms
""",
    "consul": """
election   2026-11-29T09:35:29.384Z [INFO]  agent.server.raft: entering candidate state: node="Node at 10.77.0.3:8300
-          2026-11-29T09:35:29.383Z [WARN]  agent.server.raft: rejecting vote request since our last term is greater
truncation 2026-11-29T09:35:25.427Z [WARN]  agent.server.raft: clearing log suffix: from=447 to=447
snapshot   2026-11-29T09:37:15.474Z [INFO]  agent.server.raft: Installed remote snapshot
loaded     2026-11-29T09:37:13.646Z [INFO]  agent.server.raft: starting restore from snapshot: id=2-110-1795
saved      2026-11-29T09:37:04.611Z [INFO]  agent.server.raft: snapshot complete up to: index=368
compaction 2026-11-29T09:37:04.611Z [INFO]  agent.server.raft: compacting logs: from=1 to=358
""",
    "kraft": """
election   09:38:16.1 INFO QuorumState - [RaftManager id=3] Completed transition to ProspectiveState(epoch=3, leaderId=
election   09:38:16.2 INFO QuorumState - [RaftManager id=3] Completed transition to CandidateState(localId=3, epoch=4
-          09:38:16.2 INFO QuorumState - [RaftManager id=3] Attempting durable transition to CandidateState(localId=3
""",
}


@pytest.mark.parametrize("system", LINES)
def test_what_a_line_tells(system: str) -> None:
    logs = registry.system(system).logs
    assert logs is not None
    for line in LINES[system].strip().splitlines():
        word, _, text = line.partition(" ")
        told = [triggers_of(event) for event in logs.events([text.strip()])]
        assert [words[0] for words in told] == [word] * (word != "-"), line
        assert all(("catch-up" in words) is (word in ("difference", "snapshot", "truncation")) for words in told), line
    tested = {line.partition(" ")[0] for line in LINES[system].split("\n")} - {"", "-"}
    assert system == "kraft" or tested == set(triggers_told_by(logs)) - {"claim", "catch-up"}


def test_every_event_of_a_log_is_one_that_some_system_tells() -> None:
    assert {word for one in registry.systems().values() for word in triggers_told_by(one.logs)} == set(LOGGED)
