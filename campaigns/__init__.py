"""Many runs: replay, shrink, nights, gates, the tables of KIP-30 and KIP-273."""

from typing import Final

COMMANDS: Final = {
    "bisect": (
        "fencepost.campaigns.museum.bisection",
        "Find the release in which a bug begins or ends.",
        "Many runs",
    ),
    "campaign": (
        "fencepost.campaigns.commands.campaign",
        "Run a night of plans in a given time, or merge shards.",
        "Many runs",
    ),
    "explore": ("fencepost.campaigns.explore.command", "Run plans near those that reached something new.", "Many runs"),
    "failover": (
        "fencepost.campaigns.failover.command",
        "Measure how long Kafka is without a controller.",
        "Many runs",
    ),
    "gate": ("fencepost.campaigns.commands.gate", "Decide whether a candidate meets a policy.", "Many runs"),
    "museum": ("fencepost.campaigns.museum.command", "Bring published bugs up again, with controls.", "Many runs"),
    "replay": (
        "fencepost.campaigns.replay.replaying",
        "Run recorded faults again and count how often it breaks.",
        "Run",
    ),
    "shrink": (
        "fencepost.campaigns.replay.shrink_command",
        "Find a smaller plan that still shows the violation.",
        "Run",
    ),
}
#: Commands below `fencepost conformance`.
CONFORMANCE: Final = {
    "kip-30": "fencepost.campaigns.kip.command:kip_30",
    "kip-273": "fencepost.campaigns.kip.command:kip_273",
}

#: What only the proposals ask for stands with their tables.
WORKLOADS: Final = {
    "metastore": "fencepost.campaigns.kip.metastore:MetastoreWorkload",
    "storage": "fencepost.campaigns.kip.storage:StorageWorkload",
}
CHECKERS: Final = {
    "metastore": "fencepost.campaigns.kip.metastore_checker:check",
    "storage": "fencepost.campaigns.kip.storage_checker:check",
}
JUDGES: Final = {
    "metastore": (
        *("batches-go-on", "ended-session-is-refused", "ephemerals-belong-to-sessions", "events-before-answers"),
        *("no-orphan-children", "session-requests-in-order", "versions-count-writes"),
    ),
    "storage": ("one-put-per-key", "own-put-is-settled", "update-loses-none", "update-needs-key"),
}
