"""Which releases of NATS are known: the server's Go module, whose sums stand in `modules.toml`.

`python -m tools.record_sums nats RELEASE...` adds releases.
"""

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract import releases

DEFAULT: Final = "2.15.2"
MODULE: Final = "github.com/nats-io/nats-server/v2"
SUMS: Final = Path(__file__).with_name("modules.toml")


def known() -> tuple[str, ...]:
    """Every release that `binary` can build, in order."""
    return releases.in_order(_module_sums())


def binary(version: str) -> Path:
    """The server's executable of a known release, built and then kept."""
    module_sum = _module_sums().get(version)
    if module_sum is None:
        raise UsageError(
            f"nats {version!r} is not a known release; known are {releases.in_words(known())}",
            hint="choose one of them, or give the path of a nats-server (with a slash): --version ./nats-server",
        )
    from fencepost.harness.runtime.artifacts import go_modules

    return go_modules.binary(MODULE, f"v{version}", package=MODULE, name="nats-server", module_sum=module_sum)


@lru_cache(maxsize=1)
def _module_sums() -> Mapping[str, str]:
    with SUMS.open("rb") as file:
        sums: dict[str, str] = tomllib.load(file)["sums"]
    return sums
