"""Delegation tokens: authentication by SCRAM-SHA-256, and what a session asks and makes of the answers."""

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.systems.kafka.client.client import open_node
from fencepost.harness.systems.kafka.client.metadata_kinds import is_of_a_kind, topic_to_make
from fencepost.harness.systems.kafka.client.scram import Refused, client_first, prove
from fencepost.harness.systems.kafka.client.session import KafkaSession
from fencepost.harness.systems.kafka.names import TOKEN_PASSWORD, TOKEN_USER
from fencepost.harness.systems.kafka.wire import admin_messages as admin
from fencepost.harness.systems.kafka.wire import token_messages as tokens
from fencepost.harness.systems.kafka.wire.fields import Body
from tests.fakes.kafka_broker import (
    BROKER,
    CLOSE,
    CONTROLLER,
    SILENCE,
    ZOOKEEPER_BROKER,
    Answer,
    Asked,
    FakeNode,
    everything,
    node,
)

HOUR_MS: Final = 3_600_000

# SCRAM

#: RFC 7677, section 3.
NONCE: Final = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST: Final = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def test_the_exchange_of_the_rfc() -> None:
    assert client_first("user", NONCE) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    proof = prove("user", "pencil", NONCE, SERVER_FIRST)
    assert proof.message == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert proof.signature == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_signs_that_part_the_message_are_written_otherwise_in_a_name() -> None:
    assert client_first("a,b=c", "x") == b"n,,n=a=2Cb=3Dc,r=x"


@pytest.mark.parametrize(
    "answer", [b"r=another,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", SERVER_FIRST[:20], b"e=unknown-user", b""]
)
def test_what_does_not_continue_the_clients_nonce_is_refused(answer: bytes) -> None:
    with pytest.raises(Refused):
        prove("user", "pencil", NONCE, answer)


# A broker that authenticates

_SALT: Final = b"salt"
_ITERATIONS: Final = 4096


class Broker:
    """Authenticates one user and answers about tokens as a test tells it."""

    def __init__(self, answers: Callable[[Asked], Answer], *, knows_user: bool = True) -> None:
        self.answers, self.knows_user = answers, knows_user
        self.asked: list[Asked] = []
        self._said: list[str] = []

    def __call__(self, asked: Asked) -> Answer:
        if asked.api is tokens.SASL_HANDSHAKE:
            self._said = []
            assert asked.message.mechanism == "SCRAM-SHA-256"
            return tokens.SaslHandshakeResponse(mechanisms=("SCRAM-SHA-256",))
        if asked.api is tokens.SASL_AUTHENTICATE:
            return tokens.SaslAuthenticateResponse(auth_bytes=self._exchange(asked.message.auth_bytes.decode()))
        self.asked.append(asked)
        return self.answers(asked)

    def _exchange(self, message: str) -> bytes:
        if not self._said:
            bare = message.removeprefix("n,,")
            assert bare.startswith(f"n={TOKEN_USER},r=")
            first = f"{bare.partition(',')[2]}more,s={base64.b64encode(_SALT).decode()},i={_ITERATIONS}"
            self._said = [bare, first]
            return first.encode()
        without_proof, _, proof = message.rpartition(",p=")
        exchanged = ",".join((*self._said, without_proof)).encode()
        salted = hashlib.pbkdf2_hmac("sha256", TOKEN_PASSWORD.encode(), _SALT, _ITERATIONS)
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        stored = hashlib.sha256(client_key).digest()
        mask = hmac.digest(stored, exchanged, "sha256")
        told = bytes(a ^ b for a, b in zip(base64.b64decode(proof), mask, strict=True))
        assert hashlib.sha256(told).digest() == stored
        server_key = hmac.digest(salted if self.knows_user else b"?", b"Server Key", "sha256")
        return b"v=" + base64.b64encode(hmac.digest(server_key, exchanged, "sha256"))


def token(owner: str = "x1", *, lasts_h: int = 24, mac: bytes = b"mac") -> tokens.DescribedDelegationToken:
    expires = 5 + lasts_h * HOUR_MS
    return tokens.DescribedDelegationToken("User", owner, issue_timestamp=5, expiry_timestamp=expires, hmac=mac)


