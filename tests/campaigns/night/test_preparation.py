"""What this machine cannot run: said once before a night begins, and refused where nothing else is left."""

import pytest

from fencepost.campaigns.night.cells import NightCell
from fencepost.campaigns.night.preparation import PreparedBuilds, in_words, refuse_if_none_is_left
from fencepost.harness.base.errors import ExitCode, MachineError
from tests.campaigns.night.made import cell

WHY = "building etcd v3.5.27 from its Go module: 404 Not Found"
CELLS = (cell("canary", canary=True), cell("a"), cell("b", required=True), cell("c"))


def prepared(**refusals: str) -> PreparedBuilds:
    return PreparedBuilds(builds={}, refusals=refusals)


@pytest.mark.parametrize("refused", [{"a": WHY, "b": WHY, "c": WHY}, {"a": WHY, "b": WHY, "c": "no engine"}])
def test_a_night_whose_every_cell_is_refused_does_not_begin(refused: dict[str, str]) -> None:
    with pytest.raises(MachineError) as caught:
        refuse_if_none_is_left(CELLS, prepared(**refused))
    assert caught.value.exit_code is ExitCode.USAGE
    assert caught.value.message.count(WHY) == 1 and "a, b" in caught.value.message


@pytest.mark.parametrize("refused", [{}, {"canary": WHY}, {"a": WHY}, {"a": WHY, "b": WHY, "canary": WHY}])
def test_a_night_in_which_a_cell_is_left_begins_and_names_the_others(refused: dict[str, str]) -> None:
    refuse_if_none_is_left(CELLS, prepared(**refused))
    lines = in_words(CELLS, prepared(**refused))
    assert len(lines) == (1 if refused else 0)
    assert all(name in lines[0] for name in refused)


@pytest.mark.parametrize("cells", [(), CELLS[:1]])
def test_a_shard_without_cells_of_its_own_begins(cells: tuple[NightCell, ...]) -> None:
    refuse_if_none_is_left(cells, prepared(canary=WHY))
