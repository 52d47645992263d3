"""Waits until every link of a container cluster is open; reports the links that stay closed, and the likely cause.

Both fabrics of packet rules use it, because their packets pass the same firewall rules of this machine.
"""

import time
from collections.abc import Iterable
from typing import Final

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.links.rules_in_force import all_links
from fencepost.harness.runtime.network import CLIENT, Link, Network, Reach

#: The length of one round of probes; a link that has just come up answers in the next one.
_ROUND_S: Final = 0.05
#: The length of the last round.
_LAST_ROUND_S: Final = 1.0


async def until_open(network: Network, nodes: list[str], timeout_s: float, where: str) -> None:
    """Probe until every directed link is open.

    Args:
        network: enforces and probes the links.
        nodes: the names of all nodes.
        timeout_s: seconds until the last round of probes begins.
        where: the name of the network, for the hint.

    Raises:
        HarnessError: links stayed closed; the message names them, the hint the likely cause.
    """
    shut: dict[Link, Reach] = dict.fromkeys(all_links(nodes), Reach.DROPPED)
    deadline = time.monotonic() + timeout_s
    while shut:
        # Decided before the probe, so that the last probe surely begins after the deadline.
        is_last = time.monotonic() > deadline
        reaches = await network.probe(shut, _LAST_ROUND_S if is_last else _ROUND_S)
        shut = {link: reach for link, reach in reaches.items() if reach is not Reach.OPEN}
        if shut and is_last:
            raise HarnessError(
                f"links still shut {timeout_s:g} s after the start: {', '.join(map(str, shut))}",
                hint=guess(shut, where),
            )


def guess(shut: Iterable[Link], where: str) -> str:
    """Guess from the set of closed links what stops their packets."""
    links = set(shut)
    dead = sorted({end for end in {*sum(links, ())} - {CLIENT} if _all_shut(end, links)})
    if dead:
        return f"nothing reaches or leaves {', '.join(dead)}: has its container ended? Look at its log"
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
    """Say whether `end` is shut in both directions to the client and to all nodes with which it shares a shut link."""
    others = {CLIENT} | {link.source if link.target == end else link.target for link in links if end in link}
    return all({Link(end, other), Link(other, end)} <= links for other in others)
