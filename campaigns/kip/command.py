"""`fencepost conformance kip-30` and `kip-273`: what the proposals can promise, as tables of measurements."""

from collections.abc import Callable
from pathlib import Path

import click

from fencepost.campaigns.kip.columns import Proposal, column_of
from fencepost.campaigns.kip.making import TableMaking, TableWishes
from fencepost.campaigns.kip.page import claim_words, measured_words
from fencepost.campaigns.kip.rows import parts_of
from fencepost.campaigns.kip.table import KipTable
from fencepost.harness.base.quantities import parse_duration_ns
from fencepost.harness.cli.output.help import Documented, HelpExample, PathValue
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


def make_table(wishes: TableWishes) -> int:
    """Make the runs and the table; returns the exit code of the table."""
    making = TableMaking(wishes)
    table = making.make()
    _say(table)
    click.echo(f"table: {shorten(str(making.folder / f'{wishes.proposal}.md'))}", err=True)
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
    flags = (
        click.option(
            "--systems", default="", metavar="NAMES", help="Systems, joined by commas. Default: all with recipes."
        ),
        click.option(
            "--runtime", default="lab", metavar="NAME", help="Where the nodes live: lab or containers. Default lab."
        ),
        click.option(
            "--budget",
            default="30m",
            show_default=True,
            metavar="DURATION",
            help="Nothing begins that would end after it.",
        ),
        click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of all runs."),
        click.option("--fresh", is_flag=True, help="Run everything again; else runs with the same plan are read."),
        click.option(
            "--results", type=PathValue(), default=Path("results"), show_default=True, help="Folder for the results."
        ),
    )
    for flag in reversed(flags):
        command = flag(command)
    return command


def _wishes(
    proposal: Proposal, systems: str, runtime: str, budget: str, seed: int, fresh: bool, results: Path
) -> TableWishes:
    return TableWishes(
        proposal=proposal,
        systems=_systems(proposal, systems),
        runtime=runtime,
        budget_s=parse_duration_ns(budget, what="--budget") / 1e9,
        seed=seed,
        results=results,
        fresh=fresh,
    )


@click.command("kip-30", cls=Documented, examples=_KIP_30)
@_options
def kip_30(systems: str, runtime: str, budget: str, seed: int, fresh: bool, results: Path) -> int:
    """Measure what KIP-30's interface can promise on each system.

    Each row is promised by the system's documentation, or rests on a recipe, or is impossible; beside that stands how
    often it was tested, and a witness of each violation. A row that nothing exercised says so.

    Exits 0 when every promised row was tested and held, 1 when one was violated, 2 when something is missing.
    """
    return make_table(_wishes(Proposal.KIP_30, systems, runtime, budget, seed, fresh, results))


@click.command("kip-273", cls=Documented, examples=_KIP_273)
@_options
def kip_273(systems: str, runtime: str, budget: str, seed: int, fresh: bool, results: Path) -> int:
    """Measure whether a store has the semantics of ZooKeeper that Kafka builds on.

    KIP-273 says that etcd "can provide the same semantics as Zookeeper". Nine rows test it: requests of one session in
    order, events before answers, children, ephemerals, sessions.

    Exits 0 when every promised row was tested and held, 1 when one was violated, 2 when something is missing.
    """
    return make_table(_wishes(Proposal.KIP_273, systems, runtime, budget, seed, fresh, results))
