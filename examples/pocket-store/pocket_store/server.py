"""The store: one process, one file. A write is answered once it is in the file, or earlier with `--sync late`.

Clients send one JSON object a line and get one back, with the same `id`:

    {"id": 1, "op": "read", "key": "a"}                            {"id": 1, "value": "x", "position": 7}
    {"id": 2, "op": "write", "key": "a", "value": "y"}             {"id": 2, "value": "y", "position": 8}
    {"id": 3, "op": "write", "key": "a", "value": "z", "if": 7}    {"id": 3, "error": "changed"}

`position` counts the writes; that of a read is the position of the key's last write, 0 for none. `if` makes a write
depend on it, `old` on the value. {"op": "list", "prefix": "s/"} answers {"keys": [...]}.
"""

import argparse
import asyncio
import json
import os
from pathlib import Path
from typing import Any

LATE_S = 30.0


class Store:
    def __init__(self, path: Path, *, late: bool) -> None:
        self.values: dict[str, tuple[str, int]] = {}
        self.position = 0
        self._late = late
        if path.exists():
            for line in path.read_text().splitlines(keepends=True):
                if line.endswith("\n"):  # a last line without its end was never answered
                    self._apply(*json.loads(line))
        self._file = path.open("a")

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["op"] == "list":
            return {"keys": [key for key in self.values if key.startswith(request["prefix"])]}
        value, position = self.values.get(request["key"], (None, 0))
        if request["op"] == "read":
            return {"value": value, "position": position}
        if request.get("if", position) != position or request.get("old", value) != value:
            return {"error": "changed"}
        self._apply(request["key"], request["value"])
        self._file.write(json.dumps([request["key"], request["value"]]) + "\n")
        if not self._late:
            self.sync()
        return {"value": request["value"], "position": self.position}

    def sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def _apply(self, key: str, value: str) -> None:
        self.position += 1
        self.values[key] = (value, self.position)


async def serve(address: str, port: int, data: Path, *, late: bool) -> None:
    store = Store(data / "pocket.log", late=late)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                request = json.loads(line)
                writer.write(json.dumps({"id": request["id"], **store.answer(request)}).encode() + b"\n")
        except (OSError, ValueError, KeyError):
            pass  # this client spoke nonsense or is gone
        finally:
            writer.close()

    async with await asyncio.start_server(connected, address, port):
        print("ready", flush=True)
        while True:
            await asyncio.sleep(LATE_S)
            store.sync()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sync", choices=["always", "late"], default="always")
    given = parser.parse_args()
    asyncio.run(serve(given.address, given.port, given.data, late=given.sync == "late"))
