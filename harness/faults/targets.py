"""The targets that all faults share: how a name such as `leader` or `minority` becomes nodes."""

import random
from typing import Final

from fencepost.harness.faults.fault_options import LastingOptions
from fencepost.harness.faults.kind import Skip, View
from fencepost.harness.runtime.provider import Placement

#: What each name means. A node's own name ("n2") is a target too. Where nodes differ, so is a role (one node of that
#: role, drawn at random), the system's own word for the leader, and its word for something else that has a leader.
NODE_TARGETS: Final = {
    "one": "one node, drawn at random",
    "minority": "voters drawn at random, as many as the cluster can lose and keep a quorum",
    "majority": "the smallest majority of the voters, drawn at random",
    "leader": "the node that leads when the fault acts",
    "follower": "one voter that does not lead when the fault acts, drawn at random",
    "restarted": "the node whose server was restarted last; with when=restart+200ms it is hit while it recovers",
}

#: One node that serves clients; no person can type it.
SERVING: Final = "serving"


def role_targets(placement: Placement) -> list[str]:
    """Return the roles that distinguish nodes, and the system's word for the leader; none where all are the same.

    The word for the leader may be a role's name as well: the active one of that role is meant.
    """
    roles = dict.fromkeys(role for member in placement.cluster for role in member.roles)
    if placement.system is not None and placement.system.profile.leader_word:
        roles[placement.system.profile.leader_word] = None
    return list(roles) if len(roles) > 1 else []


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
    elif target == SERVING:
        chosen = [node for node in shuffled if node in view.serving][:1]
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
    elif target not in ("leader", "follower", *view.leader_names):
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
