"""What a page carries inside it: style and script with their hashes, and data that a script reads."""

import base64
import hashlib
from importlib import resources
from typing import Any

import msgspec
from markupsafe import Markup


def asset(name: str) -> str:
    return (resources.files("fencepost.harness.report.page") / "templates" / name).read_text(encoding="utf-8")


def content_hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode("ascii")


def json_for_script(data: Any) -> Markup:
    """JSON that cannot end the script element it stands in, whatever its strings hold."""
    plain = msgspec.json.encode(data).decode()
    for character in ("<", ">", "&", "\u2028", "\u2029"):
        plain = plain.replace(character, f"\\u{ord(character):04x}")
    return Markup(plain)
