"""The order of the rooms: which folder may import which. `test_imports.py` holds the tree to it.

A room may import itself and whatever stands above it in its own list.
"""

from typing import Final

#: The folders of the product; `harness` is the ground.
FOLDERS: Final = ("harness", "checkers", "nemesis", "workloads")

#: What each of them may import of the others.
ALLOWED_ABOVE: Final[dict[str, tuple[str, ...]]] = {
    "harness": (),
    "checkers": ("harness/base", "harness/history", "harness/verdict"),
    "nemesis": (
        "harness/base",
        "harness/history",
        "harness/coordination",
        "harness/runtime",
        "harness/systems/contract",
        "harness/faults",
    ),
    "workloads": (
        "harness/base",
        "harness/history",
        "harness/coordination",
        "harness/generators",
        "harness/interpreter",
        "harness/runtime",
        "harness/systems/contract",
        "harness/plugins",
    ),
}

#: Each list is read downwards; that of `harness` is the flow of a run.
ROOMS: Final[dict[str, tuple[str, ...]]] = {
    "harness": (
        "base",
        "history",
        "verdict",
        "results",
        "coordination",
        "generators",
        "interpreter",
        "runtime",
        "systems",
        "faults",
        "plugins",
        "plan",
        "interchange",
        "runner",
        "judging",
        "report",
        "findings",
        "run",
        "campaigns",
        "warehouse",
        "pages",
        "testing",
        "conformance",
        "cli",
    ),
    "harness/runtime": ("linux", "artifacts", "links", "shaping", "clocks", "disks", "lab", "containers"),
    "harness/runtime/containers": ("engine", "images", "rules", "toxiproxy"),
    "harness/systems": (
        "contract",
        "java",
        "http",
        "cassandra",
        "consul",
        "etcd",
        "zookeeper",
        "kafka",
        "nats",
        "example",
    ),
    "harness/systems/cassandra": ("wire",),
    "harness/systems/consul": ("wire",),
    "harness/systems/etcd": ("wire",),
    "harness/systems/nats": ("wire",),
    "harness/systems/zookeeper": ("wire",),
    "harness/systems/kafka": ("wire", "client", "server", "kraft", "zookeeper_mode", "bridge"),
    "harness/interchange": ("formats", "second_opinion"),
    "harness/report": ("words", "facts", "drawing", "pictures", "tables", "documents", "page"),
    "harness/campaigns": ("replay", "failover", "times", "night", "gate", "kip"),
    "harness/cli": ("output", "check"),
    "checkers": (
        "facts",
        "findings",
        "storage",
        "objects",
        "transactions",
        "leadership",
        "brokers",
        "leases",
        "membership",
        "watches",
        "elections",
        "groups",
        "log_transactions",
        "log",
        "metadata",
        "metastore",
        "tables",
        "spark",
    ),
    "nemesis": ("network", "process", "disk", "clock", "leadership", "members", "upgrade"),
}

#: Folders of rooms, and the modules that may lie loose in them.
LOOSE: Final[dict[str, tuple[str, ...]]] = {
    "harness": (),
    "harness/runtime": ("network.py", "node.py", "node_state.py", "provider.py", "server_log.py"),
    "harness/systems": (),
    "harness/report": (),
    "harness/campaigns": (),
    "harness/interchange": (),
    "checkers": ("confirm.py", "coverage.py"),
    "nemesis": (),
}
