"""The catalogue: every name has one line and a page, and its example is a plan that can be run."""

import shlex

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.cli.app import app
from fencepost.harness.cli.run import plan_of
from fencepost.harness.plan.checked_plan import check_plan
from fencepost.harness.plugins import catalogue, registry
from fencepost.harness.plugins.catalogue import NameEntry

#: A name of two columns and a terminal of 100 leave room for this.
_ABOUT_MAX = 86

ENTRIES = [(kind, entry) for kind in catalogue.KINDS for entry in catalogue.kind(kind).entries]
EXAMPLES = sorted({entry.example for _, entry in ENTRIES if entry.example})


def test_the_kinds_are_the_registries() -> None:
    named = {
        "systems": registry.SYSTEMS,
        "workloads": registry.WORKLOADS,
        "faults": registry.NEMESES,
        "checkers": registry.CHECKERS,
        "runtimes": registry.RUNTIMES,
    }
    for kind, entries in named.items():
        assert [entry.name for entry in catalogue.kind(kind).entries] == list(entries)
    assert catalogue.kind("nemeses") == catalogue.kind("faults")


@pytest.mark.parametrize("entry", [pytest.param(e, id=f"{kind}-{e.name}") for kind, e in ENTRIES if kind != "checkers"])
def test_a_line_fits_a_terminal(entry: NameEntry) -> None:
    limit = 101 if not entry.example else _ABOUT_MAX
    assert entry.about
    assert "\n" not in entry.about
    assert len(entry.about) <= limit, entry.about


@pytest.mark.parametrize(("kind", "entry"), [pytest.param(k, e, id=f"{k}-{e.name}") for k, e in ENTRIES])
def test_every_option_says_what_it_is(kind: str, entry: NameEntry) -> None:
    for option in entry.options:
        assert option.about
        assert option.kind
    assert bool(entry.options) <= bool(entry.option_form)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_a_plan_that_can_be_run(example: str) -> None:
    name, command, *arguments = shlex.split(example)
    assert (name, command) == ("fencepost", "run")
    run = app.get_command(app.make_context("fencepost", ["run", "--help"], resilient_parsing=True), "run")
    assert run is not None
    flags = run.make_context("run", arguments).params
    for other in ("plan_file", "results", "as_json", "times"):
        flags.pop(other)
    check_plan(plan_of(None, flags))


def test_a_fault_says_where_it_is_possible() -> None:
    page = {section.title: dict(section.rows) for section in catalogue.kind("faults").entry("depose").sections}
    assert page["Possible on"] == {"kafka-zk": "with every runtime"}
    assert "etcd" in page["Not possible on"]
    pages = {section.title: dict(section.rows) for section in catalogue.kind("faults").entry("toxic").sections}
    assert pages["Possible on"] == {"every system": "with --runtime containers"}


def test_effects_are_told_by_the_target() -> None:
    page = {section.title: dict(section.rows) for section in catalogue.kind("faults").entry("pause").sections}
    assert page["Effects"]["every other target"] == "the server does nothing while the fault lasts"
    assert page["Effects"]["client"] == "nodes and links go on as before"


def test_limits_and_defaults_have_their_units() -> None:
    options = {option.name: option for option in catalogue.kind("faults").entry("disk").options}
    assert (options["delay"].limits, options["delay"].default) == ("at least 1ms, at most 1m", "100ms")
    register = {option.name: option for option in catalogue.kind("workloads").entry("register").options}
    assert register["reads"].default == "strong on cassandra, consul, etcd, example, nats, redis; plain on zookeeper"
    assert register["rate"].default == "150"


def test_an_unknown_name_lists_the_names() -> None:
    with pytest.raises(UsageError) as caught:
        catalogue.kind("faults").entry("partiton")
    assert "unknown fault 'partiton'" in caught.value.message
    assert "partition" in (caught.value.hint or "")
