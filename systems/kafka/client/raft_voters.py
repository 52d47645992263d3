"""Changing who votes in the metadata quorum (KIP-853, 3.9 on): AddRaftVoter and RemoveRaftVoter.

A voter is identified by its node's id and the id of its directory; a new directory has a new id. Of the controllers
only the leader accepts these requests. It answers when the new set of voters is committed, and refuses another change
until then. It adds a voter that fetches and has caught up; otherwise it answers with a time-out.

Source: the definitions in kafka-clients 3.9.2 and 4.3.1; AddVoterHandler and RemoveVoterHandler of 3.9 to 4.3.
"""

import uuid

from fencepost.systems.kafka.client.client import KafkaNode
from fencepost.systems.kafka.names import CLUSTER_ID
from fencepost.systems.kafka.wire.errors import RequestKind, raise_error
from fencepost.systems.kafka.wire.messages import ADD_RAFT_VOTER, REMOVE_RAFT_VOTER


async def add_voter(
    controller: KafkaNode, number: int, directory: str, endpoint: tuple[str, str, int], *, timeout_ms: int
) -> None:
    """Make the node with this number and directory (hexadecimal) a voter; `endpoint` is listener, host and port.

    Raises:
        Definite: the leader refuses, and nothing changed.
        Indefinite: nobody knows whether the voter was added.
    """
    listener, host, port = endpoint
    request = ADD_RAFT_VOTER.request(
        cluster_id=CLUSTER_ID,
        timeout_ms=timeout_ms,
        voter_id=number,
        voter_directory_id=uuid.UUID(directory),
        listeners=[ADD_RAFT_VOTER.request.VoterListener(name=listener, host=host, port=port)],
    )
    answer = await controller.connection.request(ADD_RAFT_VOTER, request)
    raise_error(RequestKind.VOTERS, answer.error_code, answer.error_message)


async def remove_voter(controller: KafkaNode, number: int, directory: str) -> None:
    """Remove the voter with this number and directory; raises as `add_voter` does."""
    request = REMOVE_RAFT_VOTER.request(cluster_id=CLUSTER_ID, voter_id=number, voter_directory_id=uuid.UUID(directory))
    answer = await controller.connection.request(REMOVE_RAFT_VOTER, request)
    raise_error(RequestKind.VOTERS, answer.error_code, answer.error_message)
