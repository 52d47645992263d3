"""`fencepost run`: a plan by flags, by a file or both, once or several times."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from fencepost.harness.base.errors import HarnessError, PlanError, UsageError
from fencepost.harness.base.options import plain
from fencepost.harness.cli.output.help import Documented, HelpExample, PathValue, pairs, seed_or_drawn, shared_flags
from fencepost.harness.cli.output.outcome import CommandSession, MadeRun, exit_code_of, say_first, say_last, say_times
from fencepost.harness.contract import server_settings as settings
from fencepost.harness.plan import Plan, read_plan
from fencepost.harness.plan.checked_plan import check_plan
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.workload import workload_options
from fencepost.harness.results.schedule_rows import refuse_torn
from fencepost.harness.run.conclude import Result
from fencepost.harness.run.execute import refuse_too_short

#: Flags of `fencepost run` by what they decide.
RUN_GROUPS: Final = {
    "What is tested": ("system", "version", "workload", "nodes", "runtime", "image", "limited_data", "plugin"),
    "What goes wrong": ("nemesis", "schedule", "quorum", "quiet"),
    "How long it takes": ("time_limit", "watch", "op_timeout", "deadline"),
    "Details of workload, system and verdict": ("reads", "fencing", "option", "system_option", "settings", "require"),
    "The run and its results": ("seed", "times", "results", "keep_data", "as_json"),
}


#: The flags of a plan: how their values are written, and what they are.
_PLAN_FLAGS: Final[Mapping[str, tuple[str | None, str]]] = {
    "--system": ("NAME", f"The system to test: {', '.join(registry.SYSTEMS)}."),
    "--version": (
        "RELEASE|PATH",
        "A release (`fencepost list systems NAME` has them), or the path of your own build. Default: the system's "
        "usual release.",
    ),
    "--workload": ("NAME", f"What clients do: {', '.join(registry.WORKLOADS)}."),
    "--nodes": (None, "Number of nodes; most systems take 3 or 5. Default 3."),
    "--runtime": ("NAME", f"Where the nodes live: {', '.join(registry.RUNTIMES)}. Default lab."),
    "--image": ("IMAGE", "With --runtime containers: your own image of the server."),
    "--limited-data/--no-limited-data": (
        None,
        "With --runtime containers: limit the size of data directories. Default: no.",
    ),
    "--nemesis": (
        "FAULTS",
        "FAULT[:TARGET][:OPTION=VALUE]...; `A,B` take turns, `A+B` act at the same time, `all` is a mixture, `none` is "
        "no fault. `fencepost list faults` explains each. There is no default.",
    ),
    "--schedule": (None, "Instead of --nemesis: a run's schedule.jsonl, whose faults are repeated at their times."),
    "--quorum": ("any|keep", "keep: skip faults that would leave no quorum. Default any."),
    "--quiet": ("DURATION", "Time without a fault between two faults. Default 4s."),
    "--time-limit": (
        "DURATION",
        "Length of the main phase, at least 100ms; operations in flight may end later. Default 30s, or as long as a "
        "fault needs: 100s with migrate.",
    ),
    "--watch": ("DURATION", "How long nodes are observed after the last fault ended. Default: what the system needs."),
    "--op-timeout": ("DURATION", "How long a client waits for one operation. Default 12s."),
    "--deadline": ("DURATION", "Limit for the whole command, report included; at least 15s. Default: none."),
    "--reads": ("MODE", "How clients read, such as strong or sync; `fencepost list systems NAME` has the modes."),
    "--fencing": ("on|off", "Workload lock: whether writes carry a fencing token."),
    "-o --option": ("NAME=VALUE", "An option of the workload; `fencepost list workloads NAME` has them."),
    "-O --system-option": ("NAME=VALUE", "An option of the system; `fencepost list systems NAME` has them."),
    "--set settings": ("SYSTEM.KEY=VALUE", "A setting of the server, by its own name: etcd.snapshot-count=100."),
    "--require": (
        "GUARANTEE",
        "A guarantee that must hold for the run to be valid, beside those that the system promises.",
    ),
    "--keep-data/--no-keep-data": (None, "Keep the nodes' data even if the run is valid. Default: only if it is not."),
}
_REPEATED: Final = ("-o --option", "-O --system-option", "--set settings", "--require")
_TYPES: Final[Mapping[str, Any]] = {"--nodes": int, "--schedule": PathValue()}


def plan_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of a plan to a command."""
    for names, (metavar, about) in reversed([*_PLAN_FLAGS.items()]):
        if names in _REPEATED:
            flag = click.option(*names.split(), multiple=True, metavar=metavar, help=f"{about} May be repeated.")
        else:
            flag = click.option(*names.split(), type=_TYPES.get(names), default=None, metavar=metavar, help=about)
        command = flag(command)
    return command


