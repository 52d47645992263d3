"""Recording the jars of releases and the SHA-256 of each jar, in the file that `server_jars` reads."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from fencepost.harness.contract.recorded_sums import differs
from fencepost.harness.contract.releases import in_order
from fencepost.harness.java.server_jars import ServerJars, file_name
from fencepost.harness.runtime.artifacts import maven, sha256_of, tool


def record_jars(server: ServerJars, wanted: Sequence[str]) -> int:
    """Record these releases, or check the recorded ones again; returns the exit status of the command."""
    consist: dict[str, list[str]] = dict(server.tables["releases"])
    sums: dict[str, str] = dict(server.tables["sha256"])
    differing = 0
    for release in wanted or list(consist):
        left_out = [*server.left_out.get("", ()), *server.left_out.get(release, ())]
        jars = _jars(list(server.roots(release)), left_out)
        differing += differs("a list of jars", release, consist.get(release, list(jars)), list(jars))
        for coordinate, content in jars.items():
            name = file_name(coordinate)
            differing += differs("a sum", name, sums.setdefault(name, content), content)
        consist[release] = list(jars)
    if differing:
        return 1
    heading = f"What the known releases of {server.title} consist of, and the SHA-256 of each jar"
    lines = [f"# {heading}; written by tools/record_sums.py.", "[releases]"]
    for release in in_order(consist):
        lines += [f'"{release}" = [', *(f'    "{coordinate}",' for coordinate in consist[release]), "]"]
    lines += ["", "[sha256]", *(f'"{name}" = "{sums[name]}"' for name in sorted(sums)), ""]
    server.file.write_text("\n".join(lines), encoding="utf-8")
    print(f"{server.file}: {len(consist)} releases, {len(sums)} sums")
    return 0


def _jars(roots: list[str], left_out: Sequence[str]) -> dict[str, str]:
    """The sum of each jar by its coordinates, with the versions that Maven chooses; Ivy would choose some others."""
    coordinates = _settled(roots, left_out)
    sums = {jar.name: sha256_of(jar) for jar in maven.jars(coordinates, exclude=maven.EVERYTHING)}
    return {coordinate: sums[file_name(coordinate)] for coordinate in coordinates}


def _settled(roots: list[str], left_out: Sequence[str]) -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pom.xml").write_text(maven.pom_of(roots, left_out), encoding="utf-8")
        flags = ["-q", "-B", "-DincludeScope=runtime", f"-DoutputFile={folder / 'list'}", "dependency:list"]
        resolve = tool.Command(argv=["mvn", *flags], timeout_s=600, cwd=folder)
        tool.run(resolve, what=f"resolving {', '.join(roots)}", hint="see mvn")
        lines = (folder / "list").read_text(encoding="utf-8").splitlines()
    parts = (line.strip().split(" ")[0].split(":") for line in lines if ":jar:" in line)
    # A jar with a classifier has a sixth part: code for one kind of processor, without which servers use Java's own.
    settled = sorted(f"{part[0]}:{part[1]}:{part[3]}" for part in parts if len(part) == 5)
    return [*roots, *(coordinate for coordinate in settled if coordinate not in roots)]
