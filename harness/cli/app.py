"""The commands. Each parses, calls one function elsewhere, and says what came out; no work is done here."""

import dataclasses
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fencepost.harness.base.errors import ExitCode, PlanError, UsageError
from fencepost.harness.plan import Plan, read_plan
from fencepost.harness.plugins import registry
from fencepost.harness.systems.contract import server_settings as settings

if TYPE_CHECKING:
    from fencepost.harness.base.stop_request import StopRequest
    from fencepost.harness.cli.check.second_opinions import Asked
    from fencepost.harness.plan.checked_plan import CheckedPlan
    from fencepost.harness.run.conclude import Result
    from fencepost.harness.warehouse.spark_session import SparkHandle

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


@click.group(context_settings=_CONTEXT)
@click.version_option(package_name="fencepost", message="fencepost %(version)s")
def app() -> None:
    """Tests whether a coordination service keeps its promises when the network breaks.

    `fencepost demo` shows it in a minute and a half; `fencepost doctor` says what this machine can do.
    """


def _plan_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    flags = [
        click.option("--system", help=f"What is tested: {', '.join(registry.SYSTEMS)}."),
        click.option("--version", help="A known version, or the path of another binary or folder of jars."),
        click.option("--workload", help=f"What is asked: {', '.join(registry.WORKLOADS)}."),
        click.option(
            "--nemesis",
            help="FAULT[:TARGET][:key=value]... By commas they take turns, + joins workers that act at the same time; "
            "all for a mixture of everything that can be had, none for no faults. There is no default.",
        ),
        click.option(
            "--schedule",
            type=click.Path(path_type=Path),
            help="A schedule.jsonl, in place of --nemesis: its faults are carried out at its times, nothing is drawn.",
        ),
        click.option("--quorum", help="any, or keep: skip what would leave no connected majority. Default any."),
        click.option("--runtime", help="Where the nodes live: lab, containers. Default lab."),
        click.option("--image", help="containers: a server image of your own, in place of ours."),
        click.option("--links", help="containers: how links are enforced: auto, rules, sidecar, toxiproxy."),
        click.option(
            "--limited-data/--no-limited-data", default=None, help="containers: a hard size limit on data directories."
        ),
        click.option("--nodes", type=int, help="3 or 5; with etcd 1 as well."),
        click.option("--time-limit", help="Length of the main phase; bounds new operations only. Default 30s."),
        click.option("--quiet", help="Time without a fault between two faults. Default 4s."),
        click.option("--watch", help="Nodes are watched for so long after the last heal. Default 2s; Kafka 30s."),
        click.option("--op-timeout", help="A client gives an operation up after this long. Default 12s."),
        click.option("--seed", type=int, help="Every random choice derives from it; drawn when it is not given."),
        click.option("--require", multiple=True, help="A guarantee whose violation makes the run invalid."),
        click.option("--deadline", help="For the whole command, verdict and report included."),
        click.option("--keep-data/--no-keep-data", default=None, help="Keep the nodes' data though the run is valid."),
        click.option("--spark-master", help="A Spark master whose executors reach the results. Default local[*]."),
        click.option("--reads", help="register: plain, sync, barrier (ZooKeeper); strong, plain (etcd)."),
        click.option("--fencing", help="lock: on, off."),
        click.option("-o", "--option", multiple=True, metavar="NAME=VALUE", help="A workload's option."),
        click.option("-O", "--system-option", multiple=True, metavar="NAME=VALUE", help="A system's option."),
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


@app.command()
@click.argument("plan_file", required=False, type=click.Path(path_type=Path))
@_plan_flags
@click.option("--results", type=click.Path(path_type=Path), default=Path("results"), help="Where runs are kept.")
@click.option("--json", "as_json", is_flag=True, help="Print verdict.json on stdout instead of words.")
@click.option("--times", type=click.IntRange(1), default=1, help="Run so many times, with seed, seed + 1, ...")
@click.option("--spark/--no-spark", "use_spark", default=True, help="Leave Spark's part of the report out.")
def run(plan_file: Path | None, results: Path, as_json: bool, times: int, use_spark: bool, **flags: Any) -> int:
    """Run a plan against a real cluster and judge it.

    \b
    fencepost run --system etcd --workload register --nemesis partition:leader,kill --time-limit 30s --seed 7
    fencepost run plan.toml
    """
    from fencepost.harness.cli.output.outcome import exit_code_of, say_first, say_last, say_times
    from fencepost.harness.plan.checked_plan import check_plan

    try:
        checked = check_plan(_plan_of(plan_file, flags))
    except PlanError:
        raise
    except UsageError as error:
        raise UsageError(f"{plan_file}: {error.message}" if plan_file else error.message, hint=error.hint) from None
    plan = checked.plan
    with _Session(plan.spark_master, use_spark=use_spark) as session, session.stop.deadline(plan.deadline):
        found: list[Result] = []
        for number in range(times):
            one = checked.with_seed(plan.seed + number)
            say_first(one, number, times)
            result = session.execute(one, results)
            say_last(one.plan.seed, result, as_json=as_json)
            found.append(result)
            if session.stop.asked:
                break
    say_times(found, times)
    return exit_code_of(found)


@app.command()
@click.argument("folder", metavar="RUN|FILE", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--json", "as_json", is_flag=True, help="Print verdict.json on stdout instead of words.")
@click.option("--spark-master", default="local[*]", help="As for run.")
@click.option(
    "--spark/--no-spark",
    "use_spark",
    default=None,
    help="RUN: with Spark's part of the report (the default), or without. FILE in Parquet: judged through Spark.",
)
@click.option("--model", help="FILE: register, queue, ..., or module:Model. Default: told by its operations.")
@click.option("--format", "form", help="FILE: edn, porcupine, jsonl, parquet. Default: told by its first bytes.")
@click.option("--keyed/--no-keyed", default=None, help="FILE in EDN: values are [key value], or not.")
@click.option("--report", type=click.Path(path_type=Path), help="FILE: a new HTML file, with every anomaly drawn.")
@click.option("--also", multiple=True, metavar="TOOL", help="Ask a second checker too: porcupine, knossos, elle.")
@click.option("--also-command", multiple=True, metavar="TOOL=COMMAND", help="How knossos or elle is called here.")
@click.option("--also-time-limit", default="60s", show_default=True, help="For each of those that are asked.")
@click.option(
    "--consistency",
    metavar="NAME",
    help="FILE of transactions: serializable, snapshot-isolation, causal, ... Default: strict-serializable.",
)
def check(
    folder: Path,
    as_json: bool,
    spark_master: str,
    use_spark: bool | None,
    model: str | None,
    form: str | None,
    keyed: bool | None,
    report: Path | None,
    also: tuple[str, ...],
    also_command: tuple[str, ...],
    also_time_limit: str,
    consistency: str | None,
) -> int:
    """Judge a stored history again, offline.

    A run is judged by its plan; verdict, JUnit and report are written anew. A FILE that stands alone (Jepsen's
    history.edn or its folder; operations in JSON; a .parquet or .jsonl of ours; a table of operations or of
    transactions in Parquet; - for standard input) is judged by a model, and nothing is written but the --report that is
    asked for.

    --also hands the same history to another checker. A tool that is missing is skipped; one that contradicts the
    verdict makes the exit code 255, with both verdicts shown.
    """
    from fencepost.harness.cli.check.file_report import check_report
    from fencepost.harness.cli.check.foreign import check_file, is_run
    from fencepost.harness.cli.check.operations import check_history_by_spark, check_table, is_table, refuse_beside
    from fencepost.harness.cli.check.second_opinions import asked_by
    from fencepost.harness.cli.check.transactions import check_transactions, has_transactions

    if report is not None:
        check_report(report)
    asked = asked_by(also, also_command, also_time_limit)
    if form in (None, "parquet") and keyed is None and is_table(folder):
        master = spark_master if use_spark else None
        if has_transactions(folder):
            return check_transactions(
                folder,
                model=model,
                consistency=consistency,
                spark_master=master,
                as_json=as_json,
                asked=asked,
                report=report,
            )
        refuse_beside(folder, {"--also": asked.names, "--consistency": consistency})
        return check_table(folder, model=model, spark_master=master, as_json=as_json, report=report)
    if model is None and form is None and keyed is None and consistency is None and is_run(folder):
        if report is not None:
            hint = "`fencepost report` makes it again"
            raise UsageError(f"--report: {folder} is a run: its report is written into its folder", hint=hint)
        with_spark = use_spark is not False
        return _judge_again(folder, as_json=as_json, spark_master=spark_master, use_spark=with_spark, asked=asked)
    if use_spark:
        refuse_beside(folder, {"--also": asked.names, "--report": report, "--consistency": consistency})
        return check_history_by_spark(folder, model=model, spark_master=spark_master, as_json=as_json)
    return check_file(
        folder,
        form=form,
        model=model,
        keyed=keyed,
        consistency=consistency,
        as_json=as_json,
        asked=asked,
        report=report,
    )


@app.command()
@click.argument("run", metavar="RUN|FILE", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--format", "form", type=click.Choice(["edn", "porcupine", "jsonl"]), required=True, help="As what.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="A new file. Default standard output.")
def export(run: Path, form: str, output: Path | None) -> int:
    """Write a history in another form: EDN as Jepsen has it, operations as Porcupine has them, or JSON lines."""
    from fencepost.harness.cli.check.foreign import export as write

    return write(run, form, output)


@app.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--spark-master", default="local[*]", help="As for run.")
@click.option("--spark/--no-spark", "use_spark", default=True, help="Leave Spark's part of the report out.")
@click.option("--events", help="Print these rows of the history as JSON lines, and nothing else: all, or 7,9-12.")
def report(folder: Path, spark_master: str, use_spark: bool, events: str | None) -> int:
    """Make the report of a stored run again; exits 0 when it was made, whatever the verdict."""
    if events is not None:
        from fencepost.harness.report.documents.events import event_lines
        from fencepost.harness.results import run_folder as store

        for line in event_lines(store.find_run_folder(folder), events):
            click.echo(line)
        return int(ExitCode.VALID)
    _judge_again(folder, as_json=False, spark_master=spark_master, use_spark=use_spark)
    return int(ExitCode.VALID)


def _judge_again(
    folder: Path, *, as_json: bool, spark_master: str, use_spark: bool, asked: "Asked | None" = None
) -> int:
    from fencepost.harness.cli.output.outcome import exit_code_of, say_last
    from fencepost.harness.results import run_folder as store
    from fencepost.harness.run.conclude import judge_stored

    found = store.find_run_folder(folder)
    with _Session(spark_master, use_spark=use_spark) as session:
        result = judge_stored(found, progress=session.progress, spark=session.spark)
    seed = read_plan(found / store.PLAN, seed=0).seed
    if asked is None or not asked.names:
        say_last(seed, result, as_json=as_json)
        return exit_code_of([result])

    from fencepost.harness.cli.check.second_opinions import exit_code, question_of_run, say_opinions, with_opinions
    from fencepost.harness.results.reader import read_history

    ours = exit_code_of([result])
    opinions = asked.of(question_of_run(read_history(found), result.judgement))
    document = with_opinions(result.document, opinions, ours)
    say_last(seed, dataclasses.replace(result, document=document), as_json=as_json)
    say_opinions(opinions, as_json=as_json)
    return exit_code(ours, opinions)


@app.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--times", type=click.IntRange(1), default=10, show_default=True, help="So many runs.")
@click.option("--until-invalid", is_flag=True, help="End with the first run that is invalid.")
@click.option("--fingerprint", help="Count by this one of the run's fingerprints; default the first that decides.")
@click.option("--results", type=click.Path(path_type=Path), default=Path("results"), help="Where runs are kept.")
@click.option("--json", "as_json", is_flag=True, help="Print replay.json on stdout instead of words.")
@click.option("--spark/--no-spark", "use_spark", default=False, help="With Spark's part in every report.")
def replay(
    run: Path, times: int, until_invalid: bool, fingerprint: str | None, results: Path, as_json: bool, use_spark: bool
) -> int:
    """Carry out the recorded schedule of RUN again, with the same plan, and count how often the same shows.

    Targets that are roles are resolved anew. Exits as several runs do: 1 when any of them is invalid.
    """
    from fencepost.harness.cli.replay import carrier
    from fencepost.harness.cli.replay import replay as carry_out

    with _Session("local[*]", use_spark=use_spark) as session:
        stop = session.stop
        return carry_out(
            run,
            results.resolve(),
            times=times,
            until_invalid=until_invalid,
            fingerprint=fingerprint,
            as_json=as_json,
            carry=carrier(session.execute, lambda: stop.asked),
            stopped=lambda: stop.asked,
        )


@app.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--budget", default="30m", show_default=True, help="For the search and its confirmation together.")
@click.option("--confirm", "confirmations", default=10, show_default=True, help="Fresh runs of the smaller plan.")
@click.option("--fingerprint", help="Keep this one of the run's fingerprints; default the first that decides.")
@click.option("--results", type=click.Path(path_type=Path), default=Path("results"), help="Where tries are kept.")
def shrink(run: Path, budget: str, confirmations: int, fingerprint: str | None, results: Path) -> int:
    """Leave out faults, then load, then narrow parameters, while RUN's violation still shows; then confirm.

    Stopped by Ctrl-C or by its budget, the same command goes on. Exits 0 with a confirmed plan, else 2.
    """
    from fencepost.harness.cli.replay import carrier
    from fencepost.harness.cli.shrink import shrink as carry_out

    with _Session("local[*]", use_spark=False) as session:
        stop = session.stop
        return carry_out(
            run,
            results.resolve(),
            budget=budget,
            confirmations=confirmations,
            fingerprint=fingerprint,
            carry=carrier(session.execute, lambda: stop.asked),
            stopped=lambda: stop.asked,
        )


@app.command("list")
@click.argument(
    "what", type=click.Choice(["systems", "workloads", "faults", "nemeses", "checkers", "runtimes", "guarantees"])
)
def list_(what: str) -> int:
    """What there is to choose from."""
    from fencepost.harness.cli.listing import listing

    for line in listing(what):
        click.echo(line)
    return 0


@app.command()
@click.option("--sweep", "sweeping", is_flag=True, help="Remove what runs left behind whose processes are gone.")
def doctor(sweeping: bool) -> int:
    """What this machine can do, and for each thing it cannot: why, and the remedy."""
    from fencepost.harness.cli.doctor import examine, sweep

    return sweep() if sweeping else examine()


@app.command()
@click.option("--results", type=click.Path(path_type=Path), default=Path("results"), help="Where runs are kept.")
@click.option("--seed", type=int, default=None, help="Drawn when it is not given.")
@click.option("--runtime", default="lab", help="Where the nodes live: lab, containers.")
def demo(results: Path, seed: int | None, runtime: str) -> int:
    """Two real clusters attacked in the same way: etcd does no harm, ZooKeeper's woken leader answers stale."""
    from fencepost.harness.cli.demo import demonstrate

    with _Session("local[*]") as session:
        return demonstrate(session.execute, results, _seed(seed), runtime)


@app.command()
@click.option("--systems", default="kraft,kafka-zk", show_default=True, help="Which, joined by commas.")
@click.option("--partitions", default="10,100,1000,5000", show_default=True, help="Numbers of topic partitions.")
@click.option("--times", type=click.IntRange(1), default=5, show_default=True, help="Endings of each kind per cluster.")
@click.option("--deadline", default="20m", show_default=True, help="For the whole command; what is missing is said.")
@click.option("--results", type=click.Path(path_type=Path), default=Path("results"), help="Where results are kept.")
@click.option("--json", "as_json", is_flag=True, help="Print failover.json on stdout instead of a table.")
def failover(systems: str, partitions: str, times: int, deadline: str, results: Path, as_json: bool) -> int:
    """How long Kafka is without a controller, by the number of its partitions; both generations side by side.

    The clusters live in the lab only: what containers add to an ending and a start would be measured with it.
    """
    from fencepost.harness.cli.failover import failover as measure

    return measure(systems, partitions, times, deadline, results, as_json=as_json)


@app.group()
def images() -> None:
    """The images of the container runtime: built from docker/, with or without an image registry."""


@images.command("build")
@click.argument("names", nargs=-1)
@click.option("--base", multiple=True, metavar="NAME=IMAGE", help="An official base: java=eclipse-temurin:17-jre.")
@click.option("--version", "versions", multiple=True, metavar="NAME=VERSION", help="Not the pinned one: etcd=3.5.21.")
@click.option("--anew", is_flag=True, help="Also what is up to date, on our own bases, without the build cache.")
def images_build(names: tuple[str, ...], base: tuple[str, ...], versions: tuple[str, ...], anew: bool) -> int:
    """Build the images NAMES (none named: all) that are absent or whose parts have changed."""
    from fencepost.harness.cli.images import build

    return build(names, base=_pairs(base, "--base"), versions=_pairs(versions, "--version"), anew=anew)


@images.command("list")
def images_list() -> int:
    """Every image, built or not: is it up to date, how large, how old, on which base."""
    from fencepost.harness.cli.images import list_images

    return list_images()


@images.command("context")
@click.argument("name")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--version", default="", help="Not the pinned one.")
@click.option("--base", default="", metavar="IMAGE", help="An official base.")
def images_context(name: str, folder: Path, version: str, base: str) -> int:
    """Prepare in FOLDER what image NAME is built from, and say the `docker build` command that does it by hand."""
    from fencepost.harness.cli.images import context

    return context(name, folder, version=version, base=base)


@app.command(hidden=True)
def prepare() -> int:
    """Set-up's last step: make the start-up archives of the two Java programs, once for this user."""
    from fencepost.harness.cli.prepare import prepare_archives

    return prepare_archives()


class _Session:
    """What the runs of one command share: signals, the Spark JVM, progress; all given back at the end."""

    progress: Any
    stop: "StopRequest"
    spark: "SparkHandle | None"

    def __init__(self, spark_master: str, *, use_spark: bool = True) -> None:
        self._spark_master = spark_master
        self._use_spark = use_spark

    def __enter__(self) -> "_Session":
        from fencepost.harness.base.stop_request import StopRequest
        from fencepost.harness.cli.output.progress import Progress
        from fencepost.harness.warehouse.spark_session import SparkHandle

        self.progress = Progress()
        self.stop = StopRequest()
        self.stop.install()
        self.spark = None
        if self._use_spark:
            # It makes its scratch folder when it boots: a command that is killed before leaves nothing.
            self.spark = SparkHandle(self._spark_master)
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.close()
        try:
            if self.spark is not None:
                with self.stop.on_request(self.spark.abandon):
                    self.spark.stop()
        finally:
            self.stop.uninstall()
        # Also when it came after the verdict was said: who insists has one exit code.
        self.stop.check()

    def execute(self, checked: "CheckedPlan", results: Path) -> "Result":
        from fencepost.harness.run.execute import execute

        try:
            return execute(checked, results, progress=self.progress, stop=self.stop, spark=self.spark)
        finally:
            self.progress.close()


def _plan_of(plan_file: Path | None, flags: dict[str, Any]) -> Plan:
    """The plan file overlaid by the flags that were given, or a plan of flags alone."""
    import msgspec

    empty = next((name for name, value in flags.items() if name != "nemesis" and value == ""), None)
    if empty is not None:
        raise UsageError(f"--{empty.replace('_', '-')} is empty", hint="give it a value, or leave it out")
    options = _pairs(flags.pop("option"), "-o")
    system_options = _pairs(flags.pop("system_option"), "-O")
    options |= {name: flags.pop(name) for name in ("reads", "fencing") if flags[name] is not None}
    watch = flags.pop("watch")
    set_on_servers = settings.parse(flags.pop("settings"))
    if flags["schedule"] is not None:
        if flags["nemesis"] is not None:
            raise UsageError("--schedule and --nemesis exclude each other", hint="a schedule says what its faults are")
        # `nemesis` of the plan's file gives way: it is said anew from the schedule.
        flags |= {"schedule": str(flags["schedule"].resolve()), "nemesis": ""}
    given = {k: v for k, v in flags.items() if v is not None and v != () and k not in ("reads", "fencing")}
    if plan_file is not None:
        base = read_plan(plan_file, seed=_seed(given.get("seed")))
    else:
        for name in ("system", "workload"):
            if name not in given:
                choices = ", ".join(registry.SYSTEMS if name == "system" else registry.WORKLOADS)
                raise UsageError(f"--{name} is missing", hint=f"give a plan file, or --{name} with one of: {choices}")
        base = Plan(system=given["system"], workload=given["workload"], seed=_seed(given.get("seed")))
    phases = base.phases if watch is None else msgspec.structs.replace(base.phases, watch=watch)
    set_on_servers = settings.merged(base.server_settings, set_on_servers)
    plan = msgspec.structs.replace(base, phases=phases, server_settings=set_on_servers, **given)
    return _with_options(plan, options, system_options)


def _with_options(plan: Plan, options: dict[str, str], system_options: dict[str, str]) -> Plan:
    import msgspec

    if not options and not system_options:
        return plan
    system = registry.system(plan.system)
    defaults = registry.workload(plan.workload).options(system)
    return msgspec.structs.replace(
        plan,
        workload_options={**plan.workload_options, **_typed(plan.workload, options, defaults)},
        system_options={**plan.system_options, **_typed(plan.system, system_options, system.options())},
    )


def _typed(what: str, given: dict[str, str], defaults: dict[str, Any]) -> dict[str, Any]:
    """Texts of the command line as the types of the defaults; an unknown name is left for `merge_options` to refuse."""
    typed: dict[str, Any] = {}
    for name, text in given.items():
        kind = type(defaults.get(name, ""))
        try:
            typed[name] = text.lower() in ("true", "yes", "on", "1") if kind is bool else kind(text)
        except ValueError:
            raise UsageError(f"{what} option {name}: expected {kind.__name__}, got {text!r}") from None
    return typed


def _pairs(texts: tuple[str, ...], flag: str) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"{flag} {text!r}: expected NAME=VALUE")
        pairs[name] = value
    return pairs


def _seed(given: int | None) -> int:
    return given if given is not None else int.from_bytes(os.urandom(4), "big")


if sys.platform != "linux":  # pragma: no cover
    raise UsageError("the lab needs Linux", hint="run fencepost on Linux, or in a Linux container or virtual machine")
