"""The run by which failover is measured on every generation of Kafka."""

from collections.abc import Mapping

from fencepost.harness.contract.failover import Failover
from fencepost.harness.contract.profile import S

#: Every node is asked for a new topic several times a second, and for little else: one is accepted every 0.2 s.
_ASKED = {"rate": "10", "reads": "0.5", "keys": "1", "create_every": "200ms", "window": "0s", "change_timeout": "1s"}


def failover(
    *,
    options: S,
    loading: tuple[str, str],
    about: str,
    nemesis: str = "kill:controller:for=20s",
    time_limit: str = "34s",
    deployments: Mapping[str, Failover[S]] | None = None,
) -> Failover[S]:
    """Describe the run for one deployment; see `Failover`."""
    return Failover(
        options=options,
        workload="metadata",
        workload_options=_ASKED,
        load="bystanders",
        change="create",
        loading=loading,
        about=about,
        nemesis=nemesis,
        time_limit=time_limit,
        deployments=deployments or {},
    )
