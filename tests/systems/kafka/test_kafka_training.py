"""The training run's way to a broker that serves, against a node that does as it is told."""

import asyncio
from collections.abc import Iterator

import pytest
from kafka.protocol.admin.topics import CreateTopicsResponse
from kafka.protocol.metadata.metadata import MetadataResponse

from fencepost.systems.kafka.server import archive_training as training
from fencepost.systems.kafka.wire.messages import CREATE_TOPICS
from tests.fakes.kafka_broker import SILENCE, Answer, Asked, node
from tests.systems.contract.patience import PATIENCE_S

TOPIC = MetadataResponse.MetadataResponseTopic
LED = MetadataResponse(topics=[TOPIC(name=training._TOPIC, partitions=[TOPIC.MetadataResponsePartition(leader_id=1)])])


def created(number: int) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[CreateTopicsResponse.CreatableTopicResult(name=training._TOPIC, error_code=number)]
    )


@pytest.mark.parametrize("first", [SILENCE, created(38), created(7)], ids=["silent", "refused", "in doubt"])
def test_a_topic_that_an_attempt_made_before_it_was_given_up_is_no_refusal(
    monkeypatch: pytest.MonkeyPatch, first: Answer
) -> None:
    """A node that starts on a busy machine answers too late, and has made the topic all the same."""
    monkeypatch.setattr(training, "_ATTEMPT_S", 0.5)
    answers: Iterator[Answer] = iter([first])

    def answer(asked: Asked) -> Answer:
        return next(answers, created(36)) if asked.api is CREATE_TOPICS else LED

    async def scenario() -> None:
        async with node(answer) as fake, asyncio.timeout(PATIENCE_S):
            broker = await training._once_it_serves(fake.port)
            assert len([asked for asked in fake.asked if asked.api is CREATE_TOPICS]) >= 2
            broker.close()

    asyncio.run(scenario())
