"""Plug-ins: their names are like ours, a broken one is named and breaks nobody, and a run says which it used."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from fencepost.harness.base import offers
from fencepost.harness.base.errors import UsageError
from fencepost.harness.cli import main
from fencepost.harness.cli.listing import listing
from fencepost.harness.cli.output.outcome import repeat_command
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import check_plan, plugins_of, resolve_plan
from fencepost.harness.plugins import registry
from tests.plugins.without import plugins_of_this_test_alone

POCKET: Final = Path(__file__).resolve().parents[2] / "examples" / "pocket-store"
PLAN: Final = Plan(system="pocket", workload="register", nemesis="kill", seed=1, nodes=1, plugins=(str(POCKET),))

EVERYTHING: Final = '''
from fencepost.nemesis.process.pause import Pause
from fencepost.workloads.register import RegisterWorkload

class Counting(RegisterWorkload):
    name = "counting"
    judges = ("never-seven",)
    def checkers(self, system, options):
        return self.judges

class Doze(Pause):
    name = "doze"
    for_all = ("doze:one",)

class Stack:
    def init(self):
        return ()
    def step(self, state, f, value, result):
        if f == "push":
            return (*state, value)
        return state[:-1] if state and state[-1] == result else None

class Second:
    about = "the second node"
    def refuse(self, spec, placement):
        return None
    def resolve(self, spec, view, draw):
        raise AssertionError("never injected here")

def never_seven(history, facts):
    """No seven."""
    return []

WORKLOADS = {"counting": Counting}
FAULTS = {"doze": Doze}
CHECKERS = {"never-seven": never_seven}
MODELS = {"stack": Stack}
FAULT_TARGETS = {"pause:second": Second()}
'''


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    with plugins_of_this_test_alone():
        yield


def _file(folder: Path, text: str, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def _package(folder: Path, name: str, text: str = "", *, tables: str) -> None:
    """Install a package as pip would, as far as entry points go."""
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    (folder / f"{name}_tables.py").write_text(tables, encoding="utf-8")
    info = folder / f"{name}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[fencepost]\nit = {name}_tables\n", encoding="utf-8")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    offers.forget()


def test_each_folder_of_systems_is_a_leaf() -> None:
    folders = {init.parent.name for init in POCKET.parents[1].glob("systems/*/__init__.py")}
    assert folders <= {source.name for source in offers.offered().sources if source.leaf}


def test_a_file_offers_every_kind_and_they_are_listed_like_ours(tmp_path: Path) -> None:
    registry.use_plugins([_file(tmp_path, EVERYTHING)])
    for kind, name in (("workloads", "counting"), ("faults", "doze"), ("checkers", "never-seven")):
        assert f"  {name} " in listing(kind)
        assert listing(kind, name).startswith(f"{name}: ")
    assert "second the second node" in " ".join(listing("faults", "pause").split())
    assert "workload counting, fault doze, checker never-seven, model stack" in " ".join(listing("plugins").split())
    checked = check_plan(Plan(system="example", workload="counting", nemesis="doze,all", seed=1))
    assert "--plugin" in repeat_command(checked)
    (used,) = plugins_of(checked, checked.request)
    assert used.provides == ("workload counting", "fault doze", "checker never-seven")
    assert len(used.sha256) == 64


def test_a_model_of_a_plugin_judges_a_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plugin = _file(tmp_path, EVERYTHING)
    rows = [("push", 1, 1), ("pop", None, 2)]
    lines = []
    for time, (f, value, result) in enumerate(rows):
        for type_, at, shown in (("invoke", 0, value or "nil"), ("ok", 1, result)):
            number = 2 * time + at
            lines.append(f"{{:index {number} :time {number} :type :{type_} :process 0 :f :{f} :value {shown}}}")
    history = _file(tmp_path, "\n".join(lines), "history.edn")
    assert main(["check", str(history), "--model", "stack", "--plugin", str(plugin)]) == 1
    assert "non-linearizable" in capsys.readouterr().out
    assert main(["check", str(history), "--model", "stak"]) == 254
    assert "did you mean 'stack'" in capsys.readouterr().err


def test_a_plan_names_its_plugins_and_says_when_one_is_gone(tmp_path: Path) -> None:
    checked = check_plan(PLAN)
    assert checked.plan.plugins == (str(POCKET),)
    assert registry.systems()["pocket"] is checked.system
    gone = msgspec.structs.replace(PLAN, plugins=(str(tmp_path / "moved.py"),))
    assert resolve_plan(gone).plan.system == "pocket", "it is known by another path"
    os.environ[offers.VARIABLE] = ""
    offers.forget()
    with pytest.raises(UsageError, match=r"the plan's plug-in .*moved\.py is not there"):
        resolve_plan(gone)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SYSTEMS = {", "is broken: SyntaxError: '{' was never closed in line 1"),
        ("import sys; sys.exit(3)", "is broken: SystemExit: 3"),
        ("import no_such_module_at_all", "is broken: ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        ("x = 1", "it offers nothing: it has no mapping SYSTEMS"),
        ("SYSTEMS = [1]", "SYSTEMS is list; expected a mapping of names"),
        ("SYSTEMS = {'etcd': 1}", "is refused: fencepost has one of that name, at fencepost.systems.etcd.system:ETCD"),
        (
            "CHECKERS = {'queue': print}",
            "fencepost has one of that name, at fencepost.checkers.objects.judging:checker_of",
        ),
        ("FAULTS = {'all': 1}", "no word of the nemesis"),
        ("FAULTS = {'a:b': 1}", "expected small letters"),
    ],
)
def test_a_path_that_is_broken_is_refused_by_its_name(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _file(tmp_path, text)
    assert main(["list", "systems", "--plugin", str(path)]) == 254
    captured = capsys.readouterr()
    assert message in captured.err
    assert str(path) in captured.err
    assert "hint: " in captured.err
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("TINY = 3", "expected a class below BaseSystem, not int"),
        ("raise RuntimeError('no luck')", "RuntimeError: no luck"),
        ("OTHER = 3", "AttributeError: module 'broken_one' has no attribute 'TINY'"),
    ],
)
def test_a_broken_package_breaks_nobody_else(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sys.modules.pop("broken_one", None)
    _package(tmp_path, "broken_one", text, tables="SYSTEMS = {'tiny': 'broken_one:TINY'}")
    assert main(["list", "systems"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "zookeeper release" in text
    assert f"Not usable: tiny the system 'tiny' of the plug-in broken_one 1.2 is broken: {message}" in text
    run = ["run", "--workload", "register", "--nemesis", "none", "--system"]
    assert main([*run, "tiny"]) == 254
    captured = capsys.readouterr()
    assert f"the system 'tiny' of the plug-in broken_one 1.2 is broken: {message}" in captured.err
    assert "Traceback" not in captured.err
    assert check_plan(Plan(system="etcd", workload="register", nemesis="kill,all", seed=1))


def test_what_an_unread_package_may_have_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _package(tmp_path, "unread_one", tables="import no_such_module_at_all")
    assert main(["list", "systems"]) == 0
    assert "the plug-in unread_one 1.2 is broken: ModuleNotFoundError" in " ".join(capsys.readouterr().out.split())
    assert main(["run", "--workload", "register", "--nemesis", "none", "--system", "tiny"]) == 254
    said = capsys.readouterr().err
    assert "unknown system 'tiny'; the plug-in unread_one 1.2 is broken: ModuleNotFoundError" in said
    assert check_plan(Plan(system="etcd", workload="register", nemesis="kill,all", seed=1))


def test_clashes_name_both_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _package(tmp_path, "one", tables="SYSTEMS = {'tiny': 'one:TINY', 'etcd': 'one:ETCD'}")
    _package(tmp_path, "two", tables="SYSTEMS = {'tiny': 'two:TINY'}")
    twice = "'tiny' is offered twice, so neither is used: by (one|two) 1.2 and (one|two) 1.2"
    with pytest.raises(UsageError, match=twice):
        check_plan(msgspec.structs.replace(PLAN, system="tiny", plugins=()))
    checked = check_plan(Plan(system="etcd", workload="register", nemesis="none", seed=1))
    assert type(checked.system).__module__.startswith("fencepost.systems.etcd")
    assert main(["list", "plugins"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "'etcd' of the plug-in one 1.2 is refused: fencepost has one of that name, at fencepost.systems" in text


def test_an_error_inside_a_plugin_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = EVERYTHING.replace("        return self.judges", "        return 1 // 0")
    path = _file(tmp_path, broken)
    run = ["run", "--plugin", str(path), "--system", "example", "--nemesis", "none", "--workload", "counting"]
    assert main(run) == 254
    captured = capsys.readouterr()
    assert f"the plug-in {path} failed at {path}:" in captured.err
    assert "ZeroDivisionError" in captured.err
    assert "Traceback" not in captured.err


def test_one_that_would_be_called_otherwise_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    older = '    name = "doze"\n    async def heal(self, fault_id, resolved, cluster): ...'
    path = _file(tmp_path, EVERYTHING.replace('    name = "doze"', older))
    run = ["run", "--plugin", str(path), "--system", "example", "--workload", "register", "--nemesis", "doze"]
    assert main(run) == 254
    captured = capsys.readouterr()
    assert "is broken: its heal() is called with (act): missing a required argument: 'resolved'" in captured.err
    assert "hint: " in captured.err
    assert "Traceback" not in captured.err


def test_judging_a_run_whose_plugin_is_missing_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plan.toml").write_text('system = "gone"\nworkload = "register"\nnemesis = "none"\n', encoding="utf-8")
    used = offers.UsedPlugin(name="gone-store", version="2", sha256="", provides=("system gone",))
    (tmp_path / "run.json").write_text(json.dumps({"plugins": [msgspec.to_builtins(used)]}), encoding="utf-8")
    assert main(["check", str(tmp_path)]) == 254
    assert "this run used the plug-in gone-store 2 (system gone), which is not usable here" in capsys.readouterr().err
