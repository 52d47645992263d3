"""What the numbers of one version must have to do with each other."""

from fencepost.checkers.findings.words import shown
from fencepost.checkers.storage.kv.acts import Act, Dialect


def impossible(made: int, act: Act, names: Dialect) -> str | None:
    """Why one answer's numbers cannot be of one version."""
    first, created, version, children = names.first_version, act.created, act.version, act.children
    if created is not None and created > made:
        return f"It tells of {names.created} {shown(created)}, beyond {shown(made)}, when it was last written."
    if version is not None and version < first:
        return f"It tells of version {version}; the first one is {first}."
    if version is not None and version - first > made - (created or 1):
        return f"It tells of version {version}: more writes than there can be up to {shown(made)}."
    if version is not None and created is not None and (created == made) != (version == first):
        return f"It tells of version {version}, created at {shown(created)} and written at {shown(made)}."
    if children is not None and (children < (created or 0) or (act.at is not None and children > act.at)):
        return f"It tells of pzxid {shown(children)}, before the key was created or beyond the answer."
    return None
