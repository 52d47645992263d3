"""Kafka's messages about authentication and delegation tokens (see `messages`).

Only the newest versions: those before 3 create a token only for the user who asks (KIP-373).
"""

from typing import Final

from fencepost.harness.systems.kafka.wire.fields import Body, Bytes, Int16, Int32, Int64, Text
from fencepost.harness.systems.kafka.wire.messages import Api

# Authentication


class SaslHandshakeRequest(Body, frozen=True):
    mechanism: Text = ""


class SaslHandshakeResponse(Body, frozen=True):
    error_code: Int16 = 0
    mechanisms: tuple[Text, ...] = ()


class SaslAuthenticateRequest(Body, frozen=True):
    auth_bytes: Bytes = b""


class SaslAuthenticateResponse(Body, frozen=True):
    error_code: Int16 = 0
    error_message: Text | None = None
    auth_bytes: Bytes = b""
    session_lifetime_ms: Int64 = 0


# Tokens


class Principal(Body, frozen=True):
    principal_type: Text = ""
    principal_name: Text = ""


class CreateDelegationTokenRequest(Body, frozen=True):
    owner_principal_type: Text | None = ""
    owner_principal_name: Text | None = ""
    renewers: tuple[Principal, ...] = ()
    max_lifetime_ms: Int64 = 0


class CreateDelegationTokenResponse(Body, frozen=True):
    error_code: Int16 = 0
    principal_type: Text = ""
    principal_name: Text = ""
    token_requester_principal_type: Text = ""
    token_requester_principal_name: Text = ""
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: Text = ""
    hmac: Bytes = b""
    throttle_time_ms: Int32 = 0


class RenewDelegationTokenRequest(Body, frozen=True):
    hmac: Bytes = b""
    renew_period_ms: Int64 = 0


class RenewDelegationTokenResponse(Body, frozen=True):
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0


class ExpireDelegationTokenRequest(Body, frozen=True):
    hmac: Bytes = b""
    expiry_time_period_ms: Int64 = 0


class ExpireDelegationTokenResponse(Body, frozen=True):
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0


class DescribeDelegationTokenRequest(Body, frozen=True):
    owners: tuple[Principal, ...] | None = ()


class DescribedDelegationToken(Body, frozen=True):
    principal_type: Text = ""
    principal_name: Text = ""
    token_requester_principal_type: Text = ""
    token_requester_principal_name: Text = ""
    issue_timestamp: Int64 = 0
    expiry_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    token_id: Text = ""
    hmac: Bytes = b""
    renewers: tuple[Principal, ...] = ()


class DescribeDelegationTokenResponse(Body, frozen=True):
    error_code: Int16 = 0
    tokens: tuple[DescribedDelegationToken, ...] = ()
    throttle_time_ms: Int32 = 0


#: Never flexible.
_NO_VERSION: Final = 1 << 15
SASL_HANDSHAKE: Final = Api("SaslHandshake", 17, (1, 1), _NO_VERSION, SaslHandshakeRequest, SaslHandshakeResponse)
SASL_AUTHENTICATE: Final = Api("SaslAuthenticate", 36, (2, 2), 2, SaslAuthenticateRequest, SaslAuthenticateResponse)
CREATE_DELEGATION_TOKEN: Final = Api(
    "CreateDelegationToken", 38, (3, 3), 2, CreateDelegationTokenRequest, CreateDelegationTokenResponse
)
RENEW_DELEGATION_TOKEN: Final = Api(
    "RenewDelegationToken", 39, (2, 2), 2, RenewDelegationTokenRequest, RenewDelegationTokenResponse
)
EXPIRE_DELEGATION_TOKEN: Final = Api(
    "ExpireDelegationToken", 40, (2, 2), 2, ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
)
DESCRIBE_DELEGATION_TOKEN: Final = Api(
    "DescribeDelegationToken", 41, (3, 3), 2, DescribeDelegationTokenRequest, DescribeDelegationTokenResponse
)
