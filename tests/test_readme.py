"""README's map of the tree is what the rooms say of themselves."""

from tools import rooms


def test_the_map_is_up_to_date() -> None:
    assert rooms.BEGIN in rooms.README.read_text(encoding="utf-8")
    assert rooms.readme_with_tree() == rooms.README.read_text(encoding="utf-8"), "run: python -m tools.rooms --write"