def described(*found: tokens.DescribedDelegationToken, error: int = 0) -> Body:
    return tokens.DescribeDelegationTokenResponse(error, found)


def told(of_change: Answer, listed: Answer = SILENCE) -> Callable[[Asked], Answer]:
    return lambda asked: listed if asked.api is tokens.DESCRIBE_DELEGATION_TOKEN else of_change


def talk(
    broker: Broker,
    use: Callable[[KafkaSession, FakeNode], Awaitable[Any]],
    *,
    listener: bool = True,
    role: Any = BROKER,
) -> tuple[Any, list[Asked]]:
    """What the session's use gives, or how it ends, and what was asked about tokens."""

    async def run() -> tuple[Any, list[Asked]]:
        async with node(broker, everything(role)) as fake:
            at = ("127.0.0.1", fake.port)
            session = KafkaSession(
                await open_node(*at, connect_timeout_s=1), 4, connect_timeout_s=1, tokens_at=at if listener else None
            )
            try:
                return await use(session, fake), broker.asked
            except (Definite, Indefinite) as error:
                kind = Definite if isinstance(error, Definite) else Indefinite
                return (kind, error.code), broker.asked
            finally:
                await session.close()

    return asyncio.run(run())


async def make(session: KafkaSession, fake: FakeNode) -> Any:
    return (await session.alter("token/x1", b"1")).value


async def renew(session: KafkaSession, fake: FakeNode) -> Any:
    return (await session.alter("token/x1", b"2")).value


async def end(session: KafkaSession, fake: FakeNode) -> Any:
    return (await session.alter("token/x1", None)).value


async def look(session: KafkaSession, fake: FakeNode) -> Any:
    return (await session.describe("token/x1")).value


def test_a_token_is_made_for_the_owner_that_the_key_names() -> None:
    value, (asked,) = talk(Broker(told(tokens.CreateDelegationTokenResponse())), make)
    assert value == b"1"
    request = asked.message
    assert (request.owner_principal_type, request.owner_principal_name) == ("User", "x1")
    assert request.renewers == (tokens.Principal("User", TOKEN_USER),)


def test_renewing_and_ending_name_the_token_by_its_hmac() -> None:
    value, asked = talk(Broker(told(tokens.RenewDelegationTokenResponse(), described(token()))), renew)
    assert value == b"2"
    assert (asked[1].message.hmac, asked[1].message.renew_period_ms) == (b"mac", 12 * HOUR_MS)
    value, asked = talk(Broker(told(tokens.ExpireDelegationTokenResponse(), described(token()))), end)
    assert value is None
    assert (asked[1].message.hmac, asked[1].message.expiry_time_period_ms) == (b"mac", -1)


@pytest.mark.parametrize(
    ("found", "ends"),
    [((), "no-token"), ((token("x2"),), "no-token"), ((token(), token(mac=b"other")), "several-tokens")],
)
@pytest.mark.parametrize("use", [renew, end])
def test_without_a_single_token_nothing_is_sent(use: Any, found: Any, ends: str) -> None:
    result, asked = talk(Broker(told(SILENCE, described(*found))), use)
    assert result == (Definite, ends)
    assert [one.api for one in asked] == [tokens.DESCRIBE_DELEGATION_TOKEN]


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        ((), None),
        ((token("x2"),), None),  # the owner is a renewer of another's token
        ((token(),), b"1"),
        ((token(lasts_h=12),), b"2"),
        ((token(lasts_h=17),), b"2"),  # the clock of the controller that renewed it is late
        ((token(), token(lasts_h=12)), b"2"),
    ],
)
def test_what_a_broker_shows(found: Any, shown: bytes | None) -> None:
    result, _ = talk(Broker(told(SILENCE, described(*found))), look)
    assert result == shown


MADE: Final = tokens.CreateDelegationTokenResponse
RENEWED: Final = tokens.RenewDelegationTokenResponse
ENDED: Final = tokens.ExpireDelegationTokenResponse


