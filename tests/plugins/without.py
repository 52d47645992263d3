"""The plug-ins of one test, taken away after it."""

import contextlib
import sys
from collections.abc import Iterator

import pytest

# The help of `run` names what there is when it is first imported: not what one test brought.
import fencepost.harness.cli.run  # noqa: F401
from fencepost.harness.base import offers


@contextlib.contextmanager
def plugins_of_this_test_alone() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(offers.VARIABLE, "")
        patch.setattr(sys, "path", [*sys.path])
        offers.forget()
        yield
    offers.forget()
