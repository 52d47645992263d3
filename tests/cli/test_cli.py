"""The command line without a cluster: exit codes, and messages that name the choices."""

import subprocess
import sys
from pathlib import Path
from typing import Final, NoReturn

import click
import pytest

from fencepost.harness.cli import main
from fencepost.harness.cli.app import app, commands
from fencepost.harness.cli.output.outcome import CommandSession
from fencepost.harness.cli.run import command as run
from fencepost.harness.plugins import registry
from tests.plugins.without import plugins_of_this_test_alone


def _main(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    said = capsys.readouterr()
    return code, said.out, said.err


UNNAMED = ("run", "--system", "etcd", "--workload", "register")
ETCD = (*UNNAMED, "--nemesis", "none")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run",), ["--system is missing", "etcd, example, kafka-bridge, kafka-zk, kraft, nats, redis, zookeeper"]),
        (("run", "--system", "etcd"), ["--workload is missing", "register, set"]),
        (("run", "--system", "oracle", "--workload", "set"), ["unknown system 'oracle'", "kraft, nats, "]),
        (("run", "--system", "etcd", "--workload", "bank"), ["unknown workload 'bank'", "register, set"]),
        ((*ETCD, "--nemesis", "flood"), ["unknown fault 'flood'", "choose from: administer, all, churn"]),
        (
            (*ETCD, "--nemesis", "partiton"),
            ["unknown fault 'partiton'", "did you mean 'partition'? choose from: "],
        ),
        ((*ETCD, "--nemesis", "none:leader"), ["'none:leader': 'none' takes no target", "write none alone"]),
        ((*ETCD, "--nemesis", "all:leader"), ["'all:leader': 'all' takes no target", "write all alone"]),
        ((*ETCD, "--nemesis", "kill:leadr"), ["kill: unknown target 'leadr'", "did you mean 'leader'?"]),
        ((*ETCD, "--nemesis", "kill:leader:fro=2s"), ["unknown kill option 'fro'", "did you mean 'for'?"]),
        (("doctor", "contaners"), ["unknown group of checks 'contaners'", "did you mean 'containers'?"]),
        (("doctor", "lab", "--sweep"), ["--sweep checks nothing", "leave out --sweep or lab"]),
        (("prepare", "zookeper"), ["unknown program 'zookeper'", "did you mean 'zookeeper'?"]),
        (("run", "--system", "zookeper", "--workload", "set"), ["unknown system", "did you mean 'zookeeper'?"]),
        ((*ETCD, "--workload", "regster"), ["unknown workload 'regster'", "did you mean 'register'?"]),
        ((*ETCD, "--require", "linearisable"), ["unknown guarantee", "did you mean 'linearizable'?"]),
        ((*ETCD, "-o", "kyes=3"), ["unknown register option 'kyes'", "did you mean 'keys'?"]),
        ((*ETCD, "--nemsis", "kill"), ["No such option", "--nemesis"]),
        (("shrnk", "x"), ["unknown command 'shrnk'", "did you mean 'shrink'?"]),
        (("list", "falts"), ["unknown kind of name 'falts'", "did you mean 'faults'?"]),
        (("list", "faults", "puase"), ["unknown fault 'puase'", "did you mean 'pause'?"]),
        (UNNAMED, ["the plan names no faults", "partition", "all, none"]),
        ((*ETCD, "--nemesis", ""), ["the plan names no faults", "partition", "all, none"]),
        ((*ETCD, "--nemesis", " "), ["the plan names no faults", "partition", "all, none"]),
        ((*ETCD, "--nemesis", ","), ["nemesis ',': a part of it names no fault", "none, partition"]),
        ((*ETCD, "--nemesis", "+"), ["unknown fault '+'", "none, partition"]),
        ((*ETCD, "--nemesis", "+kill"), ["nemesis '+kill': a part of it names no fault", "none, partition"]),
        ((*ETCD, "--nemesis", "kill,,pause"), ["nemesis 'kill,,pause': a part of it names no fault"]),
        ((*ETCD, "--nemesis", "none,kill"), ["nemesis 'none,kill': 'none' stands beside faults"]),
        ((*ETCD, "--nemesis", "kill,"), ["nemesis 'kill,': a part of it names no fault"]),
        *(
            ((*ETCD, flag, ""), [f"{flag} is empty", "leave it out"])
            for flag in (
                "--system",
                "--version",
                "--workload",
                "--runtime",
                "--image",
                "--quorum",
                "--time-limit",
                "--quiet",
                "--watch",
                "--op-timeout",
                "--deadline",
                "--reads",
            )
        ),
        (("report", ""), ["Invalid value for 'RUN': it is empty"]),
        (("replay", "x", "--results", ""), ["Invalid value for '--results': it is empty"]),
        ((*ETCD, "-o", "keys=0"), ["register option keys: 0 is too small", "give at least 1"]),
        ((*ETCD, "-o", "keys=-3"), ["register option keys: -3 is too small", "give at least 1"]),
        ((*ETCD, "-o", "rate=0"), ["register option rate: 0 is too small", "give more than 0, at most 1000000"]),
        ((*ETCD, "-o", "rate=nan"), ["register option rate: expected a number, got nan"]),
        ((*ETCD, "-o", "rate=1e12"), ["register option rate: 1e12 is too large", "at most 1000000"]),
        ((*ETCD, "-o", "active_per_node=100000"), ["active_per_node: 100000 is too large", "at most 1000"]),
        ((*ETCD, "-o", "active_timeout=0s"), ["active_timeout: 0s is too small", "more than 0"]),
        ((*ETCD, "-o", "keys=5", "-o", "keys=6"), ["-o keys= is given twice", "leave one of them out"]),
        ((*ETCD, "--reads", "plain", "-o", "reads=strong"), ["--reads and -o reads= say the same"]),
        ((*UNNAMED, "--nemesis", "kill:leader:for=1s:for=2s"), ["for= is given twice", "give it once"]),
        ((*ETCD, "--seed", "-1"), ["-1 is not in the range x>=0"]),
        ((*ETCD, "--op-timeout", "0s"), ["op_timeout: 0s is too short", "give 1ms or more"]),
        ((*ETCD, "--watch", "0s"), ["watch: 0s is too short", "give 1ms or more"]),
        ((*ETCD, "--time-limit", "0s"), ["time_limit: 0s is too short", "give 100ms or more"]),
        ((*ETCD, "--time-limit", "\uff15s"), ["is not a duration"]),
        ((*ETCD, "--deadline", "1s"), ["deadline: 1s is too short", "give 15s or more"]),
        (
            (*ETCD, "--limited-data"),
            ["lab: --limited-data is an option of containers only", "leave out --limited-data"],
        ),
        ((*ETCD, "--require", ""), ["unknown guarantee of etcd ''"]),
        ((*ETCD, "--nemesis", "kill:n9"), ["unknown target 'n9'", "minority", "n1, n2, n3"]),
        ((*ETCD, "--runtime", "moon"), ["unknown runtime 'moon'", "lab"]),
        ((*ETCD, "--nodes", "4"), ["nodes: 4 is not a choice", "3, 5"]),
        ((*ETCD, "--time-limit", "30"), ["'30' is not a duration", "30s"]),
        ((*ETCD, "--deadline", "soon"), ["'soon' is not a duration"]),
        (
            (*UNNAMED, "--nemesis", "partition:leader,kill", "--time-limit", "8s", "--seed", "1"),
            ["does not fit in 8s", "use --time-limit 1", "or --quiet "],
        ),
        ((*ETCD, "--reads", "barrier"), ["reads='barrier' is not a choice", "strong, plain"]),
        ((*ETCD, "--require", "peace"), ["unknown guarantee of etcd 'peace'", "linearizable"]),
        ((*ETCD, "-o", "keys=many"), ["expected a whole number, got 'many'"]),
        ((*ETCD, "-o", "kyes=3"), ["unknown register option 'kyes'", "keys"]),
        ((*ETCD, "-o", "keys"), ["expected NAME=VALUE"]),
        ((*ETCD, "-O", "tick=5ms"), ["unknown etcd option 'tick'", "election"]),
        ((*ETCD, "--fencing", "on"), ["unknown register option 'fencing'"]),
        ((*ETCD, "--colour"), ["No such option", "--help"]),
        (("run", "no-such.toml"), ["no-such.toml", "No such file"]),
        (("check", "x", "--spark-master", "spark://far:7077"), ["nothing is judged through Spark", "add --spark"]),
        (("check", "/nowhere"), ["there is no run in this folder"]),
        (("shrink", "x", "--budget", "0s"), ["--budget 0s leaves no time for a run"]),
        (
            ("bisect", "zookeeper-old-leader-answers", "--good", "3.9.4", "--bad", "3.9.5", "--budget", "0s"),
            ["no time"],
        ),
        (("conformance", "kip-273", "--budget", "0s"), ["no time"]),
        (("list", "planets"), ["planets", "systems"]),
        (("fly",), ["unknown command 'fly'", "check, conformance, demo"]),
        ((*ETCD, "--version", "/no/such/etcd"), ["/no/such/etcd"]),
    ],
)
def test_a_mistake_exits_254_with_a_message_and_no_traceback(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: tuple[str, ...], said: list[str]
) -> None:
    where = ("--results", str(tmp_path)) if arguments[0] == "run" else ()
    code, out, err = _main(capsys, *arguments, *where)
    assert code == 254, err
    assert out == ""
    assert "error: " in err
    assert "hint: " in err or "expected" in err
    assert "Traceback" not in err
    for part in said:
        assert part in err
    assert list(tmp_path.iterdir()) == []


