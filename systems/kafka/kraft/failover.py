"""How the time without an active controller is measured, in two deployments of KRaft."""

from typing import Final

from fencepost.harness.base.options import seconds
from fencepost.systems.kafka.contract.failover import failover
from fencepost.systems.kafka.server.options import KraftOptions

_COMBINED: Final = KraftOptions(
    combined=True,
    broker_session=seconds(2),
    broker_heartbeat=seconds(0.5),
    heap_mib=1024,
    data_limit_mib=2048,
)
_APART: Final = KraftOptions(
    brokers=3,
    broker_session=seconds(2),
    broker_heartbeat=seconds(0.5),
    heap_mib=1024,
    data_limit_mib=2048,
)
_LOADING: Final = ("Becoming the active controller", "Activated periodic tasks")
_TIME_OUTS: Final = "with a fetch time-out of 1 s and an election time-out of 0.5 s; a broker's session lasts 2 s"

FAILOVER: Final = failover(
    options=_COMBINED,
    loading=_LOADING,
    about=f"each broker is a controller too, {_TIME_OUTS}",
    deployments={
        "controllers": failover(
            options=_APART,
            loading=_LOADING,
            about=f"three controllers have nodes of their own beside three brokers, {_TIME_OUTS}. So no partition loses"
            " its leader with the controller",
        )
    },
)
