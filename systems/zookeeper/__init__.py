"""Apache ZooKeeper: servers, an own client, and what it promises."""

from typing import Final

SYSTEMS: Final = {"zookeeper": "fencepost.systems.zookeeper.system:ZOOKEEPER"}
