"""Lines of progress for the outer process."""

import json
import sys


def tell(topic: str, **fields: object) -> None:
    """One line on stdout; a closed pipe means that nobody listens any more."""
    try:
        sys.stdout.write(json.dumps({"topic": topic, **fields}) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = sys.stderr
