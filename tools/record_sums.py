"""Record what the known releases consist of: `python -m tools.record_sums etcd|zookeeper [RELEASE...]`.

Named releases are added to those that are recorded; without names, the recorded ones are asked for again. What differs
from the record is said and the record left as it is: a released file does not change, so a person has to look.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.errors import MachineError
from harness.runtime.artifacts import maven, sha256_of
from harness.systems import releases
from harness.systems.etcd import versions as etcd
from harness.systems.zookeeper import versions as zookeeper


def _etcd(release: str) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        command = ["go", "mod", "download", "-json", f"{etcd.MODULE}@v{release}"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    answer = json.loads(done.stdout)
    if "Sum" not in answer:
        raise MachineError(f"etcd {release}: {answer.get('Error')}")
    return {release: answer["Sum"]}


def _zookeeper(release: str) -> dict[str, str]:
    return {jar.name: sha256_of(jar) for jar in maven.jars(zookeeper.coordinates(release), exclude=maven.EVERYTHING)}


def _record(file: Path, table: str, found: Mapping[str, str], heading: str) -> int:
    recorded = _read(file)
    differing = [name for name, content in found.items() if recorded.get(name, content) != content]
    for name in differing:
        print(f"{name}: recorded {recorded[name]}, found {found[name]}", file=sys.stderr)
    if differing:
        return 1
    merged = {**recorded, **found}
    lines = [f'"{name}" = "{merged[name]}"' for name in sorted(merged, key=_natural)]
    file.write_text("\n".join([f"# {heading}", f"[{table}]", *lines, ""]), encoding="utf-8")
    print(f"{file}: {len(merged)} sums, {len(merged) - len(recorded)} of them new")
    return 0


def _read(file: Path) -> dict[str, str]:
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    pairs = (line.split(" = ") for line in lines if line.startswith('"'))
    return {name.strip('"'): content.strip('"') for name, content in pairs}


def _natural(name: str) -> tuple[object, ...]:
    """By number where the name is a release, by letter otherwise."""
    return (0, *releases.numbers(name)) if name.replace(".", "").isdigit() else (1, name)


def main(arguments: list[str]) -> int:
    system = arguments[0] if arguments else ""
    find: Callable[[str], dict[str, str]]
    if system == "etcd":
        file, table, find = etcd.SUMS, "sums", _etcd
        heading = f"What go.sum says of {etcd.MODULE}; written by tools/record_sums.py."
        recorded = list(_read(file))
    elif system == "zookeeper":
        file, table, find = zookeeper.SUMS, "sha256", _zookeeper
        heading = "SHA-256 of the jars of the known ZooKeepers; written by tools/record_sums.py."
        recorded = [name[10:-4] for name in _read(file) if re.fullmatch(r"zookeeper-[\d.]+\.jar", name)]
    else:
        raise SystemExit(__doc__)
    found: dict[str, str] = {}
    missing = 0
    for release in arguments[1:] or recorded:
        try:
            found |= find(release)
        except MachineError as error:
            missing = 1
            print(f"passed over: {error.message}", file=sys.stderr)
    return _record(file, table, found, heading) or missing


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
