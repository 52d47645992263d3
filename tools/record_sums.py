"""Record what the known releases consist of: `python -m tools.record_sums etcd|zookeeper|kafka [RELEASE...]`.

Named releases are added to those that are recorded; without names, the recorded ones are asked for again. What differs
from the record is said and the record left as it is: a released file does not change, so a person has to look.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

from fencepost.harness.base.errors import MachineError
from fencepost.harness.runtime.artifacts import maven, sha256_of, tool
from fencepost.harness.systems.contract import releases
from fencepost.harness.systems.etcd import versions as etcd
from fencepost.harness.systems.kafka.server import versions as kafka
from fencepost.harness.systems.zookeeper import versions as zookeeper


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


def _kafka(release: str) -> dict[str, str]:
    """Each jar by its coordinates, as Maven settles their versions; Ivy would settle some otherwise."""
    found = _settled(kafka.roots(release), kafka.NEVER_PUBLISHED.get(release, ()))
    sums = {jar.name: sha256_of(jar) for jar in maven.jars(found, exclude=maven.EVERYTHING)}
    return {coordinate: sums[kafka.file_name(coordinate)] for coordinate in found}


def _settled(roots: list[str], exclude: tuple[str, ...]) -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pom.xml").write_text(maven.pom_of(roots, exclude), encoding="utf-8")
        flags = ["-q", "-B", "-DincludeScope=runtime", f"-DoutputFile={folder / 'list'}", "dependency:list"]
        tool.run(["mvn", *flags], what=f"resolving {', '.join(roots)}", timeout_s=600, hint="see mvn", cwd=folder)
        lines = (folder / "list").read_text(encoding="utf-8").splitlines()
    found = (line.strip().split(" ")[0].split(":") for line in lines if ":jar:" in line)
    settled = sorted(f"{group}:{artifact}:{version}" for group, artifact, _, version, _ in found)
    return [*roots, *(coordinate for coordinate in settled if coordinate not in roots)]


def _record_kafka(file: Path, asked: list[str]) -> int:
    """Two tables: what each release consists of, and the sum of each jar, which releases share."""
    with file.open("rb") as opened:
        recorded = tomllib.load(opened)
    consist: dict[str, list[str]] = dict(recorded["releases"])
    sums: dict[str, str] = dict(recorded["sha256"])
    differing = 0
    for release in asked or list(consist):
        found = _kafka(release)
        differing += _told("a list of jars", release, consist.get(release, list(found)), list(found))
        for coordinate, content in found.items():
            name = kafka.file_name(coordinate)
            differing += _told("a sum", name, sums.setdefault(name, content), content)
        consist[release] = list(found)
    if differing:
        return 1
    lines = ["# What the known Kafkas consist of, and the SHA-256 of each jar; written by tools/record_sums.py."]
    lines.append("[releases]")
    for release in releases.in_order(consist):
        lines += [f'"{release}" = [', *(f'    "{coordinate}",' for coordinate in consist[release]), "]"]
    lines += ["", "[sha256]", *(f'"{name}" = "{sums[name]}"' for name in sorted(sums)), ""]
    file.write_text("\n".join(lines), encoding="utf-8")
    print(f"{file}: {len(consist)} releases, {len(sums)} sums")
    return 0


def _told(what: str, name: str, recorded: object, found: object) -> int:
    if recorded != found:
        print(f"{name}: {what} is recorded as {recorded}, found {found}", file=sys.stderr)
    return int(recorded != found)


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
    elif system == "kafka":
        return _record_kafka(kafka.SUMS, arguments[1:])
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