@pytest.mark.parametrize(
    ("role", "use", "answer", "listed", "ends"),
    [
        (BROKER, make, MADE(61), SILENCE, (Definite, "delegation-token-auth-disabled")),
        (BROKER, make, MADE(64), SILENCE, (Definite, "delegation-token-request-not-allowed")),
        (BROKER, make, MADE(65), SILENCE, (Definite, "delegation-token-authorization-failed")),
        (BROKER, make, MADE(41), SILENCE, (Indefinite, "not-controller")),
        (BROKER, make, CLOSE, SILENCE, (Indefinite, "connection-lost")),
        (BROKER, renew, RENEWED(63), described(token()), (Definite, "delegation-token-owner-mismatch")),
        # A broker forwards a request again: the first one may have ended the token.
        (BROKER, end, ENDED(62), described(token()), (Indefinite, "delegation-token-not-found")),
        (ZOOKEEPER_BROKER, end, ENDED(62), described(token()), (Definite, "delegation-token-not-found")),
        (BROKER, end, CLOSE, described(token()), (Indefinite, "connection-lost")),
        # The question before the change changes nothing.
        (BROKER, end, SILENCE, described(error=-1), (Definite, "unknown-server-error")),
        (BROKER, end, SILENCE, CLOSE, (Definite, "connection-lost")),
    ],
)
def test_how_a_change_ends(role: Any, use: Any, answer: Answer, listed: Answer, ends: Any) -> None:
    result, _ = talk(Broker(told(answer, listed)), use, role=role)
    assert result == ends


def test_a_value_that_no_token_has_is_not_sent() -> None:
    async def use(session: KafkaSession, fake: FakeNode) -> Any:
        return await session.alter("token/x1", b"3")

    assert talk(Broker(told(SILENCE)), use) == ((Definite, "value-out-of-range"), [])


def test_a_node_without_the_listener_is_asked_nothing() -> None:
    for use in (make, renew, end, look):
        assert talk(Broker(told(SILENCE)), use, listener=False) == ((Definite, "unsupported-api"), [])


def test_a_server_that_proves_nothing_gets_nothing() -> None:
    assert talk(Broker(told(SILENCE), knows_user=False), make) == ((Definite, "not-connected"), [])


def test_a_user_that_is_refused_makes_nothing() -> None:
    class Refusing(Broker):
        def __call__(self, asked: Asked) -> Answer:
            if asked.api is tokens.SASL_AUTHENTICATE:
                return tokens.SaslAuthenticateResponse(58, "no such user")
            return super().__call__(asked)

    assert talk(Refusing(told(SILENCE)), make) == ((Definite, "sasl-authentication-failed"), [])


def test_one_connection_serves_many_tokens_and_a_lost_one_is_replaced() -> None:
    answers = iter((described(token()), described(token()), CLOSE, described(token(lasts_h=12))))
    broker = Broker(lambda asked: next(answers))

    async def use(session: KafkaSession, fake: FakeNode) -> Any:
        first = [await look(session, fake), await look(session, fake)]
        before = fake.connections
        with pytest.raises(Indefinite):
            await look(session, fake)
        return first, before, await look(session, fake), fake.connections

    assert talk(broker, use)[0] == ([b"1", b"1"], 2, b"2", 3)


def test_the_user_is_made_before_a_run() -> None:
    class Admin(Broker):
        def __call__(self, asked: Asked) -> Answer:
            if asked.api is admin.ALTER_USER_SCRAM_CREDENTIALS:
                self.asked.append(asked)
                return admin.AlterUserScramCredentialsResponse(results=(admin.ScramChangeResult(TOKEN_USER),))
            return super().__call__(asked)

    async def use(session: KafkaSession, fake: FakeNode) -> Any:
        await session.prepare(("token/x0",))

    _, (asked,) = talk(Admin(told(SILENCE)), use, role=CONTROLLER)
    (upsertion,) = asked.message.upsertions
    assert upsertion.name == TOKEN_USER
    assert upsertion.salted_password == hashlib.pbkdf2_hmac("sha256", TOKEN_PASSWORD.encode(), upsertion.salt, 4096)
    assert is_of_a_kind("token/x0") and topic_to_make("token/x0") is None
