"""A plan: everything that was asked of a run, as one value; it is written to `plan.toml`, which runs it again.

A plan is made from flags, a file or both. A wrong key, type or choice is a PlanError that names the file, the line and
what was expected. What the cluster then did stands in `run.json` and `schedule.jsonl`.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import tomli_w

from fencepost.harness.base.errors import PlanError, UsageError, unknown_choice
from fencepost.harness.base.quantities import format_duration, parse_duration_ns, parse_toml
from fencepost.harness.contract.server_settings import Settings, as_text
from fencepost.harness.runtime.node import Member
from fencepost.harness.runtime.provider import Placement
from fencepost.harness.verdict import SearchBudget, Thresholds

#: Version of the plan file's format.
PLAN_FORMAT: Final = 1
#: Length of the main phase of a plan that names none, unless its faults need longer.
TIME_LIMIT: Final = "30s"
#: Whether faults may leave no majority of voters that run and reach each other.
QUORUMS: Final = ("any", "keep")
#: A shorter run can show nothing; healing and judging alone may take twelve seconds of a deadline.
_LENGTHS_NS_MIN: Final = {
    "time_limit": 100_000_000,
    "op_timeout": 1_000_000,
    "watch": 1_000_000,
    "deadline": 15_000_000_000,
}


class Phases(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Lengths of the phases around the main one, whose length is `time_limit`; `settle` is a deadline.

    `watch` counts from the moment when the last fault was healed and includes settling; empty: as long as the system
    needs.
    """

    warm_up: str = "1s"
    watch: str = ""
    settle: str = "30s"
    final: str = "10s"


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to run. Durations are texts with units; `nemesis` is as on the command line ("none" for no faults).

    A plan names its faults by `nemesis` or by `schedule`, from which `nemesis` follows. `schedule` is the path of a
    file such as a run's schedule.jsonl, relative to the plan: its faults are injected at its times, and nothing is
    drawn. `plugins` are the paths of `--plugin` that the plan needs; installed packages need no mention. An empty
    `time_limit` is as long as the faults need; `check_plan` fills it in.
    """

    system: str
    workload: str
    seed: int
    format: int = PLAN_FORMAT
    version: str = ""
    nemesis: str = ""
    schedule: str = ""
    quorum: str = "any"
    runtime: str = "lab"
    image: str = ""
    limited_data: bool = False
    plugins: tuple[str, ...] = ()
    nodes: int = 3
    time_limit: str = ""
    quiet: str = "4s"
    op_timeout: str = "12s"
    deadline: str = ""
    require: tuple[str, ...] = ()
    keep_data: bool = False
    phases: Phases = Phases()
    thresholds: Thresholds = Thresholds()
    budget: SearchBudget = SearchBudget()
    workload_options: dict[str, Any] = {}
    system_options: dict[str, Any] = {}
    #: The table `set`: settings of the servers themselves, by the parts of a `--set` name before and after its dot.
    server_settings: dict[str, dict[str, str | int | float | bool]] = msgspec.field(default_factory=dict, name="set")

    def duration_ns(self, field: str) -> int:
        """Return the length of `time_limit`, `quiet`, ... or of a phase, in nanoseconds."""
        text: str = getattr(self if field in self.__struct_fields__ else self.phases, field)
        return parse_duration_ns(text or (TIME_LIMIT if field == "time_limit" else text), what=field)

    def placement(self, members: tuple[Member, ...]) -> Placement:
        """Return where these nodes live."""
        return Placement(
            runtime=self.runtime,
            nodes=len(members),
            members=members,
            image=self.image,
            limited_data=self.limited_data,
        )

    @property
    def settings(self) -> Settings:
        """`server_settings` with every value as text."""
        return {of: {key: as_text(value) for key, value in keys.items()} for of, keys in self.server_settings.items()}

    @property
    def slug(self) -> str:
        """The name of the run's folder: system, workload, nemesis."""
        parts = f"{self.system}-{self.workload}-{self.nemesis}"
        return re.sub(r"[^A-Za-z0-9.=-]+", "+", parts).strip("+")[:120]


def write_plan(plan: Plan, path: Path) -> None:
    """Write `plan` so that `read_plan` gives it back; empty texts are left out."""
    data = {k: v for k, v in msgspec.to_builtins(plan).items() if v not in ("", {}, [])}
    path.write_text(tomli_w.dumps(data), encoding="utf-8")


