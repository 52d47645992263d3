"""Recording the jars of Kafka's releases and the SHA-256 of each jar; releases share jars."""

import tempfile
import tomllib
from pathlib import Path

from fencepost.harness.runtime.artifacts import maven, sha256_of, tool
from fencepost.harness.systems.contract.recorded_sums import differs
from fencepost.harness.systems.contract.releases import in_order
from fencepost.harness.systems.kafka.server.versions import NEVER_PUBLISHED, SUMS, file_name, roots


def record(releases: list[str]) -> int:
    """Record these releases, or check the recorded ones again; returns the exit status of the command."""
    with SUMS.open("rb") as opened:
        recorded = tomllib.load(opened)
    consist: dict[str, list[str]] = dict(recorded["releases"])
    sums: dict[str, str] = dict(recorded["sha256"])
    differing = 0
    for release in releases or list(consist):
        jars = _jars(release)
        differing += differs("a list of jars", release, consist.get(release, list(jars)), list(jars))
        for coordinate, content in jars.items():
            name = file_name(coordinate)
            differing += differs("a sum", name, sums.setdefault(name, content), content)
        consist[release] = list(jars)
    if differing:
        return 1
    lines = ["# What the known Kafkas consist of, and the SHA-256 of each jar; written by tools/record_sums.py."]
    lines.append("[releases]")
    for release in in_order(consist):
        lines += [f'"{release}" = [', *(f'    "{coordinate}",' for coordinate in consist[release]), "]"]
    lines += ["", "[sha256]", *(f'"{name}" = "{sums[name]}"' for name in sorted(sums)), ""]
    SUMS.write_text("\n".join(lines), encoding="utf-8")
    print(f"{SUMS}: {len(consist)} releases, {len(sums)} sums")
    return 0


def _jars(release: str) -> dict[str, str]:
    """The sum of each jar by its coordinates, with the versions that Maven chooses; Ivy would choose some others."""
    coordinates = _settled(roots(release), NEVER_PUBLISHED.get(release, ()))
    sums = {jar.name: sha256_of(jar) for jar in maven.jars(coordinates, exclude=maven.EVERYTHING)}
    return {coordinate: sums[file_name(coordinate)] for coordinate in coordinates}


def _settled(wanted: list[str], exclude: tuple[str, ...]) -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pom.xml").write_text(maven.pom_of(wanted, exclude), encoding="utf-8")
        flags = ["-q", "-B", "-DincludeScope=runtime", f"-DoutputFile={folder / 'list'}", "dependency:list"]
        resolve = tool.Command(argv=["mvn", *flags], timeout_s=600, cwd=folder)
        tool.run(resolve, what=f"resolving {', '.join(wanted)}", hint="see mvn")
        lines = (folder / "list").read_text(encoding="utf-8").splitlines()
    parts = (line.strip().split(" ")[0].split(":") for line in lines if ":jar:" in line)
    settled = sorted(f"{group}:{artifact}:{version}" for group, artifact, _, version, _ in parts)
    return [*wanted, *(coordinate for coordinate in settled if coordinate not in wanted)]
