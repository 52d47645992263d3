"""Options of systems: what [system_options] of a plan and `-O` set, one frozen struct for each system."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import Duration, Options, out_of_bounds

_MS_NS: Final = 1_000_000


class SystemOptions(Options, frozen=True, kw_only=True):
    """The base of every system's options; a system without options uses it directly."""

    def refuse(self) -> Refusal | None:
        """Why a server cannot run with these values; None when it can. Called before the start.

        Each value is checked alone here; a system adds what its options mean together.
        """
        wrong = out_of_bounds(self)
        if wrong is not None:
            name, limits = wrong
            return Refusal(f"{name}={getattr(self, name)} is out of range", f"give {limits}")
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, Duration) and value % _MS_NS:
                return Refusal(f"{name}={value} is not a whole number of milliseconds", "servers count in milliseconds")
        return None

    def refuse_for(self, interface: str) -> Refusal | None:
        """Why no workload written against this interface can run with these values; None when each can."""
        return None


#: A system's own options, where a class takes them and gives them, and where a protocol only takes them.
S = TypeVar("S", bound=SystemOptions)
S_contra = TypeVar("S_contra", bound=SystemOptions, contravariant=True)


def with_durations(options: type[SystemOptions], given: Mapping[str, object]) -> dict[str, Any]:
    """Read `election_ms = 1000` of a plan from before options had units as `election = "1000ms"`."""
    fields = options.__struct_fields__
    renamed: dict[str, Any] = {}
    for name, value in given.items():
        stem, _, unit = name.rpartition("_")
        is_old = name not in fields and stem in fields and unit in ("ms", "s") and type(value) is int
        renamed[stem if is_old else name] = f"{value}{unit}" if is_old else value
    return renamed
