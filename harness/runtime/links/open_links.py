"""Wait until every link of a container cluster has been found open; say which stay shut, and who may be guilty.

Separate from the fabrics, since the packets of all of them pass the same places of this machine.
"""

import time
from collections.abc import Iterable
from typing import Final

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.links.rules_in_force import all_links
from fencepost.harness.runtime.network import CLIENT, Link, Network, Reach

#: Of one round of probes; a link that has just come up answers in the next one.
_ROUND_S: Final = 0.05
#: Of the last one.
_LAST_ROUND_S: Final = 1.0


async def until_open(network: Network, nodes: list[str], timeout_s: float, where: str) -> None:
    """Probe until every directed link has been found open; `where` names the network in the hint."""
    shut: dict[Link, Reach] = dict.fromkeys(all_links(nodes), Reach.DROPPED)
    deadline = time.monotonic() + timeout_s
    while shut:
        # Asked before the probe: one that was sent too early, and then waited for too long, is not the last.
        is_last = time.monotonic() > deadline
        found = await network.probe(shut, _LAST_ROUND_S if is_last else _ROUND_S)
        shut = {link: reach for link, reach in found.items() if reach is not Reach.OPEN}
        if shut and is_last:
            raise HarnessError(
                f"links still shut {timeout_s:g} s after the start: {', '.join(map(str, shut))}",
                hint=guess(shut, where),
            )


def guess(shut: Iterable[Link], where: str) -> str:
    """Whose rules most likely stop the packets of these links."""
    links = set(shut)
    dead = sorted({end for end in {*sum(links, ())} - {CLIENT} if _all_shut(end, links)})
    if dead:
        return f"nothing reaches {', '.join(dead)} or comes from there: has its container ended? See its log"
    if all(link.target == CLIENT for link in links):
        return (
            f"packets from containers to this machine are dropped: look at the INPUT rules of its firewall "
            f"(iptables -S INPUT; nft list ruleset), and accept what comes from {where}"
        )
    if not any(CLIENT in link for link in links):
        return (
            f"packets between containers are dropped: look at the FORWARD rules of this machine's firewall "
            f"(iptables -S FORWARD; nft list ruleset), and accept what stays in {where}"
        )
    return f"look at the firewall rules of this machine (iptables -S; nft list ruleset) for {where}"


def _all_shut(end: str, links: set[Link]) -> bool:
    """Whether `links` shut both ways between `end`, the client and whomever else they name with it."""
    others = {CLIENT} | {link.source if link.target == end else link.target for link in links if end in link}
    return all({Link(end, other), Link(other, end)} <= links for other in others)
