"""Authentication of a client by SCRAM-SHA-256: what it sends, and what the server must prove.

    first   n,,n=user,r=nonce
    server  r=nonce and more,s=salt,i=iterations
    final   c=biws,r=nonce and more,p=proof
    server  v=signature

Without channel binding ("biws" is "n,," in base64), and without SASLprep: names and passwords here are ASCII.

Source: RFC 5802, RFC 7677.
"""

import base64
import hashlib
import hmac
from functools import lru_cache
from typing import Final, NamedTuple

MECHANISM: Final = "SCRAM-SHA-256"
_HASH: Final = "sha256"
_NO_BINDING: Final = "n,,"


class Refused(ValueError):
    """Raised when the server's words do not follow from the client's, or prove nothing."""


class Proof(NamedTuple):
    """The client's last message, and the one with which the server proves that it knows the user."""

    message: bytes
    signature: bytes


def client_first(user: str, nonce: str) -> bytes:
    """The first message of a client."""
    return (_NO_BINDING + _bare(user, nonce)).encode()


def prove(user: str, password: str, nonce: str, server_first: bytes) -> Proof:
    """Answer a server's first message; raises `Refused` when it does not continue the client's nonce."""
    challenge = dict(part.partition("=")[::2] for part in server_first.decode().split(","))
    if not challenge.get("r", "").startswith(nonce) or "s" not in challenge or not challenge.get("i", "").isdecimal():
        raise Refused(f"no answer to this client: {server_first.decode()}")
    without_proof = f"c={base64.b64encode(_NO_BINDING.encode()).decode()},r={challenge['r']}"
    exchanged = ",".join((_bare(user, nonce), server_first.decode(), without_proof)).encode()
    salted = salted_password(password, base64.b64decode(challenge["s"]), int(challenge["i"]))
    client_key = _mac(salted, b"Client Key")
    signed = _mac(hashlib.new(_HASH, client_key).digest(), exchanged)
    proof = bytes(one ^ other for one, other in zip(client_key, signed, strict=True))
    signature = _mac(_mac(salted, b"Server Key"), exchanged)
    return Proof(f"{without_proof},p={base64.b64encode(proof).decode()}".encode(), b"v=" + base64.b64encode(signature))


@lru_cache(maxsize=16)
def salted_password(password: str, salt: bytes, iterations: int) -> bytes:
    """The key that both sides derive from a password; kept, since it takes milliseconds."""
    return hashlib.pbkdf2_hmac(_HASH, password.encode(), salt, iterations)


def _bare(user: str, nonce: str) -> str:
    return f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"


def _mac(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, _HASH)
