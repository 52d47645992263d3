"""`fencepost campaign`: the flags made values, a night carried out or shards merged, and what came of it in words."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from fencepost.campaigns.commands.carrying_out import carry_out, night_options, say_end, wishes_of
from fencepost.campaigns.night.cells import cells_of, shard_of
from fencepost.campaigns.night.documents import PAGE, document, write_documents
from fencepost.campaigns.night.file import Campaign, read_campaign
from fencepost.campaigns.night.merge import merged_night, shards_below
from fencepost.campaigns.night.night import Night
from fencepost.campaigns.night.outcome import NightOutcome, outcome
from fencepost.campaigns.night.session import NIGHTS, NightWishes
from fencepost.campaigns.night.strategy import Strategy
from fencepost.campaigns.night.telling import class_in_words, counted, sign_of
from fencepost.harness.base.errors import UsageError
from fencepost.harness.cli.output.help import Documented, HelpExample, PathValue
from fencepost.harness.findings.known_issues import TrackedIssue, read_known_issues

_MERGE: Final = "merge"
_NIGHT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_REASONS_MAX: Final = 20
EXAMPLES = (
    HelpExample(
        "fencepost campaign docs/how-to/nightly.toml --budget 10m",
        "A small night of the example system, etcd and ZooKeeper",
    ),
    HelpExample(
        "fencepost campaign docs/how-to/nightly.toml --budget 10m --resume", "Go on where a night was stopped or killed"
    ),
    HelpExample("fencepost campaign merge shard-1 shard-2", "Make one night of two shards"),
)


def run_night(path: Path, wishes: NightWishes, *, resume: bool, as_json: bool) -> int:
    """Carry out a campaign; returns the night's exit code."""
    campaign = read_campaign(path)
    checked = cells_of(campaign)
    cells = shard_of(checked.cells, wishes.shard, wishes.shards)
    strategy = Strategy(campaign.content.name, campaign, checked, cells, _known_issues(campaign))
    night = carry_out(strategy, wishes, resume=resume)
    result = outcome(night)
    _say(night, result, strategy.folder, as_json=as_json)
    return int(result.exit_code)


def merge(folders: tuple[Path, ...], results: Path, night_name: str, *, as_json: bool) -> int:
    """Merge shards into one night with files of its own; returns its exit code."""
    if not folders:
        raise UsageError("there is nothing to merge", hint="fencepost campaign merge FOLDER..., one for each shard")
    shards = shards_below(folders, night_name)
    merged_night(shards, Path.cwd())  # refused before anything is written
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    home = results.resolve() / NIGHTS / shards[0][1].campaign / f"{stamp}-merged"
    home.mkdir(parents=True, exist_ok=True)
    night = merged_night(shards, home)
    result = write_documents(night, home, warn=lambda text: click.echo(f"warning: {text}", err=True))
    _say(night, result, home, as_json=as_json)
    return int(result.exit_code)


def _known_issues(campaign: Campaign) -> tuple[TrackedIssue, ...]:
    name = campaign.content.known_issues
    if not name:
        return ()
    path = campaign.folder / name
    if not path.is_file():
        raise campaign.source.error(["known_issues"], f"there is no file {path}")
    return read_known_issues(path)


def _say(night: Night, result: NightOutcome, folder: Path, *, as_json: bool) -> None:
    say_end(night, folder / PAGE, _lines(night, result), document(night, result) if as_json else None)


def _lines(night: Night, result: NightOutcome) -> Iterator[str]:
    for each in night.cells:
        more = counted(each)
        yield f"  {sign_of(each)} {class_in_words(each):18}{each.cell.name}{f' ({more})' if more else ''}"
    yield f"{'green' if result.is_green else 'RED'}: {result.sentence}"
    yield from (f"  - {reason.text}" for reason in result.reasons[:_REASONS_MAX])
    if len(result.reasons) > _REASONS_MAX:
        yield f"  - {len(result.reasons) - _REASONS_MAX} more: {PAGE} has all"


def _shard(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if match is None or int(match[1]) > int(match[2]):
        raise UsageError(f"--shard {text!r}: expected a number of a total", hint="such as 2/8: the second of eight")
    return int(match[1]), int(match[2])


@click.command("campaign", cls=Documented, examples=EXAMPLES)
@click.argument("paths", nargs=-1, required=True, type=PathValue(), metavar="FILE | merge FOLDER...")
@click.option(
    "--shard",
    default="1/1",
    metavar="NUMBER/TOTAL",
    help="One share of the cells, such as 2/8. Canaries are in every share. Default: all cells.",
)
@click.option(
    "--night",
    default="",
    metavar="NAME",
    help="The name of the night, the same for all its shards. Default for shards: the UTC date of the noon before.",
)
@night_options
def command(
    paths: tuple[Path, ...], shard: str, night: str, resume: bool, as_json: bool, results: Path, **flags: Any
) -> int:
    """Run a night of plans in a given time, or merge shards.

    FILE is a campaign: axes of plans, cells by hand, and canaries, which must be invalid. Its runs, its page and its
    register stand in results/nights. `merge` makes one night of the folders of shards, wherever they ran. Given
    folders of results, it takes the night that --night names, or the newest one.

    Exits 0 green, 1 for a violation that is not known or a known issue that has expired, 2 when anything is missing (a
    canary, coverage, a lost run, a required cell, a shard), 130 stopped twice, 254 refused before the start.
    """
    if str(paths[0]) == _MERGE:
        return merge(paths[1:], results, night, as_json=as_json)
    if len(paths) > 1:
        raise UsageError(f"one campaign file is carried out, and {len(paths)} paths were given")
    number, total = _shard(shard)
    if night and not _NIGHT.fullmatch(night):
        raise UsageError(f"--night {night!r}: expected letters, digits, '.', '_' and '-'", hint="such as 2026-11-25")
    again = ["campaign", str(paths[0]), *["--shard", shard] * (total > 1), *["--night", night] * bool(night)]
    wishes = wishes_of(again, results=results, shard=number, shards=total, night=night, **flags)
    return run_night(paths[0], wishes, resume=resume, as_json=as_json)
