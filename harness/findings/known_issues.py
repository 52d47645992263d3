"""known-issues.toml: violations that somebody has taken on, each for a limited time.

    format = 1

    [[issue]]
    fingerprint = "zookeeper:fresh-after-sync:stale-read:read+change"   # as verdict.json has it
    versions = ["3.9.5"]             # releases that it is known in; none: every release
    link = "https://issues.example/ZOOKEEPER-1675"
    owner = "coordination team"
    expires = 2027-01-31             # a date of TOML: from the day after the night is red

Without its last part, the effects of faults, a fingerprint covers the violation under any of them.

A run is `known` when every fingerprint that decides it belongs to an issue in force: a known issue hides no second one.
An issue whose day has passed covers nothing and turns the night red, whether it shows or not.
"""

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from fencepost.harness.base.toml_file import TomlFile, read_toml
from fencepost.harness.verdict.fingerprint import violation_of

FORMAT: Final = 1
_PARTS: Final = 4
_HINT: Final = "docs/how-to/nights.md shows a file of known issues"


class TrackedIssue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One violation that is known: its fingerprint, the releases it is known in, who owns it and until when."""

    fingerprint: str
    link: str
    owner: str
    expires: datetime.date
    versions: tuple[str, ...] = ()
    note: str = ""

    @property
    def subject(self) -> str:
        return self.fingerprint

    @property
    def system(self) -> str:
        return self.fingerprint.split(":")[0]

    @property
    def guarantee(self) -> str:
        return self.fingerprint.split(":")[1]

    def is_about(self, fingerprint: str) -> bool:
        """Whether this fingerprint is the issue's; an issue without effects of faults is about all of them."""
        return self.fingerprint in (fingerprint, violation_of(fingerprint))

    def is_expired(self, today: datetime.date) -> bool:
        """Whether its last day has passed."""
        return today > self.expires

    def covers(self, fingerprint: str, version: str, today: datetime.date) -> bool:
        """Whether this fingerprint of a run of `version` is this issue, and the issue is in force."""
        return (
            self.is_about(fingerprint)
            and (not self.versions or version in self.versions)
            and not self.is_expired(today)
        )


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int = FORMAT
    issue: tuple[TrackedIssue, ...] = ()


def read_known_issues(path: Path) -> tuple[TrackedIssue, ...]:
    """Read a file of known issues; raises UsageError that names file, line, key and remedy."""
    source = read_toml(path, hint=_HINT)
    file = source.convert(_File)
    if file.format != FORMAT:
        raise source.error(["format"], f"this fencepost reads format {FORMAT}, not {file.format}")
    check_issues(source, "issue", file.issue)
    return file.issue


def check_issues(source: TomlFile, table: str, issues: Sequence[TrackedIssue]) -> None:
    """Raise UsageError for a table of the file that is no issue, that nobody owns, or that stands there twice."""
    for number, issue in enumerate(issues):
        where: list[str | int] = [table, number]
        parts = issue.fingerprint.split(":")
        if issue.subject == issue.fingerprint and (not all(parts) or len(parts) < _PARTS):
            raise source.error(
                [*where, "fingerprint"],
                f"{issue.fingerprint!r} is no fingerprint",
                "copy it from verdict.json: system:guarantee:anomaly:operations:effects",
            )
        for key in ("link", "owner"):
            if not getattr(issue, key).strip():
                raise source.error([*where, key], "it is empty", f"somebody must own an {table}, and say where")
        if any((issue.subject, issue.versions) == (other.subject, other.versions) for other in issues[:number]):
            raise source.error(where, f"the same {table} stands there before", "leave one of them out")


def uncovered(
    fingerprints: Sequence[str], version: str, issues: Sequence[TrackedIssue], today: datetime.date
) -> tuple[str, ...]:
    """The fingerprints that no issue in force covers."""
    return tuple(f for f in fingerprints if not any(issue.covers(f, version, today) for issue in issues))
