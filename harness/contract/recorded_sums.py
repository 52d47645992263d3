"""The files that hold the checksums of known releases: read, added to, never overwritten.

A released file does not change. So a sum that differs from the record is reported, and the record stays as it is until
a person has looked.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fencepost.harness.base.errors import MachineError
from fencepost.harness.contract import releases


def read_sums(file: Path) -> dict[str, str]:
    """Read every `"name" = "sum"` of the file."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    pairs = (line.split(" = ") for line in lines if line.startswith('"'))
    return {name.strip('"'): content.strip('"') for name, content in pairs}


def record_sums(
    file: Path, table: str, heading: str, wanted: Sequence[str], find: Callable[[str], Mapping[str, str]]
) -> int:
    """Add the sums of the wanted releases to the file.

    Args:
        find: gives the sums of one release by file name; may raise MachineError, and the release is then left out.

    Returns:
        The exit status of a command: 0, or 1 when a release is missing or a sum differs from the record.
    """
    sums: dict[str, str] = {}
    missing = 0
    for release in wanted:
        try:
            sums |= find(release)
        except MachineError as error:
            missing = 1
            print(f"left out: {error.message}", file=sys.stderr)
    recorded = read_sums(file)
    changed = [name for name, content in sums.items() if differs("a sum", name, recorded.get(name, content), content)]
    if changed:
        return 1
    merged = {**recorded, **sums}
    lines = [f'"{name}" = "{merged[name]}"' for name in sorted(merged, key=_natural)]
    file.write_text("\n".join([f"# {heading}", f"[{table}]", *lines, ""]), encoding="utf-8")
    print(f"{file}: {len(merged)} sums, {len(merged) - len(recorded)} of them new")
    return missing


def record_module_sums(file: Path, module: str, releases: Sequence[str]) -> int:
    """Record what go.sum says of these releases of a Go module, or check the recorded ones again; see `record_sums`."""

    def module_sum(release: str) -> dict[str, str]:
        with tempfile.TemporaryDirectory() as folder:
            command = ["go", "mod", "download", "-json", f"{module}@v{release}"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
        answer = json.loads(done.stdout)
        if "Sum" not in answer:
            raise MachineError(f"{module} {release}: {answer.get('Error')}")
        return {release: answer["Sum"]}

    heading = f"What go.sum says of {module}; written by tools/record_sums.py."
    return record_sums(file, "sums", heading, releases or list(read_sums(file)), module_sum)


def differs(what: str, name: str, recorded: object, content: object) -> bool:
    """Whether the content differs from the record; prints a line if so."""
    if recorded != content:
        print(f"{name}: {what} is recorded as {recorded}, now it is {content}", file=sys.stderr)
    return recorded != content


def _natural(name: str) -> tuple[object, ...]:
    """A sort key: by number where the name is a release, by letter otherwise."""
    return (0, *releases.numbers(name)) if name.replace(".", "").isdigit() else (1, name)
