"""What servers need that give delegation tokens: the key that signs them, and a listener for authenticated clients.

Kafka gives a token only to a client that has authenticated itself, by SASL or TLS. So brokers have one more listener,
with SASL_PLAINTEXT and SCRAM-SHA-256; everybody else's listeners stay as they are.

Source: KIP-48, KIP-84; KAFKA-15219 (tokens on KRaft, 3.6).
"""

from typing import Final

from fencepost.harness.systems.kafka.names import AUTHENTICATED, TOKEN_KEY

LISTENER: Final = AUTHENTICATED.upper()
PROTOCOL: Final = f"{LISTENER}:SASL_PLAINTEXT"
_OF_LISTENER: Final = f"listener.name.{AUTHENTICATED}"


def signing_key() -> dict[str, object]:
    """The setting of every node, controllers too: without it nobody gives tokens."""
    return {"delegation.token.secret.key": TOKEN_KEY}


def authentication() -> dict[str, object]:
    """The settings of the listener of a broker."""
    return {
        f"{_OF_LISTENER}.sasl.enabled.mechanisms": "SCRAM-SHA-256",
        f"{_OF_LISTENER}.scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
    }
