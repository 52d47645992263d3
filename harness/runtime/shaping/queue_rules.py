"""The rules that send packets of chosen links to a queue, where a process of ours holds, drops or doubles them.

They have their own table, which the kernel consults after that of `links.packet_rules`: packets of a cut link are never
queued. The table's family is IPv4, because kernels without nft_queue accept the x_tables target only there. When nobody
listens, packets pass.
"""

import sys
from collections.abc import Iterable
from typing import Final

from fencepost.harness.runtime.links.packet_rules import Where
from fencepost.harness.runtime.links.redirects import spare_proxies
from fencepost.harness.runtime.linux import nftables

TABLE: Final = "fencepost-queue"
MAP: Final = "queued"
#: The number of the queue in each network namespace.
QUEUE: Final = 77
#: The mark of our own copies, which are not queued again. In host order, as the kernel compares it.
MARK: Final = 0xFE7C
_PRIORITY: Final = -5  # after links.packet_rules
_HOOKS: Final = {
    "forward": nftables.HOOK_FORWARD,
    "input": nftables.HOOK_INPUT,
    "output": nftables.HOOK_OUTPUT,
}


def _rule_set(where: Where, *, native: bool) -> nftables.Batch:
    batch = nftables.Batch(TABLE, nftables.IPV4)
    batch.add_table()
    batch.delete_table()
    batch.add_table()
    batch.add_verdict_map(MAP, 8, 1)
    batch.add_chain("hold")
    handing_over = nftables.queue(QUEUE) if native else nftables.queue_by_target(QUEUE)
    batch.add_rule("hold", handing_over, compatible=not native)
    both_addresses = (nftables.load_network_header(12, 4, 8), nftables.load_network_header(16, 4, 9))
    chains, _ = where.value
    for chain in chains:
        batch.add_hook_chain(chain, _HOOKS[chain], _PRIORITY)
    if where is Where.NODE:
        spare_proxies(batch)
    for chain in chains:
        marked = nftables.equals(MARK.to_bytes(4, sys.byteorder))
        batch.add_rule(chain, nftables.load_mark(), marked, nftables.conclude(nftables.ACCEPT))
        batch.add_rule(chain, *both_addresses, nftables.look_up_verdict(MAP, 1))
    return batch


class QueueRules:
    """The rules of one network namespace: always that of the thread that makes this object."""

    def __init__(self, where: Where) -> None:
        """Set the rules, with an empty map. Raises OSError with the kernel's explanation if it has no such queue."""
        self._kernel = nftables.Nftables()
        try:
            try:
                self._kernel.commit(_rule_set(where, native=True))
                self.means = "nft_queue"
            except OSError:
                self._kernel.commit(_rule_set(where, native=False))
                self.means = "x_tables NFQUEUE"
        except BaseException:
            self._kernel.close()
            raise

    def replace(self, keys: Iterable[bytes]) -> None:
        """Queue the packets of exactly these pairs of addresses, in one transaction."""
        batch = nftables.Batch(TABLE, nftables.IPV4)
        batch.flush_map(MAP)
        batch.add_elements(MAP, dict.fromkeys(keys, nftables.goto("hold")))
        self._kernel.commit(batch)

    def read(self) -> set[bytes]:
        return set(self._kernel.read_map(nftables.Batch(TABLE, nftables.IPV4), MAP))

    def remove(self) -> None:
        batch = nftables.Batch(TABLE, nftables.IPV4)
        batch.delete_table()
        self._kernel.commit(batch)

    def close(self) -> None:
        """Close the connection to the namespace; the rules stay."""
        self._kernel.close()
