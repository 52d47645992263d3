"""What a workload is: client, generator, final generator and checkers that together test one guarantee.

A workload is written against a protocol of `harness.coordination` and runs unchanged on every system that offers it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from fencepost.harness.coordination import Interface
from fencepost.harness.generators import Generator
from fencepost.harness.interpreter.client import Client
from fencepost.harness.runtime.node import Member
from fencepost.harness.systems.contract.system import System


class Workload(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def about(self) -> str: ...
    @property
    def protocol(self) -> Interface:
        """The interface that `client` is given; only systems that declare it can run this workload."""
        ...

    @property
    def effect_free(self) -> frozenset[str]:
        """Operations that change nothing: losing one ends `fail`, never `info`."""
        ...

    def options(self, system: System) -> dict[str, Any]:
        """Names and defaults of [workload_options]; the default's type is the option's type."""
        ...

    def choices(self, system: System) -> dict[str, tuple[str, ...]]:
        """The allowed values of options that are a choice."""
        ...

    def guarantee(self, system: System, options: Mapping[str, Any]) -> str:
        """The guarantee that this workload is about, by name."""
        ...

    def requires(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Guarantees that these options ask for by name, as `--require` would."""
        ...

    def refuse(self, options: Mapping[str, Any], members: tuple[Member, ...]) -> str | None:
        """Why these options make no sense, on such a cluster or at all, as "reason; remedy"; None when they do."""
        ...

    def notice(self, options: Mapping[str, Any]) -> str | None:
        """What a person should know before a run with these options; None for nothing."""
        ...

    def checkers(self, system: System, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Registry keys of the checkers that judge this workload's operations."""
        ...

    def keys(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Keys to make before the warm-up."""
        ...

    def nodes(self, members: tuple[Member, ...]) -> tuple[str, ...]:
        """The nodes that clients connect to, in order; `node_count` below is how many they are."""
        ...

    def workers(self, options: Mapping[str, Any], node_count: int) -> int:
        """How many workers; worker w plays on node w modulo the number of nodes."""
        ...

    def timeout_s(self, options: Mapping[str, Any], node_count: int, worker: int, patient_s: float) -> float:
        """How long this worker waits for an operation; `patient_s` is the plan's `op_timeout`."""
        ...

    def system_options(self, system: System) -> dict[str, Any]:
        """The system's settings that this workload wants instead of the defaults; the plan's own win over these."""
        ...

    def generator(self, options: Mapping[str, Any], node_count: int) -> Generator:
        """Operations without end; the run limits it by time. Draws come from the context, which knows the seed."""
        ...

    def final_generator(self, options: Mapping[str, Any], node_count: int) -> Generator:
        """Operations after healing and settling, ending by itself."""
        ...

    def client(self, store: Any, options: Mapping[str, Any], now_ns: Callable[[], int]) -> Client:
        """Wrap one fresh connection; closing the client closes the connection."""
        ...
