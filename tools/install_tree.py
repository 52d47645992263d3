"""Make the tree importable from its environment, and `fencepost` a command in it, without building anything.

An editable install by the build backend would build the native core a second time and hide a stale one.
"""

import stat
import sys
import sysconfig
import tomllib
from pathlib import Path

tree = Path(__file__).resolve().parent.parent
purelib = Path(sysconfig.get_paths()["purelib"])
(purelib / "fencepost-tree.pth").write_text(f"{tree}\n", encoding="utf-8")
# The metadata that `fencepost --version` reads, and the entry points by which pytest knows the plugin.
project = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]
version = project["version"]
info = purelib / f"fencepost-{version}.dist-info"
for old in purelib.glob("fencepost-*.dist-info"):
    for file in old.iterdir():
        file.unlink()
    old.rmdir()
info.mkdir()
(info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: fencepost\nVersion: {version}\n", encoding="utf-8")
sections = [
    f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
    for group, entries in project["entry-points"].items()
]
(info / "entry_points.txt").write_text("\n".join(sections), encoding="utf-8")
command = Path(sys.executable).parent / "fencepost"
command.write_text(
    f"#!{sys.executable}\nimport sys\nfrom fencepost.harness.cli import main\nsys.exit(main())\n", encoding="utf-8"
)
command.chmod(command.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
