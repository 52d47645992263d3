"""The command of a node that is to be another release: only what differs between the releases changes."""

import pytest

from fencepost.harness.faults.version_change import Entangled, changed
from fencepost.harness.runtime.node import NodeSpec


def _spec(*argv: str, **files: str) -> NodeSpec:
    return NodeSpec(name="n1", argv=argv, listeners={}, files=files, data_files={"myid": "1"})


def test_only_what_differs_between_the_releases_changes_in_a_command() -> None:
    now = _spec("/old", "--state=existing", "--join=n3", cfg="a")
    found = changed(now, _spec("/old", "--state=new", cfg="a"), _spec("/new", "--state=new", cfg="b"), image="i")
    assert found.argv == ("/new", "--state=existing", "--join=n3")
    assert (found.files, found.image, found.data_files) == ({"cfg": "b"}, "i", {"myid": "1"})


def test_files_come_and_go_with_the_releases_that_have_them() -> None:
    old, new = _spec("/s", log4j="x"), _spec("/s", logback="y")
    assert changed(_spec("/s", log4j="x", mine="z"), old, new).files == {"logback": "y", "mine": "z"}
    assert changed(old, old, _spec("/s", "-a", "-b")).argv == ("/s", "-a", "-b")


@pytest.mark.parametrize(
    ("now", "old", "new"),
    [
        (_spec("/other"), _spec("/old"), _spec("/new")),
        (_spec("/old", "-x"), _spec("/old"), _spec("/new", "-y")),
        (_spec("/s", cfg="mine"), _spec("/s", cfg="a"), _spec("/s", cfg="b")),
    ],
)
def test_what_somebody_else_changed_as_well_is_told(now: NodeSpec, old: NodeSpec, new: NodeSpec) -> None:
    with pytest.raises(Entangled, match="changed by another fault"):
        changed(now, old, new)
