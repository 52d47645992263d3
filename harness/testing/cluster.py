"""A running cluster in the hands of a test: its addresses, its leader, and faults for the length of a block.

    with cluster.fault("pause:leader") as fault:
        assert fault.nodes == (before,)
        ...

No workload runs and nothing is judged: the test asks its own questions, with its own clients. The servers belong to a
child of this process and end with it, however it ends.
"""

import contextlib
import json
import queue
import socket
import subprocess
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from fencepost.harness.base.errors import ExitCode, FencepostError, HarnessError, MachineError, UsageError
from fencepost.harness.faults.kind import CLIENT_WORKER, FaultSpec
from fencepost.harness.faults.schedule import NONE, parse_faults, versions_needed
from fencepost.harness.plan import Plan, write_plan
from fencepost.harness.plan.checked_plan import CheckedPlan, check_plan
from fencepost.harness.plugins import registry
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.run_folder import RunRecord
from fencepost.harness.run.execute import facts_before_start, made_ready
from fencepost.harness.runtime.linux.supervisor import start
from fencepost.harness.runtime.provider import Need
from fencepost.harness.runtime.server_log import SERVER_LOG
from fencepost.harness.testing import cluster_messages as messages
from fencepost.harness.testing.cluster_messages import Address, serving

#: What a test may name of its cluster, under the names of the plan file.
CLUSTER_KEYS: Final = (
    "system",
    "version",
    "image",
    "nodes",
    "runtime",
    "limited_data",
    "system_options",
    "set",
    "nemesis",
    "seed",
)
_START_S: Final = 180.0
_FAULT_S: Final = 60.0
_CLOSE_S: Final = 30.0
#: Beyond the time that a request itself may take.
_ANSWER_S: Final = 10.0

