"""A plan by flags: each flag of `fencepost run`, and the plan that they and a plan's file make together."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec

from fencepost.harness.base.errors import UsageError
from fencepost.harness.base.options import plain
from fencepost.harness.cli.flags import pairs, seed_or_drawn
from fencepost.harness.cli.output.path_value import PathValue
from fencepost.harness.plan import Plan, read_plan
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.workload import workload_options
from fencepost.harness.systems.contract import server_settings as settings


def plan_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """The flags of a plan, as a decorator of a command."""
    flags = [
        click.option("--system", help=f"What is tested: {', '.join(registry.SYSTEMS)}."),
        click.option("--version", help="A known version, or the path of another binary or folder of jars."),
        click.option("--workload", help=f"What is asked: {', '.join(registry.WORKLOADS)}."),
        click.option(
            "--nemesis",
            help="FAULT[:TARGET][:key=value]... By commas they take turns, + joins workers that act at the same time; "
            "all for a mixture of everything available, none for no faults. There is no default.",
        ),
        click.option(
            "--schedule",
            type=PathValue(),
            help="A schedule.jsonl, in place of --nemesis: replay these faults at these times; no random choice.",
        ),
        click.option(
            "--quorum", help="any, or keep: skip faults that would stop the cluster from having a quorum. Default any."
        ),
        click.option("--runtime", help="Where the nodes live: lab, containers. Default lab."),
        click.option("--image", help="containers: a server image of your own, in place of ours."),
        click.option("--links", help="containers: how links are enforced: auto, rules, sidecar, toxiproxy."),
        click.option(
            "--limited-data/--no-limited-data", default=None, help="containers: a hard size limit on data directories."
        ),
        click.option(
            "--nodes", type=int, help="How many nodes; `fencepost list systems` says how many each takes. Default 3."
        ),
        click.option(
            "--time-limit",
            help="Length of the main phase: no new operation starts after it; those in flight may finish. Default 30s.",
        ),
        click.option("--quiet", help="Time without a fault between two faults. Default 4s."),
        click.option(
            "--watch", help="How long nodes are observed after the last fault ended. Default: as the system needs."
        ),
        click.option("--op-timeout", help="Client time-out per operation. Default 12s."),
        click.option(
            "--seed", type=click.IntRange(0), help="Every random choice derives from it; drawn when it is not given."
        ),
        click.option("--require", multiple=True, help="A guarantee whose violation makes the run invalid."),
        click.option("--deadline", help="For the whole command, verdict and report included."),
        click.option("--keep-data/--no-keep-data", default=None, help="Keep the nodes' data though the run is valid."),
        click.option("--reads", help="register: how it reads; `fencepost list systems` has the modes of each."),
        click.option("--fencing", help="lock: on, off."),
        click.option(
            "-o",
            "--option",
            multiple=True,
            metavar="NAME=VALUE",
            help="A workload's option: `fencepost list workloads`.",
        ),
        click.option(
            "-O",
            "--system-option",
            multiple=True,
            metavar="NAME=VALUE",
            help="A system's option: `fencepost list systems`.",
        ),
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="SYSTEM.KEY=VALUE",
            help="A setting of the server itself, by its own name for it: etcd.snapshot-count=100.",
        ),
    ]
    for flag in reversed(flags):
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
