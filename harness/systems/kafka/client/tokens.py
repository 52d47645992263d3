"""Delegation tokens by way of one broker, over a second connection, on which the client authenticates itself.

Kafka gives tokens only to clients that have authenticated themselves. The user of this client makes each token for
another owner (KIP-373), whose name is the key, and is named as a renewer, so that it may renew and end the token.

| value | the owner has                                                                        |
| None  | no token                                                                             |
| 1     | a token as it was made: it expires a day after it was issued, Kafka's default        |
| 2     | a token that was renewed, for twelve hours: it expires within 18 hours of its issue  |

The server chooses a token's id and when it expires, so a request can't name the token that it makes. What it did is
recognised all the same: an owner gets one token, by one request, and a renewal is for less time than a new token has.
The six hours between allow for the clocks of controllers, which differ under some faults.

To renew or end a token its HMAC is needed. So a change first asks the same broker for it, which changes nothing. If it
does not answer, or knows no token of the owner or several, nothing else is sent. (A broker that forwards one request
twice makes two.)

Source: KIP-48, KIP-373, KIP-900; DelegationTokenControlManager of Kafka 3.6 to 4.3, DelegationTokenManagerZk of 3.9.
"""

import secrets
from typing import Final

from fencepost.harness.coordination import Definite, Indefinite, NotSent
from fencepost.harness.systems.kafka.client.client import KafkaNode, open_node
from fencepost.harness.systems.kafka.client.scram import MECHANISM, Refused, client_first, prove, salted_password
from fencepost.harness.systems.kafka.names import TOKEN_PASSWORD, TOKEN_USER
from fencepost.harness.systems.kafka.wire import admin_messages as admin
from fencepost.harness.systems.kafka.wire import token_messages as tokens
from fencepost.harness.systems.kafka.wire.connection import Connection
from fencepost.harness.systems.kafka.wire.errors import (
    NOT_CONNECTED,
    UNSUPPORTED_API,
    Kind,
    only_item,
    raise_error,
    refused,
)

VALUE_OUT_OF_RANGE: Final = "value-out-of-range"
NEW: Final = 1
RENEWED: Final = 2
NO_TOKEN: Final = "no-token"
SEVERAL_TOKENS: Final = "several-tokens"
_USER: Final = "User"
_DEFAULT_LIFETIME: Final = -1
_HOUR_MS: Final = 3600 * 1000
_RENEWED_FOR_MS: Final = 12 * _HOUR_MS
_RENEWED_EXPIRES_MS_MAX: Final = 18 * _HOUR_MS
_AT_ONCE: Final = -1
_SHA_256: Final = 1
_ITERATIONS: Final = 4096
_SALT: Final = b"fencepost-tokens"


class Tokens:
    """The second connection of a session, opened for the first token and again after it was lost; `at` is None where
    the node has no listener for it.

    An operation whose connection cannot be opened has sent nothing.
    """

    def __init__(self, at: tuple[str, int] | None, *, connect_timeout_s: float) -> None:
        self._at: Final = at
        self._connect_timeout_s: Final = connect_timeout_s
        self._node: KafkaNode | None = None

    def close(self) -> None:
        """Close at once. Idempotent; never raises."""
        if self._node is not None:
            self._node.close()
            self._node = None

    async def change(self, owner: str, value: int | None) -> None:
        """Make the owner's token (1), renew it (2) or end it (None)."""
        node = await self._opened()
        try:
            if value == NEW:
                await _create(node, owner)
            elif value == RENEWED:
                await _renew(node, await _only_token(node, owner))
            elif value is None:
                await _end(node, await _only_token(node, owner))
            else:
                raise Definite(VALUE_OUT_OF_RANGE, f"{value} is nothing that a token can be")
        except NotSent as unsent:
            # The session's own connection may be well: only `NotSent` from there ends the session.
            self.close()
            raise Definite(unsent.code, str(unsent)) from None

    async def read(self, owner: str) -> int | None:
        """Which token the owner has, as this broker knows it."""
        node = await self._opened()
        try:
            listed = await _described(node, owner)
        except NotSent as unsent:
            self.close()
            raise Definite(unsent.code, str(unsent)) from None
        renewed = (token.expiry_timestamp - token.issue_timestamp < _RENEWED_EXPIRES_MS_MAX for token in listed)
        return max((RENEWED if each else NEW for each in renewed), default=None)

    async def _opened(self) -> KafkaNode:
        if self._at is None:
            raise refused(UNSUPPORTED_API, "this node has no listener for clients that authenticate themselves")
        if self._node is None or self._node.connection.ended is not None:
            self.close()
            node = await open_node(*self._at, connect_timeout_s=self._connect_timeout_s)
            try:
                await authenticate(node.connection, TOKEN_USER, TOKEN_PASSWORD)
            except BaseException:
                node.close()
                raise
            self._node = node
        return self._node


