"""TOML and JSON that others wrote: whatever the text, parsing it gives a value or raises ValueError."""

import json
import sys
import tomllib
from typing import Any, Final

_TOO_DEEP: Final = "it is nested too deeply"


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML; raises ValueError with the reason, also for deep nesting and numbers that are too long."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError:
        # Python converts no longer integers, and does not say where the number stands.
        raise ValueError(f"a number of more than {sys.get_int_max_str_digits()} digits") from None


def parse_json(text: str) -> Any:
    """Parse JSON; raises ValueError with the reason, also for deep nesting."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