SAMPLE: Final = {
    "--system": "example",
    "--workload": "register",
    "--nemesis": "kill",
    "--time-limit": "30s",
    "--seed": "1",
}


@pytest.mark.parametrize(
    "flag", [param.opts[-1] for param in run.params if isinstance(param, click.Option) and not param.is_flag]
)
def test_a_variable_that_is_unset_makes_no_other_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: str
) -> None:
    """`--flag "$VARIABLE"` in CI: with the variable unset, less would be asked for, and the run would be greener."""

    def execute(*_: object, **__: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(CommandSession, "execute", execute)
    given = {**SAMPLE, "--results": str(tmp_path)}
    assert main(["run", *(word for pair in given.items() for word in pair)]) == 130, "the sample itself is a run"
    if flag == "--schedule":
        del given["--nemesis"]
    with plugins_of_this_test_alone():
        code, _, err = _main(capsys, "run", *(word for pair in {**given, flag: ""}.items() for word in pair))
    assert code == 254, err
    assert "error: " in err


def test_a_program_that_takes_too_long_is_told_as_a_busy_machine_and_not_as_a_defect(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def execute(*_: object, **__: object) -> NoReturn:
        raise subprocess.TimeoutExpired(["strace", Path("-V")], 10.0)

    monkeypatch.setattr(CommandSession, "execute", execute)
    given = {**SAMPLE, "--results": str(tmp_path)}
    code, _, err = _main(capsys, "run", *(word for pair in given.items() for word in pair))
    assert code == 255
    assert "this machine is too busy: strace -V took over 10 s" in err
    assert "Traceback" not in err and "defect" not in err


@pytest.mark.parametrize("system", registry.systems())
def test_a_version_that_is_none_exits_254(capsys: pytest.CaptureFixture[str], tmp_path: Path, system: str) -> None:
    offered = registry.systems()[system].profile.interfaces
    workload = next(name for name, one in registry.workloads().items() if one.protocol in offered)
    run = ("run", "--system", system, "--nemesis", "kill", "--time-limit", "30s", "--results", str(tmp_path))
    code, _, err = _main(capsys, *run, "--workload", workload, "--version", "9.9.x")
    assert code == 254, err
    assert "Traceback" not in err
    assert "error: " in err and "hint: " in err


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("", ["systems", "faults", "fencepost list KIND NAME"]),
        ("systems", ["etcd", "zookeeper", "3.5.1", "3.9.5"]),
        ("systems etcd", ["-O election=...", "pause between two heartbeats", "default 100ms", "--nodes"]),
        ("abilities", ["member-changes", "watches"]),
        ("workloads", ["register", "set", "lock"]),
        ("workloads lock", ["-o fencing=", "default on"]),
        ("faults", ["partition", "pause", "kill", "none", "A+B"]),
        ("nemeses", ["partition", "pause", "kill", "none", "A+B"]),
        ("nemeses partition", ["leader", ":direction=both|in|out", "ring", "Example:", "links carry nothing"]),
        ("checkers", ["linearizable", "freshness", "leadership", "coverage", "session-order", "set", "lock"]),
        ("runtimes", ["lab"]),
        ("guarantees", ["fresh-after-sync", "relied-upon: zookeeper", "linearizable", "promised: etcd"]),
        ("guarantees fresh-after-sync", ["ZOOKEEPER-1675", "relied-upon: "]),
    ],
)
def test_list_names_everything(capsys: pytest.CaptureFixture[str], what: str, names: list[str]) -> None:
    code, out, _ = _main(capsys, "list", *what.split())
    assert code == 0
    for name in names:
        assert name in out
    assert all(len(line) <= 100 for line in out.splitlines() if not line.startswith("  fencepost "))


