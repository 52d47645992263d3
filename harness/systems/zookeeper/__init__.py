"""Apache ZooKeeper: servers, an own client, and what it promises."""

from typing import Final

from fencepost.harness.systems.zookeeper.system import ZooKeeper

ZOOKEEPER: Final = ZooKeeper()

__all__ = ["ZOOKEEPER", "ZooKeeper"]
