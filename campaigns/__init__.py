"""Many runs: replay, shrink, nights, gates, the tables of KIP-30 and KIP-273."""

from typing import Final

COMMANDS: Final = {
    "campaign": (
        "fencepost.campaigns.commands.campaign",
        "Run a night of plans in a given time, or merge shards.",
        "Many runs",
    ),
    "gate": ("fencepost.campaigns.commands.gate", "Decide whether a candidate meets a policy.", "Many runs"),
    "replay": (
        "fencepost.campaigns.commands.replay",
        "Run recorded faults again and count how often it breaks.",
        "Run",
    ),
    "shrink": ("fencepost.campaigns.commands.shrink", "Find a smaller plan that still shows the violation.", "Run"),
}
#: Commands below `fencepost conformance`.
CONFORMANCE: Final = {
    "kip-30": "fencepost.campaigns.commands.kip:kip_30",
    "kip-273": "fencepost.campaigns.commands.kip:kip_273",
}
