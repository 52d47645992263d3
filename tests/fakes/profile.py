"""The profile of a system that stands for any."""

from typing import Final

from fencepost.harness.contract.options import SystemOptions
from fencepost.harness.contract.profile import Profile

FAKE_PROFILE: Final = Profile(name="fake", options=SystemOptions, interfaces=frozenset(), reads={}, listeners={})
