"""The targets that all faults share: how a name such as `leader` or `minority` becomes nodes."""

import random
from typing import Final

from fencepost.harness.faults.fault_options import LastingOptions
from fencepost.harness.faults.kind import Skip, View

#: What each name means. A node's own name ("n2") is a target too. Where nodes differ, so is a role ("broker": one node
#: of that role, drawn at random), the system's own word for the leader ("controller"), and its word for something else
#: that has a leader ("meta").
NODE_TARGETS: Final = {
    "one": "one node, drawn at random",
    "minority": "voters drawn at random, as many as the cluster can lose and keep a quorum",
    "majority": "the smallest majority of the voters, drawn at random",
    "leader": "the node that leads when the fault acts",
    "follower": "one voter that does not lead when the fault acts, drawn at random",
    "restarted": "the node whose server was restarted last; with when=restart+200ms it is hit while it recovers",
}

#: What Kafka calls the node that leads; a role's name as well in KRaft, where the active one of that role is meant.
CONTROLLER: Final = "controller"


def choose_nodes(target: str, view: View, draw: random.Random) -> tuple[str, ...] | Skip:
    """Return the nodes that `target` means now, in the cluster's order, or why there are none.

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
    elif target in view.other_leaders:
        leader = view.other_leaders[target]
        if leader is None:
            return Skip(f"no node was known to lead the {target} group")
        chosen = [leader]
    elif target not in ("leader", "follower", CONTROLLER, view.subject):
        chosen = [node for node in shuffled if node in view.with_role(target)][:1]
    elif view.leader is None:
        return Skip("no node was known to lead")
    elif target == "follower":
        chosen = [node for node in voters if node != view.leader][:1]
    else:
        chosen = [view.leader]
    return tuple(node for node in view.nodes if node in chosen)


def choose_lasting(target: str, options: LastingOptions, view: View, draw: random.Random) -> tuple[str, ...] | Skip:
    """Choose as `choose_nodes` does, for a fault whose effect stays when it is healed.

    With `fixed=yes` the draw depends on the run's seed alone: all such faults of the run, of any kind, mean the same
    minority, and "one" is among it. So the faults of a whole run never add up to more than a minority.
    """
    return choose_nodes(target, view, random.Random(f"{view.seed}/lasting") if options.fixed else draw)
