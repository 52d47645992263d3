"""The order of the rooms: which folder may import which. `test_imports.py` holds the tree to it.

A room may import itself and whatever stands above it in its own list.
"""

from typing import Final

#: The folders of the product; `harness` is the ground.
FOLDERS: Final = ("harness", "checkers", "nemesis", "workloads", "systems", "campaigns", "warehouse")

#: Leaves: nothing else may import them.
LEAVES: Final = ("systems", "campaigns", "warehouse")

#: What each of them may import of the others.
ALLOWED_ABOVE: Final[dict[str, tuple[str, ...]]] = {
    "harness": (),
    "checkers": ("harness/base", "harness/history", "harness/verdict"),
    "nemesis": (
        "harness/base",
        "harness/history",
        "harness/coordination",
        "harness/runtime",
        "harness/contract",
        "harness/faults",
    ),
    "workloads": (
        "harness/base",
        "harness/history",
        "harness/coordination",
        "harness/generators",
        "harness/interpreter",
        "harness/runtime",
        "harness/contract",
        "harness/plugins",
    ),
    "systems": ("harness", "checkers", "nemesis", "workloads"),
    "campaigns": ("harness",),
    "warehouse": ("harness", "checkers", "campaigns"),
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
        "contract",
        "java",
        "http",
        "faults",
        "plugins",
        "plan",
        "interchange",
        "runner",
        "judging",
        "report",
        "findings",
        "run",
        "testing",
        "conformance",
        "cli",
    ),
    "harness/runtime": ("linux", "artifacts", "links", "shaping", "clocks", "disks", "lab", "containers"),
    "harness/runtime/containers": ("engine", "images", "rules", "toxiproxy"),
    "systems": (
        "cassandra",
        "consul",
        "etcd",
        "zookeeper",
        "kafka",
        "nats",
        "example",
    ),
    "systems/cassandra": ("wire", "checkers"),
    "systems/consul": ("wire",),
    "systems/etcd": ("wire",),
    "systems/nats": ("wire",),
    "systems/zookeeper": ("wire",),
    "systems/kafka": (
        "contract",
        "wire",
        "client",
        "server",
        "facts",
        "checkers",
        "report",
        "kraft",
        "zookeeper_mode",
        "bridge",
        "failover",
        "workloads",
        "faults",
    ),
    "harness/interchange": ("formats", "second_opinion"),
    "harness/report": ("words", "facts", "drawing", "pictures", "tables", "documents", "page"),
    "campaigns": ("replay", "night", "gate", "kip", "commands"),
    "harness/cli": ("output", "check"),
    "checkers": (
        "facts",
        "findings",
        "storage",
        "objects",
        "transactions",
        "leadership",
        "leases",
        "membership",
        "watches",
        "elections",
        "log",
        "metastore",
        "tables",
    ),
    "warehouse": ("by_spark", "pages", "commands"),
    "nemesis": ("network", "process", "disk", "clock", "leadership", "members", "upgrade"),
}

#: Folders of rooms, and the modules that may lie loose in them.
LOOSE: Final[dict[str, tuple[str, ...]]] = {
    "harness": (),
    "harness/runtime": ("network.py", "node.py", "node_state.py", "provider.py", "server_log.py"),
    "systems": (),
    "harness/report": (),
    "campaigns": (),
    "harness/interchange": (),
    "checkers": ("confirm.py", "coverage.py"),
    "nemesis": (),
}
