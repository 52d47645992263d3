"""The campaign file: what a night runs, as a person writes it in TOML.

    format = 1
    name = "nightly"                  # the folder of its nights, and the seeds of its runs, follow from it
    runs = 1                          # how often a night runs each cell at most, each time with another seed
    known_issues = "known.toml"       # relative to this file; see harness.findings.known_issues
    combine = "pairs"                 # every pair of values meets in some cell; "all": every combination

    [plan]                            # keys of a plan (`plan.toml`) that every cell has unless it says otherwise
    time_limit = "15s"

    [axes]                            # the values of a key of a plan, or tables that set several keys together
    workload = ["register", "set"]
    target = [{ system = "etcd", version = "3.5.1" }, { system = "zookeeper" }]

    [[exclude]]                       # combinations that no cell may be: a value or a list of values for each key
    system = "zookeeper"
    workload = "set"

    [[include]]                       # combinations that some cell must be, the rest chosen freely
    system = "etcd"
    workload = "register"

    [[required]]                      # the cells of the axes that a green night needs
    system = "etcd"

    [[draw]]                          # a key of a plan that each run draws from its own seed
    key = "nodes"
    values = [3, 5]

    [[draw]]                          # numbers: each order of magnitude is as likely
    key = "set.etcd.snapshot-count"
    from = 100
    to = 10000
    where = { system = "etcd" }       # the cells that it is about

    [[cell]]                          # a cell by hand: keys of a plan, and `name`, `required`, `runs`
    system = "etcd"
    nemesis = "kill:all"
    required = true

    [[cell]]                          # a canary: a cell that must be invalid with this anomaly
    canary = true
    anomaly = "lost-write"
    system = "example"
    workload = "set"
    nemesis = "kill:all"
    system_options = { defect = "forgets" }

A plan's `seed` stands in no campaign: each run has its own, derived from the night's.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from fencepost.campaigns.night.draws import DrawnKey, check_draws
from fencepost.harness.base.toml_file import TomlFile, read_toml

FORMAT: Final = 1
#: More runs of one cell fit into no night; the seed of each is looked at before the first one.
RUNS_MAX: Final = 10_000
_HINT: Final = "a campaign is a TOML file; docs/how-to/nightly.toml is one to begin with"
#: Keys of `[[cell]]` that are no keys of a plan.
CELL_KEYS: Final = ("name", "required", "canary", "anomaly", "control", "runs")


class CampaignFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file's content; tables of plan keys stay plain until they are merged into a cell's plan."""

    name: str
    format: int = FORMAT
    runs: int = 1
    known_issues: str = ""
    combine: Literal["pairs", "all"] = "pairs"
    plan: dict[str, Any] = {}
    axes: dict[str, list[Any]] = {}
    exclude: tuple[dict[str, Any], ...] = ()
    include: tuple[dict[str, Any], ...] = ()
    required: tuple[dict[str, Any], ...] = ()
    draw: tuple[DrawnKey, ...] = ()
    cell: tuple[dict[str, Any], ...] = ()


class Campaign(msgspec.Struct, frozen=True, kw_only=True):
    """A campaign file that was read: its content, its digest, and the file for messages."""

    content: CampaignFile
    source: TomlFile
    digest: str

    @property
    def folder(self) -> Path:
        """The folder to which paths in the file are relative."""
        return self.source.path.parent

    @classmethod
    def of_cells(cls, name: str, cells: Iterable[str]) -> "Campaign":
        """A campaign without a file, whose digest is that of its cells' ids."""
        text = "\n".join(cells)
        source = TomlFile(path=Path(name), text=text, data={})
        return cls(content=CampaignFile(name=name), source=source, digest=_digest(text))


def read_campaign(path: Path) -> Campaign:
    """Read a campaign file; raises UsageError that names file, line, key and remedy."""
    source = read_toml(path, hint=_HINT)
    content = source.convert(CampaignFile)
    if content.format != FORMAT:
        raise source.error(["format"], f"this fencepost reads format {FORMAT}, not {content.format}")
    if not content.name or not all(c.isalnum() or c in "-_." for c in content.name) or content.name[0] == ".":
        raise source.error(["name"], f"{content.name!r} cannot name a folder", "use letters, digits, hyphens and dots")
    if not 1 <= content.runs <= RUNS_MAX:
        raise source.error(["runs"], f"expected 1 to {RUNS_MAX:,}, got {content.runs!s:.20}")
    check_draws(content.draw, source)
    return Campaign(content=content, source=source, digest=_digest(source.text))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