R = TypeVar("R", bound=messages.Reply)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault in force: the nodes that it acts on, and what proves it."""

    nodes: tuple[str, ...]
    proof: str


class TestCluster:
    """A running cluster. `opened` makes it; its methods raise HarnessError when it has ended."""

    #: pytest collects no class of this name.
    __test__ = False

    def __init__(self, checked: CheckedPlan, folder: Path, child: "_Child", ready: messages.Ready) -> None:
        self._checked, self._child = checked, child
        #: Configurations and logs of the servers.
        self.folder = folder
        self.seed = checked.plan.seed
        #: The release that runs, as its servers say.
        self.version = ready.version
        #: The nodes in order, those without clients too.
        self.nodes = tuple(member.name for member in checked.members)
        #: Where each node serves clients, for programs that `run` starts.
        self.inside: Mapping[str, Address] = ready.inside
        #: Where this process reaches each node. Servers that tell clients other addresses (Kafka) need `run`.
        self.addresses: Mapping[str, Address] = child.relayed or ready.inside

    def leader(self, *, other_than: str | None = None, timeout_s: float = 10.0) -> str:
        """Return the node that says, asked now, that it leads, in the highest epoch; wait for one.

        Args:
            other_than: wait until another node than this one leads.

        Raises:
            HarnessError: no such node says so within `timeout_s`.
        """
        answer = self._child.ask(messages.WhoLeads(timeout_s, other_than), messages.Leads, timeout_s)
        if answer.node is None:
            who = "no node" if other_than is None else f"no node but {other_than}"
            raise HarnessError(f"{who} says within {timeout_s:g} s that it leads", hint=f"see {self.folder}")
        return answer.node

    @contextlib.contextmanager
    def fault(self, text: str) -> Iterator[Fault]:
        """Inject one fault, as `--nemesis` writes it, for the length of the block; it is healed on every path out.

        Raises:
            UsageError: an unknown fault, target or option, or one that makes no sense here.
            MachineError: this machine cannot do it.
            HarnessError: nothing proves that the fault took hold, or that it was healed.
        """
        spec = self._fault(text)
        # The same fault of the same test draws the same.
        seed = zlib.crc32(spec.text.encode(), self.seed)
        injected = self._child.ask(messages.Inject(spec.text, seed), messages.Injected, _FAULT_S)
        if injected.skipped:
            raise HarnessError(f"{text} was not injected: {injected.proof}")
        try:
            if not injected.installed:
                raise HarnessError(f"nothing proves that {text} took hold: {injected.proof}")
            yield Fault(injected.nodes, injected.proof)
        finally:
            healed = self._child.ask(messages.Heal(injected.fault_id), messages.Healed, _FAULT_S)
            if not healed.healed:
                raise HarnessError(f"nothing proves that {text} was healed: {healed.proof}")

    def run(self, argv: Sequence[str], timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a program where it reaches the nodes at `inside`; return its status and its output.

        Raises subprocess.TimeoutExpired when it was killed after `timeout_s`.
        """
        done = self._child.ask(messages.Execute(tuple(argv), timeout_s), messages.Executed, timeout_s)
        if done.status is None:
            raise subprocess.TimeoutExpired(list(argv), timeout_s, output=done.stdout, stderr=done.stderr)
        return subprocess.CompletedProcess(list(argv), done.status, done.stdout, done.stderr)

    def log(self, node: str) -> Path:
        """Return the file with what a node's server wrote to its stdout and stderr; KeyError for an unknown node."""
        if node not in self.nodes:
            raise KeyError(node)
        return self.folder / store.NODES / node / SERVER_LOG

    def _fault(self, text: str) -> FaultSpec:
        faults, placement = registry.faults(), self._checked.placement
        specs = parse_faults(text, faults, placement)
        if len(specs) != 1:
            raise UsageError(f"{text!r} names {len(specs)} faults", hint="name one; nest blocks for several at once")
        spec = specs[0]
        kind = faults[spec.fault]
        if "for" in spec.given or spec.options.trigger is not None or spec.options.ending is not None:
            raise UsageError(
                f"{text}: the block decides when a fault begins and ends",
                hint="leave out for=, when=, end= and during=",
            )
        if spec.target == CLIENT_WORKER:
            raise UsageError(f"{text}: a test's cluster has no clients of the harness", hint="name a node")
        prepared = spec.fault in self._checked.request.named
        if not prepared and (
            kind.effects(spec).changes_members or versions_needed([spec], faults) or Need.STREAMS in kind.needs
        ):
            raise UsageError(
                f"{text}: the servers were not made ready for it",
                hint=f"name it in the marker: @pytest.mark.fencepost(..., nemesis={text!r})",
            )
        why = kind.unavailable(placement)
        if why is not None:
            raise MachineError(
                f"this machine cannot do {spec.fault}: {why}", hint="fencepost doctor says what is missing"
            )
        self._checked.provider.refuse_if_impossible(placement, {spec.fault: kind.needs})
        return spec


def cluster_plan(keys: Mapping[str, Any], seed: int, *, workload: str = "") -> CheckedPlan:
    """Return the plan of a cluster that a test names by keywords, with `seed` where it names none.

    Args:
        workload: whose options and roles the servers get; "": any that the system supports.

    Raises:
        UsageError: a keyword that a cluster does not have, or a value that makes no sense.
    """
    unknown = [key for key in keys if key not in CLUSTER_KEYS]
    if unknown:
        raise UsageError(
            f"the fixture cluster takes no '{unknown[0]}': no workload runs and nothing is judged",
            hint=f"it takes: {', '.join(CLUSTER_KEYS)}; for a run that is judged use fencepost_run",
        )
    given = {"seed": seed, "nemesis": NONE, **keys}
    refused: UsageError | None = None
    # A plan names a workload. None is run here, so any that this system supports will do.
    name = str(keys.get("system", ""))
    offered = registry.system(name).profile.interfaces if name in registry.SYSTEMS else frozenset()
    for name, kind in registry.workloads().items():
        if (offered and kind.protocol not in offered) or workload not in ("", name):
            continue
        try:
            return check_plan(msgspec.convert({**given, "workload": name}, Plan))
        except msgspec.ValidationError as error:
            raise UsageError(f"the cluster of this test: {error}", hint="the keys are those of a plan file") from None
        except UsageError as error:
            refused = refused or error
    assert refused is not None, "there are workloads"
    raise refused


