"""Kafka's message that raises the features of a cluster (KIP-584, KIP-778); see `messages`."""

from typing import Annotated, Final

from fencepost.systems.kafka.wire.fields import Body, Bool, Int8, Int16, Int32, Since, Text
from fencepost.systems.kafka.wire.messages import Api

#: `upgrade_type`: the level may only grow.
UPGRADE: Final = 1


class FeatureUpdate(Body, frozen=True):
    feature: Text = ""
    max_version_level: Int16 = 0
    upgrade_type: Annotated[Int8, Since(1)] = UPGRADE


class UpdateFeaturesRequest(Body, frozen=True):
    timeout_ms: Int32 = 0
    feature_updates: tuple[FeatureUpdate, ...] = ()
    validate_only: Annotated[Bool, Since(1)] = False


class FeatureUpdateResult(Body, frozen=True):
    feature: Text = ""
    error_code: Int16 = 0
    error_message: Text | None = None


class UpdateFeaturesResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Text | None = None
    results: tuple[FeatureUpdateResult, ...] = ()


UPDATE_FEATURES: Final = Api("UpdateFeatures", 57, (1, 1), 0, UpdateFeaturesRequest, UpdateFeaturesResponse)
