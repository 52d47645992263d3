"""The profile of a system that stands for any."""

from typing import Final

from fencepost.harness.contract.profile import Profile, SystemOptions
from fencepost.harness.contract.system import PARTS

FAKE_PROFILE: Final = Profile(name="fake", options=SystemOptions, interfaces=frozenset(), reads={}, listeners={})


class NoParts:
    """A system that has no part but those of its class."""

    def __getattr__(self, name: str) -> None:
        if name.replace("_", "-") not in PARTS:
            raise AttributeError(name)