def test_doctor_says_what_works(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _main(capsys, "doctor")
    assert code in (0, 254)
    for part in ("lab", "nf_tables", "etcd: 3.5.1", "zookeeper: 3.9.5", "kraft: 4.3.1", "native core", "Spark"):
        assert part in out
    assert ("NO " in out) <= ("remedy:" in out)


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert _main(capsys, "--version")[0] == 0
    code, out, _ = _main(capsys, "run", "--help")
    assert code == 0
    for flag in ("--system", "--seed", "--times", "--deadline", "--keep-data", "--json", "--results"):
        assert flag in out


def test_an_internal_error_exits_255_with_its_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: str) -> None:
        raise RuntimeError("a wheel came off")

    monkeypatch.setattr("fencepost.harness.cli.listing.listing", broken)
    code, _, err = _main(capsys, "list", "systems")
    assert code == 255
    assert "Traceback" in err
    assert "a wheel came off" in err


def test_the_list_of_commands_says_what_each_command_says_of_itself() -> None:
    context = click.Context(app)
    for name, (_, about, _) in commands().items():
        command = app.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert " ".join((command.help or "").partition("\n\n")[0].split()) == about


def test_a_file_is_no_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The folder it stands in may hold other runs, of which the newest would be taken."""
    run = tmp_path / "20261123T000000.000Z"
    run.mkdir()
    (run / "plan.toml").write_text('system = "etcd"')
    for file in (tmp_path / "notes.txt", run / "report.html"):
        file.touch()
        for command in ("report", "replay", "shrink"):
            code, _, err = _main(capsys, command, str(file))
            assert code == 254
            assert f"{file}: a file, where a run's folder is expected" in err
    assert f"hint: give {run}\n" in err


@pytest.mark.parametrize("line", ["[thresholds]\nok_operations_min = -1", "[budget]\nwall_s = -5.0"])
def test_a_plan_with_a_bound_below_zero_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(f'system = "etcd"\nworkload = "register"\nnemesis = "none"\n{line}\n')
    code, _, err = _main(capsys, "run", str(plan), "--results", str(tmp_path / "results"))
    assert code == 254
    assert "line 5" in err


@pytest.mark.parametrize("module", ["click", "fencepost.harness.base.errors", "fencepost.harness.cli.app"])
def test_ctrl_c_while_modules_are_imported_shows_no_traceback(module: str) -> None:
    """As it comes in the first tenths of a second, from a finder that is asked for one of the modules."""
    script = f"""
import sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
from fencepost.harness.cli import main
sys.exit(main(["list", "runtimes"]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\nstopped\n")
