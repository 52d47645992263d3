"""README is short; the map of the tree is what the rooms say of themselves."""

from tests.docs.pages import README
from tools import rooms

_LINES_MAX = 90


def test_the_map_is_up_to_date() -> None:
    page = rooms.PAGE.read_text(encoding="utf-8")
    assert rooms.BEGIN in page
    assert rooms.page_with_tree() == page, "run: python -m tools.rooms --write"


def test_readme_is_short() -> None:
    lines = README.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= _LINES_MAX, f"README has {len(lines)} lines; move what is not for newcomers into docs/"