@contextlib.contextmanager
def opened(checked: CheckedPlan, folder: Path) -> Iterator[TestCluster]:
    """Start the cluster of a plan with its files in `folder`; at the end everything is healed and stopped.

    Raises:
        MachineError, UsageError: found before a server started.
        HarnessError: the cluster did not start, or did not end.
    """
    ready = made_ready(checked, lambda text: None)
    checked = ready.checked
    write_plan(checked.plan, folder / store.PLAN)
    record = RunRecord(folder, {})
    record.add(facts_before_start(checked, ready.forecast, ready.artifacts, ready.others))
    ready.prepared.write(folder)
    child = _Child(record, checked)
    try:
        yield TestCluster(checked, folder, child, child.read(messages.Ready, _START_S))
    finally:
        child.close()
        left = checked.provider.sweep(folder)
        if left:
            raise HarnessError(f"something of the cluster is left: {left[0]}")


class _Child:
    """The process that holds the cluster. Requests are answered one after the other."""

    def __init__(self, record: RunRecord, checked: CheckedPlan) -> None:
        self._record, self._folder = record, record.folder
        self._lock = threading.Lock()
        #: None: the process has closed its output.
        self._replies: queue.Queue[messages.Reply | None] = queue.Queue()
        inside = checked.provider.in_namespaces
        sockets = {name: socket.create_server(("127.0.0.1", 0)) for name in serving(checked.members) if inside}
        #: Where this process reaches nodes in the lab; empty where it reaches them directly.
        self.relayed: dict[str, Address] = {name: made.getsockname() for name, made in sockets.items()}
        numbers = [made.fileno() for made in sockets.values()]
        self._process = start(
            "fencepost.harness.testing.cluster_inside",
            str(self._folder),
            ",".join(map(str, numbers)) or "-",
            log=self._folder / store.RUNNER_LOG,
            in_namespaces=inside,
            stdin=subprocess.PIPE,
            descriptors=numbers,
        )
        for made in sockets.values():
            made.close()
        threading.Thread(target=self._listen, daemon=True, name="replies of the cluster").start()

    def ask(self, request: messages.Request, reply: type[R], takes_s: float) -> R:
        """Send one request and return its answer; raises what the cluster's process refused it with."""
        with self._lock:
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(msgspec.json.encode(request).decode() + "\n")
                self._process.stdin.flush()
            except BrokenPipeError:
                raise self._ended() from None
            return self.read(reply, takes_s)

    def read(self, reply: type[R], takes_s: float) -> R:
        """Return the next reply."""
        try:
            came = self._replies.get(timeout=takes_s + _ANSWER_S)
        except queue.Empty:
            # A later answer would be taken for that of another request.
            self._process.kill()
            raise HarnessError(
                f"the cluster's process did not answer within {takes_s + _ANSWER_S:g} s", hint=self._hint
            ) from None
        if came is None:
            self._replies.put(None)
            raise self._ended()
        if isinstance(came, messages.RequestRefused):
            raise _error(came)
        assert isinstance(came, reply), came
        return came

    def close(self) -> None:
        """Let the process heal and stop everything; kill it when that takes too long. Idempotent."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise HarnessError(f"the cluster did not end within {_CLOSE_S:g} s", hint=self._hint) from None

    @property
    def _hint(self) -> str:
        return f"its log is {self._folder / store.RUNNER_LOG}"

    def _ended(self) -> HarnessError:
        return HarnessError(f"the cluster's process ended with status {self._process.wait(_CLOSE_S)}", hint=self._hint)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                message = json.loads(line)
                if messages.TYPE in message:
                    self._replies.put(msgspec.json.decode(line, type=messages.Reply))
                elif message.get("topic") == "error":
                    self._replies.put(msgspec.convert(message, messages.RequestRefused))
                elif message.get("topic") == "facts":
                    with contextlib.suppress(OSError):
                        self._record.add(message["facts"])
        self._replies.put(None)


def _error(refused: messages.RequestRefused) -> FencepostError:
    kind = UsageError if refused.exit_code == ExitCode.USAGE else HarnessError
    return kind(refused.message, hint=refused.hint)