async def make_user(node: KafkaNode) -> None:
    """Give this client's user its credential. Idempotent."""
    password = salted_password(TOKEN_PASSWORD, _SALT, _ITERATIONS)
    upsertion = admin.ScramUpsertion(TOKEN_USER, _SHA_256, _ITERATIONS, _SALT, password)
    request = admin.AlterUserScramCredentialsRequest(upsertions=(upsertion,))
    answer = await node.connection.request(admin.ALTER_USER_SCRAM_CREDENTIALS, request)
    result = only_item(answer.results)
    raise_error(node.change, result.error_code, result.error_message)


async def authenticate(connection: Connection, user: str, password: str) -> None:
    """Let a new connection be this user's; raises `Definite`, since nothing else was sent."""
    nonce = secrets.token_urlsafe(18)
    try:
        handshake = tokens.SaslHandshakeRequest(MECHANISM)
        raise_error(Kind.READ, (await connection.request(tokens.SASL_HANDSHAKE, handshake)).error_code)
        proof = prove(user, password, nonce, await _exchanged(connection, client_first(user, nonce)))
        if await _exchanged(connection, proof.message) != proof.signature:
            raise Refused("the server does not prove that it knows the user")
    except (Indefinite, NotSent, Refused) as error:
        raise refused(NOT_CONNECTED, f"not authenticated: {error}") from error


async def _exchanged(connection: Connection, message: bytes) -> bytes:
    answer = await connection.request(tokens.SASL_AUTHENTICATE, tokens.SaslAuthenticateRequest(message))
    raise_error(Kind.READ, answer.error_code, answer.error_message)
    return answer.auth_bytes


async def _create(node: KafkaNode, owner: str) -> None:
    request = tokens.CreateDelegationTokenRequest(
        _USER, owner, (tokens.Principal(_USER, TOKEN_USER),), _DEFAULT_LIFETIME
    )
    answer = await node.connection.request(tokens.CREATE_DELEGATION_TOKEN, request)
    raise_error(node.change, answer.error_code)


async def _renew(node: KafkaNode, hmac: bytes) -> None:
    request = tokens.RenewDelegationTokenRequest(hmac, _RENEWED_FOR_MS)
    answer = await node.connection.request(tokens.RENEW_DELEGATION_TOKEN, request)
    raise_error(node.change, answer.error_code)


async def _end(node: KafkaNode, hmac: bytes) -> None:
    request = tokens.ExpireDelegationTokenRequest(hmac, _AT_ONCE)
    answer = await node.connection.request(tokens.EXPIRE_DELEGATION_TOKEN, request)
    raise_error(node.change, answer.error_code)


async def _described(node: KafkaNode, owner: str) -> list[tokens.DescribedDelegationToken]:
    """The owner's tokens; the node also lists those of which the owner is a renewer."""
    request = tokens.DescribeDelegationTokenRequest((tokens.Principal(_USER, owner),))
    answer = await node.connection.request(tokens.DESCRIBE_DELEGATION_TOKEN, request)
    raise_error(Kind.READ, answer.error_code)
    return [token for token in answer.tokens if token.principal_name == owner]


async def _only_token(node: KafkaNode, owner: str) -> bytes:
    """The HMAC of the owner's token; raises `Definite` when the node does not say it, since nothing else was sent."""
    try:
        listed = await _described(node, owner)
    except Indefinite as lost:
        raise Definite(lost.code, f"the owner's token was not listed: {lost}") from None
    if len(listed) != 1:
        raise Definite(SEVERAL_TOKENS if listed else NO_TOKEN, f"{owner} has {len(listed)} tokens, as this node knows")
    return listed[0].hmac
