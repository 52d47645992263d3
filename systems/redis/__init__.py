"""Redis with Sentinel: its servers and their sentinels, its client, what it promises and what users build on it."""

from typing import Final

SYSTEMS: Final = {"redis": "fencepost.systems.redis.system:REDIS"}
