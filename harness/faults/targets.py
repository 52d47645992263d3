"""Targets that all faults share: how a word such as `leader` or `minority` becomes nodes."""

import random
from typing import Final

from fencepost.harness.faults.kind import Skip, View

#: What each word means; a node's own name ("n2") is a target as well, and so is a role where nodes differ ("broker":
#: one node of that role, drawn). What the leader is called there ("controller") means the node that leads.
NODE_TARGETS: Final = {
    "one": "one node, drawn",
    "minority": "as many drawn voters as can be lost with a quorum left",
    "majority": "the smallest majority of voters, drawn",
    "leader": "the node that leads when the fault acts",
    "follower": "one voter that does not lead when the fault acts, drawn",
    "restarted": "the node whose server was started again last; with when=restart+200ms it is hit while it recovers",
}

#: What Kafka calls the node that leads; a role's name as well in KRaft, where the active one of that role is meant.
CONTROLLER: Final = "controller"


def choose_nodes(target: str, view: View, draw: random.Random) -> tuple[str, ...] | Skip:
    """The nodes that `target` means now, in the cluster's order.

    One draw is made whatever the target, so that the draws of later faults do not depend on who leads.
    """
    shuffled = list(view.nodes)
    draw.shuffle(shuffled)
    voters = [node for node in shuffled if node in view.voters]
    if target in view.nodes:
        chosen = [target]
    elif target == "all":
        chosen = shuffled
    elif target == "one":
        chosen = shuffled[:1]
    elif target == "restarted":
        if view.restarted is None:
            return Skip("no server had been started again")
        chosen = [view.restarted]
    elif target == "minority":
        chosen = voters[: (len(voters) - 1) // 2]
    elif target == "majority":
        chosen = voters[: len(voters) // 2 + 1]
    elif target not in ("leader", "follower", CONTROLLER, view.subject):
        chosen = [node for node in shuffled if node in view.with_role(target)][:1]
    elif view.leader is None:
        return Skip("no node was known to lead")
    elif target == "follower":
        chosen = [node for node in voters if node != view.leader][:1]
    else:
        chosen = [view.leader]
    return tuple(node for node in view.nodes if node in chosen)