def dump_plan(plan: Plan) -> str:
    """Return the text that `write_plan` writes."""
    data = {k: v for k, v in msgspec.to_builtins(plan).items() if v not in ("", {}, [])}
    return tomli_w.dumps(data)


def read_plan(path: Path, *, seed: int) -> Plan:
    """Read a plan file; `seed` fills in for a file without one. Raises PlanError."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise PlanError(f"{path}: {error.strerror}", hint="give a plan file, or the flags of a run") from None
    except UnicodeDecodeError as error:
        raise PlanError(
            f"{path}: the byte 0x{error.object[error.start]:02x} at {error.start} is not UTF-8",
            hint="the file must be TOML in UTF-8; every run writes a plan.toml to look at",
        ) from None
    try:
        data = parse_toml(text)
    except ValueError as error:
        raise PlanError(
            f"{path}: {error}", hint="the file must be TOML; every run writes a plan.toml to look at"
        ) from None
    data.setdefault("seed", seed)
    # What earlier plans chose: a Spark master, and how links of containers are cut. A run has no use for them.
    for gone in ("spark_master", "links"):
        data.pop(gone, None)
    empty = next((name for name, value in data.items() if value == ""), None)
    if empty is not None:
        raise _located(path, text, f"Expected a value, or no such line, got an empty text - at `$.{empty}`")
    try:
        plan = msgspec.convert(data, Plan)
    except msgspec.ValidationError as error:
        raise _located(path, text, str(error)) from None
    if plan.format != PLAN_FORMAT:
        raise _located(path, text, f"Expected `{PLAN_FORMAT}`, got `{plan.format}` - at `$.format`")
    if plan.schedule:
        plan = msgspec.structs.replace(plan, schedule=str(path.parent / plan.schedule))
    return plan


def check_choices(plan: Plan, *, choices: Mapping[str, tuple[str, ...]]) -> None:
    """Check the fields that name things ("system", "workload", ...) and the durations; raises UsageError."""
    for field, known in choices.items():
        given = getattr(plan, field)
        if given not in known:
            raise unknown_choice(field, given, known)
    for field in ("time_limit", "quiet", "op_timeout", "warm_up", "settle", "final"):
        _check_length(field, plan.duration_ns(field))
    for what, text in (("deadline", plan.deadline), ("watch", plan.phases.watch)):
        if text:
            _check_length(what, parse_duration_ns(text, what=what))


def _check_length(what: str, length_ns: int) -> None:
    least_ns = _LENGTHS_NS_MIN.get(what, 0)
    if length_ns < least_ns:
        raise UsageError(
            f"{what}: {format_duration(length_ns)} is too short", hint=f"give {format_duration(least_ns)} or more"
        )


def _located(path: Path, text: str, error: str) -> PlanError:
    """Turn msgspec's "... - at `$.phases.watch`" into file, line and rule."""
    rule, _, where = error.partition(" - at ")
    unknown = re.search(r"unknown field `(\w+)`", rule)
    keys = re.findall(r"\w+", where.strip("`$")) + ([unknown.group(1)] if unknown else [])
    missing = re.search(r"missing required field `(\w+)`", rule)
    if missing:
        return PlanError(f"{path}: {missing.group(1)!r} is missing", hint=_hint(keys[:-1] if unknown else keys))
    line = _line_of(text, keys)
    at = f"{path}, line {line}" if line else f"{path}"
    name = ".".join(keys)
    return PlanError(f"{at}: {name}: {rule[0].lower()}{rule[1:]}", hint=_hint(keys[:-1]))


def _hint(table: list[str]) -> str:
    kinds: dict[str, type[msgspec.Struct]] = {"phases": Phases, "thresholds": Thresholds, "budget": SearchBudget}
    kind = kinds.get(table[0], Plan) if table else Plan
    return f"the keys are: {', '.join(kind.__struct_encode_fields__)}"


def _line_of(text: str, keys: list[str]) -> int | None:
    """Find the line that sets the last of `keys` inside its table."""
    table: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[([\w.-]+)\]", line)
        if header:
            table = header.group(1).split(".")
        key = re.match(r'\s*"?([\w-]+)"?\s*=', line)
        if key and keys and [*table, key.group(1)] == keys[: len(table) + 1]:
            return number
        if header and table == keys:
            return number
    return None
