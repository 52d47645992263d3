"""Raising the features of a cluster: what is asked of the broker, in which order, and what a refusal becomes."""

import asyncio

import pytest
from kafka.protocol.admin.cluster import UpdateFeaturesResponse
from kafka.protocol.metadata.api_versions import ApiVersionsResponse

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.systems.kafka.kraft.features import METADATA_VERSION, raise_features
from fencepost.systems.kafka.server.storage import levels
from fencepost.systems.kafka.wire.messages import API_VERSIONS, UPDATE_FEATURES, UPGRADE
from tests.fakes.kafka_broker import Answer, Asked, node

_OLD = {METADATA_VERSION: 21, "group.version": 1}


def raised(version: str, answer: UpdateFeaturesResponse) -> tuple[str, list[Asked]]:
    """What is said to be raised on a cluster with the levels of `_OLD`, and what the broker was asked for."""

    def answers(asked: Asked) -> Answer:
        if asked.api.key != API_VERSIONS.key:
            return answer
        feature, offer = ApiVersionsResponse.FinalizedFeatureKey, ApiVersionsResponse.ApiVersion
        known = [feature(name=name, max_version_level=level, min_version_level=1) for name, level in _OLD.items()]
        offered = [
            offer(api_key=api.key, min_version=api.versions[0], max_version=api.versions[1])
            for api in (API_VERSIONS, UPDATE_FEATURES)
        ]
        return ApiVersionsResponse(api_keys=offered, finalized_features_epoch=1, finalized_features=known)

    async def run() -> tuple[str, list[Asked]]:
        async with node(answers, {}) as fake:
            said = await raise_features(("127.0.0.1", fake.port), version)
            return said, [asked for asked in fake.asked if asked.api.key == UPDATE_FEATURES.key]

    return asyncio.run(run())


def test_what_is_lower_is_raised_one_by_one_and_the_metadata_version_first() -> None:
    said, asked = raised("4.3.1", UpdateFeaturesResponse())
    updates = [update for request in asked for update in request.message.feature_updates]
    wanted = levels("4.3.1")
    assert updates[0].feature == METADATA_VERSION
    assert {u.feature: u.max_version_level for u in updates} == {
        n: v for n, v in wanted.items() if n != "group.version"
    }
    assert {u.upgrade_type for u in updates} == {UPGRADE}
    assert len(asked) == len(updates)
    assert said.startswith("metadata.version 21 to 30, ")


@pytest.mark.parametrize(
    "answer",
    [
        UpdateFeaturesResponse(error_code=95),
        UpdateFeaturesResponse(
            results=[UpdateFeaturesResponse.UpdatableFeatureResult(feature=METADATA_VERSION, error_code=95)]
        ),
    ],
)
def test_a_refusal_ends_it(answer: UpdateFeaturesResponse) -> None:
    with pytest.raises((Definite, Indefinite), match=r"\b95\b|feature"):
        raised("4.3.1", answer)


def test_a_release_of_unknown_levels_is_refused_before_anything_is_asked() -> None:
    with pytest.raises(Definite, match=r"3\.3\.0"):
        raised("3.3.0", UpdateFeaturesResponse())
