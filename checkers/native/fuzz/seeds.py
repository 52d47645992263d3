"""`seeds.py unpack FILE FOLDER`, `seeds.py pack FOLDER FILE`: one file of seeds in place of hundreds of small ones."""

import hashlib
import sys
from pathlib import Path


def unpack(file: Path, folder: Path) -> None:
    data = file.read_bytes() if file.exists() else b""
    while data:
        seed, data = data[1 : data[0] + 1], data[data[0] + 1 :]
        (folder / hashlib.sha1(seed).hexdigest()).write_bytes(seed)


def pack(folder: Path, file: Path) -> None:
    seeds = sorted(path.read_bytes() for path in folder.iterdir())
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"".join(bytes([len(seed)]) + seed for seed in seeds if seed))


if __name__ == "__main__":
    given, into = Path(sys.argv[2]), Path(sys.argv[3])
    pack(given, into) if sys.argv[1] == "pack" else unpack(given, into)
