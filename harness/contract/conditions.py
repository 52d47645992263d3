"""Promises that hold only with certain settings of the servers, or with certain options of the system.

The standing of a guarantee, its conditions and its known issues are those of the release, the settings and the options
in force.
"""

import msgspec

from fencepost.harness.contract.options import SystemOptions
from fencepost.harness.contract.releases import is_before, lacks_fix, numbers
from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.contract.system import System
from fencepost.harness.verdict import Choice, Condition, Guarantee, KnownIssue, Standing


def promises_in_force(
    system: System, version: str, settings: Settings, options: SystemOptions
) -> tuple[Guarantee, ...]:
    """The guarantees that this release is held to with these settings and options.

    A guarantee that they take away is only measured; its source then says why. Conditions that the options lift, and
    issues that this release or these options do not have, are left out.
    """
    promises = system.promises(version)
    reasons = {} if system.unpromised is None else system.unpromised(settings, options)
    return tuple(
        msgspec.structs.replace(
            g,
            standing=Standing.MEASURED if g.name in reasons else g.standing,
            source=f"not promised: {reasons[g.name]}" if g.name in reasons else g.source,
            conditions=tuple(
                _counted(one, options) for one in g.conditions if not _chosen(one.unless, settings, options)
            ),
            issues=tuple(
                issue
                for issue in g.issues
                if _affects(issue, version or system.releases.default) and not _chosen(issue.unless, settings, options)
            ),
        )
        for g in promises
    )


def _chosen(choice: Choice | None, settings: Settings, options: SystemOptions) -> bool:
    if choice is None:
        return False
    value = value_of(settings, choice.name) if choice.setting else str(getattr(options, choice.name))
    return value in choice.values


def _counted(condition: Condition, options: SystemOptions) -> Condition:
    """Return the condition with the number of nodes that may lose something, where an option decides it."""
    if condition.copies is None:
        return condition
    return msgspec.structs.replace(condition, most=(getattr(options, condition.copies) - 1) // 2)


def _affects(issue: KnownIssue, version: str) -> bool:
    """Decide whether this release has the issue; what is no number counts as new."""
    if issue.since and is_before(version, numbers(issue.since)):
        return False
    return not issue.before or lacks_fix(version, issue.before)


def value_of(settings: Settings, *keys: str) -> str:
    """The value of the first of these keys that is set for any server, in lower case; "" where none is set."""
    values = (str(own[key]).lower() for own in settings.values() for key in keys if key in own)
    return next(values, "")
