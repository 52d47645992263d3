"""Consul's releases: those whose Go module builds, and any binary by its path.

A release builds from the module proxy only where all modules that it requires are served in the versions that it
names: of the newest patch releases these are 1.12.9, 1.13.9 and 1.19.2. Others need Consul's own binary, by path or
image. From 1.17 on Consul is under the Business Source License, which allows use that is not in production.
"""

from pathlib import Path
from typing import Final

from fencepost.harness.contract.go_releases import GoReleases

RELEASES: Final = GoReleases(
    name="consul",
    title="Consul",
    program="consul",
    default="1.19.2",
    module="github.com/hashicorp/consul",
    sums_file=Path(__file__).with_name("modules.toml"),
    version_argument="version",
    version_pattern=r"Consul v(\S+)",
)
