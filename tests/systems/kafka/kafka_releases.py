"""Which tests of Kafka wait for the long ones: those whose release would have to be fetched and trained first.

Under CI none waits: there a test run fetches what it needs, once for each release (about 20 s), so what is skipped by
nobody is tested by somebody.
"""

import os
from collections.abc import Collection

import pytest

from fencepost.harness.plugins import registry

#: What the tests in `make test` start, by system and release.
USED = (("kraft", "4.3.1"), ("kraft", "3.6.0"), ("kraft", "3.9.2"), ("kafka-zk", "3.9.2"))


def needs(system: str, version: str = "") -> Collection[pytest.MarkDecorator]:
    """Markers of a test that starts this release (the system's default when empty)."""
    chosen = registry.system(system)
    at_hand = chosen.releases.at_hand(version or chosen.releases.default)
    return () if at_hand or os.environ.get("CI") else (pytest.mark.long,)