def plan_of(plan_file: Path | None, flags: dict[str, Any]) -> Plan:
    """The plan file overlaid by the flags that were given, or a plan of flags alone."""
    empty = next((name for name, value in flags.items() if name != "nemesis" and value == ""), None)
    if empty is not None:
        raise UsageError(f"--{empty.replace('_', '-')} is empty", hint="give it a value, or leave it out")
    options = pairs(flags.pop("option"), "-o")
    system_options = pairs(flags.pop("system_option"), "-O")
    named = {name: flags.pop(name) for name in ("reads", "fencing") if flags[name] is not None}
    twice = next((name for name in named if name in options), None)
    if twice is not None:
        raise UsageError(f"--{twice} and -o {twice}= say the same", hint="leave one of them out")
    options |= named
    watch = flags.pop("watch")
    set_on_servers = settings.parse(flags.pop("settings"))
    if flags["schedule"] is not None:
        if flags["nemesis"] is not None:
            raise UsageError("--schedule and --nemesis exclude each other", hint="a schedule says what its faults are")
        # `nemesis` of the plan's file gives way: it is said again from the schedule.
        flags |= {"schedule": str(flags["schedule"].resolve()), "nemesis": ""}
    given = {k: v for k, v in flags.items() if v is not None and v != () and k not in ("reads", "fencing")}
    if plan_file is not None:
        base = read_plan(plan_file, seed=seed_or_drawn(given.get("seed")))
    else:
        for name in ("system", "workload"):
            if name not in given:
                choices = ", ".join(registry.SYSTEMS if name == "system" else registry.WORKLOADS)
                raise UsageError(f"--{name} is missing", hint=f"give a plan file, or --{name} with one of: {choices}")
        base = Plan(system=given["system"], workload=given["workload"], seed=seed_or_drawn(given.get("seed")))
    phases = base.phases if watch is None else msgspec.structs.replace(base.phases, watch=watch)
    set_on_servers = settings.merged(base.server_settings, set_on_servers)
    plan = msgspec.structs.replace(base, phases=phases, server_settings=set_on_servers, **given)
    return _with_options(plan, options, system_options)


def _with_options(plan: Plan, options: dict[str, str], system_options: dict[str, str]) -> Plan:
    if not options and not system_options:
        return plan
    system = registry.system(plan.system)
    chosen = plain(workload_options(registry.workload(plan.workload), system, options))
    chosen_of_system = plain(system.profile.parse_options(system_options))
    return msgspec.structs.replace(
        plan,
        workload_options={**plan.workload_options, **{name: chosen[name] for name in options}},
        system_options={**plan.system_options, **{name: chosen_of_system[name] for name in system_options}},
    )


EXAMPLES = (
    HelpExample(
        "fencepost run --system etcd --workload register --nemesis partition:leader,kill --time-limit 40s",
        "Cut off the leader and kill nodes, in turns, for 40 seconds",
    ),
    HelpExample(
        "fencepost run --system zookeeper --workload lock --nemesis all --time-limit 120s --seed 7",
        "A mixture of every fault that is possible here, the same one every time",
    ),
    HelpExample(
        "fencepost run --system example --workload register --nemesis partition:leader -O defect=stale-reads",
        "A planted defect: this run must be invalid",
    ),
)


@click.command("run", cls=Documented, examples=EXAMPLES, groups=RUN_GROUPS)
@click.argument("plan_file", required=False, type=PathValue())
@plan_flags
@shared_flags("seed", "results", "json", times=1)
def command(plan_file: Path | None, results: Path, as_json: bool, times: int, **flags: Any) -> int:
    """Run a plan against a real cluster and judge it.

    The plan is PLAN_FILE (every run writes its plan.toml), or the flags, or both: a flag wins over the file. A new
    plan needs --system, --workload and --nemesis. Durations have units: 500ms, 30s, 2m. Runs of --times have seed,
    seed + 1, ...

    Exits 0 valid, 1 invalid, 2 unknown, 130 stopped twice by hand, 254 refused before the start, 255 failed.
    """

    try:
        checked = check_plan(plan_of(plan_file, flags))
    except PlanError:
        raise
    except UsageError as error:
        raise UsageError(f"{plan_file}: {error.message}" if plan_file else error.message, hint=error.hint) from None
    plan = checked.plan
    if plan.schedule:
        refuse_torn(Path(plan.schedule))
    refuse_too_short(checked, range(plan.seed, plan.seed + times))
    with CommandSession() as session, session.stop.deadline(plan.deadline):
        judged: list[Result] = []
        made: list[MadeRun] = []
        try:
            for number in range(times):
                one = checked.with_seed(plan.seed + number)
                say_first(one, number, times)
                try:
                    result = session.execute(one, results)
                except HarnessError as error:
                    made.append(MadeRun(seed=one.plan.seed, failure=error.message))
                    raise
                say_last(one.plan.seed, result, as_json=as_json)
                judged.append(result)
                made.append(MadeRun(seed=one.plan.seed, folder=result.folder))
                if session.stop.asked:
                    why = "not begun: the command was stopped before"
                    rest = range(plan.seed + number + 1, plan.seed + times)
                    made += [MadeRun(seed=seed, failure=why, begun=False) for seed in rest]
                    break
        finally:
            if times > 1:
                say_times(judged, made)
    return exit_code_of(judged, planned=times)
