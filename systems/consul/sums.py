"""Recording the checksums of Consul's releases, as go.sum has them."""

from fencepost.harness.contract.recorded_sums import record_module_sums
from fencepost.systems.consul.releases import MODULE, SUMS


def record(releases: list[str]) -> int:
    """Record these releases, or check the recorded ones again; returns the exit status of the command."""
    return record_module_sums(SUMS, MODULE, releases)
