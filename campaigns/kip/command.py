"""`fencepost conformance kip-30` and `kip-273`: what the proposals can promise, as tables of measurements."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from fencepost.campaigns.commands.carrying_out import carry_out
from fencepost.campaigns.kip.columns import column_of
from fencepost.campaigns.kip.making import FOLDER, TableMaking
from fencepost.campaigns.kip.page import claim_words, measured_words
from fencepost.campaigns.kip.rows import Proposal, parts_of
from fencepost.campaigns.kip.table import KipTable
from fencepost.campaigns.night.session import NightWishes
from fencepost.harness.base.quantities import parse_budget_s
from fencepost.harness.cli.output.help import Documented, HelpExample, shared_flags
from fencepost.harness.cli.output.progress import shorten
from fencepost.harness.plugins import registry

_KIP_30 = (
    HelpExample("fencepost conformance kip-30 --systems etcd,zookeeper,example", "Three systems side by side"),
    HelpExample("fencepost conformance kip-30 --budget 10m", "What ten minutes are enough for; run it again to go on"),
)
_KIP_273 = (
    HelpExample("fencepost conformance kip-273", "etcd beside ZooKeeper"),
    HelpExample("fencepost conformance kip-273 --systems etcd --fresh", "One of them, with new runs"),
)
Command = Callable[..., int]


def make_table(
    proposal: Proposal, *, systems: str, runtime: str, budget: str, seed: int, fresh: bool, results: Path
) -> int:
    """Make the runs and the table; returns the exit code of the table."""
    budget_s = parse_budget_s(budget)
    making = TableMaking(proposal, _systems(proposal, systems), results / FOLDER, runtime=runtime, fresh=fresh)
    if making.cells:
        carry_out(making, NightWishes(budget_s=budget_s, seed=seed, results=making.results))
    table = making.write()
    _say(table)
    click.echo(f"table: {shorten(str(making.results / f'{proposal}.md'))}", err=True)
    return int(table.exit_code)


def _say(table: KipTable) -> None:
    for one in table.rows:
        click.echo(f"{one.row.id}  {one.row.text}")
        for cell in one.cells:
            parts = [text for text in (claim_words(cell), measured_words(cell)) if text]
            click.echo(f"      {cell.system:<10} {': '.join(parts)}")
    for text in table.missing:
        click.echo(f"missing: {text}")
    click.echo(f"{table.sentence}.")


def _systems(proposal: Proposal, given: str) -> tuple[str, ...]:
    """The systems that were named, or all that have a recipe for the proposal."""
    if given:
        return tuple(name.strip() for name in given.split(",") if name.strip())
    return tuple(
        name
        for name, system in registry.systems().items()
        if (column := column_of(system)) and any(recipe.part in parts_of(proposal) for recipe in column.recipes)
    )


def _options(command: Command) -> Command:
    """The flags of both tables."""
    command = shared_flags("results", runtime="lab", budget="30m", seed=1)(command)
    systems = "Systems, joined by commas. Default: all with recipes."
    fresh = "Run everything again; else runs with the same plan are read."
    command = click.option("--fresh", is_flag=True, help=fresh)(command)
    return click.option("--systems", default="", metavar="NAMES", help=systems)(command)


@click.command("kip-30", cls=Documented, examples=_KIP_30)
@_options
def kip_30(**flags: Any) -> int:
    """Measure what KIP-30's interface can promise on each system.

    Each row is promised by the system's documentation, or rests on a recipe, or is impossible; beside that stands how
    often it was tested, and a witness of each violation. A row that nothing exercised says so.

    Exits 0 when every promised row was tested and held, 1 when one was violated, 2 when something is missing.
    """
    return make_table(Proposal.KIP_30, **flags)


@click.command("kip-273", cls=Documented, examples=_KIP_273)
@_options
def kip_273(**flags: Any) -> int:
    """Measure whether a store has the semantics of ZooKeeper that Kafka builds on.

    KIP-273 says that etcd "can provide the same semantics as Zookeeper". Nine rows test it: requests of one session in
    order, events before answers, children, ephemerals, sessions.

    Exits 0 when every promised row was tested and held, 1 when one was violated, 2 when something is missing.
    """
    return make_table(Proposal.KIP_273, **flags)
