"""What servers and clients of one Kafka cluster agree on: ports, the cluster's id, and the user who makes tokens."""

from typing import Final

CLIENT_PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
#: Far enough from the controllers' for a port of its own on each node behind Toxiproxy.
BROKER_PORT: Final = 9194
#: Where clients authenticate themselves, on brokers that give delegation tokens; as far from the brokers' port.
AUTHENTICATED_PORT: Final = 9295
AUTHENTICATED: Final = "authenticated"
#: Any id will do: no two of our clusters can reach one another.
CLUSTER_ID: Final = "ZmVuY2Vwb3N0LWtyYWZ0MQ"
#: Who makes, renews and ends delegation tokens. No secrets: nobody else can reach our clusters.
TOKEN_USER: Final = "token-maker"
TOKEN_PASSWORD: Final = "fencepost"
TOKEN_KEY: Final = "fencepost"
