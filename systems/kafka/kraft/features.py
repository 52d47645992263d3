"""Raising the features of a cluster after an upgrade, as `kafka-features.sh upgrade --release-version` does.

One feature at a time: `metadata.version` first, on which others depend. Levels are those of a new cluster of the
release (`server.storage`).

Source: KIP-584, KIP-778; FeatureCommand, FeatureControlManager.
"""

from typing import Final

from fencepost.harness.coordination import Definite
from fencepost.systems.kafka.client.client import open_node
from fencepost.systems.kafka.server.storage import levels
from fencepost.systems.kafka.wire.errors import raise_error
from fencepost.systems.kafka.wire.messages import UPDATE_FEATURES, UPGRADE

METADATA_VERSION: Final = "metadata.version"
UNKNOWN_LEVELS: Final = "unknown-feature-levels"
_TIMEOUT_MS: Final = 10_000
_CONNECT_TIMEOUT_S: Final = 2.0


async def raise_features(address: tuple[str, int], version: str) -> str:
    """Raise what is lower than in a new cluster of this release, by way of the broker at this address."""
    wanted = levels(version)
    if not wanted:
        raise Definite(UNKNOWN_LEVELS, f"the levels of a new cluster of {version} are not known")
    node = await open_node(*address, connect_timeout_s=_CONNECT_TIMEOUT_S)
    raised: list[str] = []
    try:
        known = node.connection.features
        for feature in sorted(wanted, key=lambda name: (name != METADATA_VERSION, name)):
            level, before = wanted[feature], known.get(feature, 0)
            if level <= before:
                continue
            update = UPDATE_FEATURES.request.FeatureUpdateKey(
                feature=feature, max_version_level=level, upgrade_type=UPGRADE
            )
            request = UPDATE_FEATURES.request(timeout_ms=_TIMEOUT_MS, feature_updates=[update])
            answer = await node.connection.request(UPDATE_FEATURES, request)
            raise_error(node.change, answer.error_code, answer.error_message)
            for result in answer.results:
                raise_error(node.change, result.error_code, result.error_message)
            raised.append(f"{feature} {before} to {level}")
    finally:
        node.close()
    return ", ".join(raised) or "no feature was lower than in a new cluster"
