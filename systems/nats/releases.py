"""NATS' releases: those built from the server's Go module, and any binary by its path."""

from pathlib import Path
from typing import Final

from fencepost.harness.contract.go_releases import GoReleases

SERVER: Final = "nats-server"
RELEASES: Final = GoReleases(
    name="nats",
    title="NATS",
    program=SERVER,
    default="2.15.2",
    module="github.com/nats-io/nats-server/v2",
    sums_file=Path(__file__).with_name("modules.toml"),
    version_argument="--version",
    version_pattern=r"nats-server: v(\S+)",
)
