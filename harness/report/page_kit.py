"""Pages: one self-contained HTML file each, with one style, and a content policy that lets nothing else run.

Every page of fencepost is made here: of a run, of many runs, of a night, of a gate. A template begins with
`{% extends "frame.html.j2" %}` and fills the block `body`.
"""

import base64
import hashlib
from collections.abc import Callable
from importlib import resources
from typing import Any, Final

import jinja2
from markupsafe import Markup

_REPORT: Final = "fencepost.harness.report"


class PageKit:
    """The templates of a package; `style` comes behind that of all pages, `filters` are those of its templates."""

    def __init__(self, package: str = _REPORT, style: str = "", **filters: Callable[..., Any]) -> None:
        packages = dict.fromkeys((package, _REPORT))
        self.environment = jinja2.Environment(
            loader=jinja2.ChoiceLoader([jinja2.PackageLoader(name, "templates") for name in packages]),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.environment.filters.update(filters)
        self._style = asset("style.css") + style

    def part(self, template: str, **values: Any) -> Markup:
        """Return a part of a page."""
        return Markup(self.environment.get_template(f"{template}.html.j2").render(values))

    def page(self, template: str, *, title: str, script: str = "", refresh_s: int = 0, **values: Any) -> str:
        """Return a whole page; it runs `script` alone, and asks for itself again after `refresh_s` seconds."""
        may_run = f"'{content_hash(script)}'" if script else "'none'"
        made = self.part(
            template,
            title=title,
            refresh_s=refresh_s,
            style=Markup(self._style),  # our own files
            script=Markup(script),
            content_policy=f"default-src 'none'; img-src data:; style-src '{content_hash(self._style)}'; "
            f"script-src {may_run}",
            **values,
        )
        return str(made)


def asset(name: str) -> str:
    """Return the text of a file beside the report's templates."""
    return (resources.files(_REPORT) / "templates" / name).read_text(encoding="utf-8")


def content_hash(content: str) -> str:
    """Return the hash by which a content policy names a script or a style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode("ascii")
