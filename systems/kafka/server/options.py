"""The least values of options that every Kafka server has."""

from typing import Final

from fencepost.harness.base.options import seconds

LEAST: Final = {"replica_lag": seconds(1), "heap_mib": 128, "data_limit_mib": 64}
