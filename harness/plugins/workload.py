"""What a workload is: typed options, operations, a client and checkers that together test one guarantee.

A workload is one file that holds a subclass of `Workload`, and one line in `harness.plugins.registry`, or in the table
WORKLOADS of a leaf. It is written against one protocol of `harness.coordination` and runs unchanged on every system
that offers it.

    class Counting(Workload[CountingOptions]):
        name = "counting"
        about = "adds numbers; no acknowledged one may be lost"
        protocol = Interface.STORAGE
        options = CountingOptions
        promise = "no-lost-acknowledged-writes"
        judges = ("set",)

        def workers(...), generator(...), final_generator(...), client(...)

Everything else has a default here.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic

import msgspec

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import O, one_of, parse
from fencepost.harness.contract.system import System
from fencepost.harness.coordination import Keys, Needs, ReadMode
from fencepost.harness.coordination.client_gate import Freezer
from fencepost.harness.generators import Generator
from fencepost.harness.interpreter.client import Client, ClientFactory, Clients
from fencepost.harness.runtime.node import Member


class Workload(ABC, Generic[O]):
    """One object per run. `node_count` is the number of nodes that clients connect to (see `nodes`)."""

    #: As `--workload` names it.
    name: str
    #: One line for `fencepost list`.
    about: str
    #: The protocol that `client` needs; a system offers it in `System.interfaces`.
    protocol: str
    #: The parts of the system that it cannot do without (`harness.contract.system.PARTS`).
    parts: frozenset[str] = frozenset()
    #: The struct of [workload_options]: names, types, defaults and explanations.
    options: type[O]
    #: Operations that change nothing: one whose outcome is unknown ends `fail`, never `info`.
    effect_free: frozenset[str] = frozenset()
    #: The guarantee that the workload is about, where no option decides that.
    promise: str = ""
    #: Registry keys of the checkers that judge its operations, where no option decides that.
    judges: tuple[str, ...] = ()
    #: Roles of the nodes that clients connect to, instead of those that serve; where no node has one, all nodes.
    roles: frozenset[str] = frozenset()
    #: Options of systems that it wants instead of their defaults, where a system has them; the plan's own win.
    wants: Mapping[str, object] = {}
    #: How long its final generator waits before it asks anything; the final phase is that much longer.
    final_pause_ns: int = 0

    def defaults(self, system: System) -> O:
        """The options on this system before a plan changes any."""
        return self.options()

    def choices(self, system: System) -> Mapping[str, tuple[str, ...]]:
        """The values that this system allows, by option; read modes are those that it has."""
        fields = msgspec.structs.asdict(self.defaults(system))
        modes = {name: mode for name, mode in fields.items() if isinstance(mode, ReadMode)}
        return {name: _distinct(*system.profile.read_modes, mode) for name, mode in modes.items()}

    def guarantee(self, system: System, options: O) -> str:
        """The guarantee that this workload is about, by name."""
        return self.promise

    def checkers(self, system: System, options: O) -> tuple[str, ...]:
        """Registry keys of the checkers that judge this workload's operations."""
        return self.judges

    def requires(self, options: O) -> tuple[str, ...]:
        """Guarantees that these options ask for by name, as `--require` would."""
        return ()

    def refuse(self, options: O, members: tuple[Member, ...]) -> Refusal | None:
        """Why these options make no sense, with such members or at all; None when they do."""
        return None

    def notice(self, options: O) -> str | None:
        """One sentence that a person should read before a run with these options; None for nothing."""
        return None

    def system_options(self, system: System) -> dict[str, object]:
        """Those of `wants` that this system has, and what it wants itself for workloads of this interface."""
        known = system.profile.options.__struct_fields__
        wanted = {**self.wants, **system.profile.wants.get(self.protocol, {})}
        return {name: value for name, value in wanted.items() if name in known}

    def nodes(self, members: tuple[Member, ...]) -> tuple[str, ...]:
        """The names of the nodes that clients connect to, in the members' order."""
        fits = [bool(self.roles & {*member.roles}) if self.roles else member.serves for member in members]
        chosen = tuple(member.name for member, fit in zip(members, fits, strict=True) if fit)
        return chosen or tuple(member.name for member in members)

    def needs(self, options: O) -> Needs:
        """What is made before the warm-up, where a store needs that: the struct that `protocol` takes."""
        return Keys(())

    @abstractmethod
    def workers(self, options: O, node_count: int) -> int:
        """How many workers there are; worker w connects to node w modulo `node_count`."""

    def timeout_s(self, options: O, node_count: int, worker: int, patient_s: float) -> float:
        """Seconds that this worker waits for an operation; `patient_s` is the plan's `op_timeout`."""
        return patient_s

    @abstractmethod
    def generator(self, options: O, node_count: int) -> Generator:
        """Operations without end; the run limits them by time. Draws come from the context, which knows the seed."""

    @abstractmethod
    def final_generator(self, options: O, node_count: int) -> Generator:
        """Operations after healing and settling. Ends by itself."""

    @abstractmethod
    def client(self, store: Any, options: O, now_ns: Callable[[], int]) -> Client:
        """Wrap one fresh session of `protocol`; closing the client closes the session.

        `now_ns` reads the history's clock, in nanoseconds.
        """


def workload_options(workload: Workload[O], system: System, given: Mapping[str, object]) -> O:
    """Parse [workload_options] over the workload's defaults on this system.

    Raises:
        UsageError: an unknown name, a value of the wrong type, or one that this system does not allow.
    """
    for name, allowed in workload.choices(system).items():
        if name in given:
            one_of(f"{workload.name}: {name}", str(given[name]), allowed)
    return parse(workload.name, given, workload.defaults(system))


def clients_of(
    workload: Workload[O],
    options: O,
    nodes: Sequence[str],
    open_client: ClientFactory,
    *,
    op_timeout_s: float,
    open_timeout_s: float,
    freezer: Freezer | None = None,
) -> Clients:
    """A client for each of the workload's workers, the workers spread over the nodes in turns.

    `op_timeout_s` is the plan's; a workload may give some of its workers another one.
    """
    workers = range(workload.workers(options, len(nodes)))
    return Clients(
        open=open_client,
        nodes=tuple(nodes[worker % len(nodes)] for worker in workers),
        op_timeouts_s=tuple(workload.timeout_s(options, len(nodes), worker, op_timeout_s) for worker in workers),
        open_timeout_s=open_timeout_s,
        effect_free=workload.effect_free,
        freezer=freezer,
    )


def current_read(system: System) -> ReadMode:
    """How everything that was acknowledged is read on this system: a strong read, or one behind a write."""
    return ReadMode.STRONG if ReadMode.STRONG in system.profile.read_modes else ReadMode.BARRIER


def padded(number: int, bytes_max: int) -> bytes:
    """The number in decimal and blanks, which `int` passes over, so that sizes differ: this one, a half, ... 1/128."""
    return b"%-*d" % (bytes_max >> number % 8, number)


def unpadded(value: bytes, bytes_max: int) -> int:
    """The number that was `padded`; one that nobody wrote where the value has another size now."""
    number = int(value)
    return number if value == padded(number, bytes_max) else -number


def _distinct(*modes: ReadMode) -> tuple[str, ...]:
    return tuple(dict.fromkeys(mode.value for mode in modes))
