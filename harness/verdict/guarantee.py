"""Guarantees: what a system is held to, on what condition, and which issue is known to break it.

A promise holds under conditions: a store that answers before its disks have a write promises nothing to those who lose
all disks. Conditions are about effects of faults on disks, over the whole run; `harness.judging.conditions` evaluates
them. Conditions on settings and options are there before a run (`harness.contract.conditions`).
"""

from enum import StrEnum
from typing import Final

import msgspec

from fencepost.harness.history import Disk, Effects


class Standing(StrEnum):
    """Who stands behind a guarantee.

    `PROMISED`: the maker, in the named source. `RELIED_UPON`: users build on it, the maker disclaims it. `MEASURED`:
    nobody; it is a figure.
    """

    PROMISED = "promised"
    RELIED_UPON = "relied-upon"
    MEASURED = "measured"


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """An option of the system (`-O`), or a setting of its servers (`--set`), with one of these values."""

    name: str
    values: tuple[str, ...]
    setting: bool = False

    @property
    def text(self) -> str:
        return f"{'--set' if self.setting else '-O'} {self.name}={' or '.join(self.values)}"


_LOSSES: Final = {
    Disk.UNSYNCED: "lose what they had not synced",
    Disk.DAMAGED: "have damaged disks",
}


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """A limit on what the faults of a whole run leave on disks: how many nodes may end up worse than before.

    `loss` is the least that counts: a node whose disk was damaged has lost what it had not synced, too.
    `role` names the nodes that are counted; None: those that vote, each electorate for itself.
    `most` is how many of them may lose it; None: a minority. `copies` is the option that says how many nodes have a
    copy, where not all have one: the minority is one of that number then. `unless` lifts the condition.
    """

    loss: Disk
    role: str | None = None
    most: int | None = None
    copies: str | None = None
    unless: Choice | None = None

    @property
    def text(self) -> str:
        """The condition as a clause: "at most a minority of the voters have damaged disks"."""
        most = "a minority" if self.most is None else str(self.most)
        copies = f", as -O {self.copies} counts them," if self.copies and self.most is None else ""
        return f"at most {most} of the {self.role or 'voter'}s{copies} {_LOSSES[self.loss]}"

    @property
    def rule(self) -> str:
        """The condition with the choice that lifts it."""
        return self.text + (f" (with {self.unless.text} it does not matter)" if self.unless else "")


#: No store promises anything where the disks of a majority return something else than was written.
MINORITY_DAMAGED: Final = Condition(loss=Disk.DAMAGED)


class Unmet(msgspec.Struct, frozen=True, kw_only=True):
    """A condition that a run did not keep to: the faults that broke it (their ids and events), and their nodes.

    `standing` is the one that the guarantee has where its conditions are met. `text` says all that in one sentence.
    """

    condition: str
    standing: Standing
    nodes: tuple[str, ...]
    faults: tuple[int, ...]
    events: tuple[int, ...]
    text: str


class KnownIssue(msgspec.Struct, frozen=True, kw_only=True):
    """An issue that is known to break a guarantee, and when: only there does it explain a finding.

    `before` are the first releases without it, one for each line of releases ("3.4.25", "3.5.8"); empty: every release
    has it. `since` is the first release that has it. `unless` is the choice under which it does not show. `needs` are
    the effects that some fault of the run must have had, at least.
    """

    text: str
    since: str = ""
    before: tuple[str, ...] = ()
    unless: Choice | None = None
    needs: Effects | None = None


class Guarantee(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a system is held to: `name` as `--require` takes it, with its standing and the source.

    The standing is in force while all `conditions` are met. `unmet` is the first that this run did not keep to; nobody
    stands behind the guarantee then. `known_issue` is one that always holds, or of which it was found that it holds
    here; `issues` are those of which that is to be found out.
    """

    name: str
    standing: Standing
    text: str
    source: str
    known_issue: str | None = None
    issues: tuple[KnownIssue, ...] = ()
    conditions: tuple[Condition, ...] = (MINORITY_DAMAGED,)
    unmet: Unmet | None = None


def under(guarantees: tuple[Guarantee, ...], *conditions: Condition) -> tuple[Guarantee, ...]:
    """Return the guarantees with these conditions beside their own."""
    return tuple(msgspec.structs.replace(g, conditions=(*g.conditions, *conditions)) for g in guarantees)
