"""Numbers that workloads take: each says where it must lie, so that a run never fails on one after its start."""

from typing import get_args, get_type_hints

import pytest

from fencepost.harness.base.options import Duration
from fencepost.harness.plugins import registry


@pytest.mark.parametrize("name", registry.WORKLOADS)
def test_every_number_of_a_workload_has_a_bound(name: str) -> None:
    hints = get_type_hints(type(registry.workload(name).options()), include_extras=True)
    for option, hint in hints.items():
        kind, (meta, *_) = hint.__origin__, hint.__metadata__
        if {int, float, Duration} & {kind, *get_args(kind)}:
            assert meta.ge is not None or meta.gt is not None, f"{name}: {option}"
