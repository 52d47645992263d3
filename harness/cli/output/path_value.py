"""Paths as commands take them."""

from pathlib import Path
from typing import Any

import click


class PathValue(click.Path):
    """A path; an empty text (of a variable that is not set) is refused, not taken for the current folder."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(path_type=Path, **settings)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("it is empty", param, ctx)
        return super().convert(value, param, ctx)
