"""The files of a warehouse: what each `add` brought, and the one file that names what counts.

    ROOT/warehouse.json                                   the mark: format, and the generation that is in force
    ROOT/<generation>/adds/<add>.json                     what one `add` brought; without it its parts do not count
    ROOT/<generation>/data/<table>/night=<night>/system=<system>/<add>-<number>.parquet

Nothing is changed once it is written: an `add` writes its parts under names of its own, and its manifest last. So two
may add at once, one that is killed brings nothing, and whoever reads sees whole adds. A `build` makes a new generation
and puts it in force at its end. ROOT is a path, or a URI that pyarrow and Spark both know (file:, s3:, gs:, hdfs:).
"""

import json
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from fencepost.harness.base.errors import UsageError

MARK: Final = "warehouse.json"
#: Version of the mark, the manifests and the places of the parts.
FORMAT: Final = 2
_GENERATION: Final = "g-"
_ADDS: Final = "adds"
_DATA: Final = "data"
#: Folders between the data and a part: table, night, system.
_DEPTH: Final = 3
_OLDER: Final = "build the warehouse again from the runs: fencepost warehouse build RESULTS"
_NEWER: Final = "use the newer fencepost, or build the warehouse again from the runs: fencepost warehouse build RESULTS"


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one night and system in one add: their ids, and their files by table, relative to the data."""

    night: str
    system: str
    runs: tuple[str, ...]
    files: Mapping[str, tuple[str, ...]]


class NightPart(msgspec.Struct, frozen=True, kw_only=True):
    """What one add knew of a night, or of a shard of it: the newest count of `records` is what counts."""

    night: str
    shard: int
    records: int
    files: Mapping[str, tuple[str, ...]]


class Add(msgspec.Struct, frozen=True, kw_only=True):
    """One add: when (UTC), and what it brought.

    `tables` are the versions of the tables' schemas. `rebuilt` is the file with a row for each run that it looked at;
    a run that could not be judged is in no part, so that a later add tries it again.
    """

    id: str
    at: str
    tables: dict[str, int]
    parts: tuple[Part, ...] = ()
    nights: tuple[NightPart, ...] = ()
    rebuilt: str = ""

    @property
    def runs(self) -> set[str]:
        return {run for part in self.parts for run in part.runs}


class _Mark(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    generation: str = ""


class Store:
    """The files below one root, of one generation."""

    def __init__(self, root: str, generation: str) -> None:
        self.root: Final = root
        self.generation: Final = generation
        self._fs, self._base = fs.FileSystem.from_uri(_uri(root))

    @property
    def data(self) -> str:
        """Where parts lie, as Spark names it."""
        return f"{spark_name(self.root)}/{self.generation}/{_DATA}"

    def adds(self) -> list[Add]:
        """Every add, oldest first.

        Raises:
            UsageError: a manifest is torn, or is of a newer format.
        """
        folder = f"{self._base}/{self.generation}/{_ADDS}"
        entries = self._fs.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        paths = sorted(info.path for info in entries if info.base_name.endswith(".json") and info.base_name[0] != ".")
        return [self._read(path, Add) for path in paths]

    def commit(self, add: Add) -> None:
        """Write an add's manifest: from now on its parts count."""
        self._write(f"{self._base}/{self.generation}/{_ADDS}/{add.id}.json", msgspec.json.encode(add))

    def put_in_force(self) -> None:
        """Make this generation the one that is read, and remove the others."""
        mark = _Mark(format=FORMAT, generation=self.generation)
        self._write(f"{self._base}/{MARK}", msgspec.json.encode(mark))
        for info in self._others():
            if info.type is fs.FileType.Directory and info.base_name.startswith(_GENERATION):
                self._fs.delete_dir(info.path)

    def discard(self) -> None:
        """Remove this generation, which was not put in force."""
        if self._fs.get_file_info(self._base).type is fs.FileType.NotFound:
            return
        self._fs.delete_dir(f"{self._base}/{self.generation}" if self._others() else self._base)

    def _others(self) -> list[fs.FileInfo]:
        """Everything at the root but this generation."""
        return [i for i in self._fs.get_file_info(fs.FileSelector(self._base)) if i.base_name != self.generation]

    def files_of(self, add: str) -> dict[tuple[str, str], dict[str, tuple[str, ...]]]:
        """The parts that an add has written so far, by night and system: their paths by table."""
        parts: dict[tuple[str, str], dict[str, list[str]]] = {}
        data = f"{self._base}/{self.generation}/{_DATA}"
        for info in self._fs.get_file_info(fs.FileSelector(data, recursive=True, allow_not_found=True)):
            depth = info.path[len(data) + 1 :].count("/")
            if info.type is not fs.FileType.File or depth != _DEPTH or not info.base_name.startswith(f"{add}-"):
                continue
            relative = info.path[len(data) + 1 :]
            table, night, system, _ = relative.split("/")
            own = parts.setdefault((_value(night), _value(system)), {})
            own.setdefault(table, []).append(relative)
        return {key: {table: tuple(sorted(paths)) for table, paths in own.items()} for key, own in parts.items()}

    def write_part(self, table: str, night: str, system: str, name: str, rows: Any) -> str:
        """Write one part, whole or not at all; its path relative to the data."""
        place = f"night={quote(night, safe='')}/system={quote(system, safe='')}"
        return self.write_file(f"{table}/{place}/{name}.parquet", rows)

    def write_file(self, relative: str, rows: Any) -> str:
        """Write one file of the data, whole or not at all; returns its path."""
        path = f"{self._base}/{self.generation}/{_DATA}/{relative}"
        folder, _, base = path.rpartition("/")
        self._fs.create_dir(folder, recursive=True)
        pq.write_table(rows, f"{folder}/.{base}", filesystem=self._fs, compression="zstd")
        self._fs.move(f"{folder}/.{base}", path)
        return relative

    def read_file(self, relative: str) -> Any:
        """Read one file of the data as an Arrow table."""
        path = f"{self._base}/{self.generation}/{_DATA}/{relative}"
        return pq.read_table(path, filesystem=self._fs, partitioning=None)

    def torn(self, files: Iterable[str]) -> str | None:
        """The first of these parts that is missing or no whole Parquet file; None: all are whole."""
        for relative in files:
            try:
                pq.read_metadata(f"{self._base}/{self.generation}/{_DATA}/{relative}", filesystem=self._fs)
            except (OSError, pa.ArrowException):
                return f"{self.root}/{self.generation}/{_DATA}/{relative}"
        return None

    def _read(self, path: str, kind: type[Add]) -> Add:
        with self._fs.open_input_stream(path) as stream:
            data = stream.read()
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.DecodeError as error:
            raise UsageError(f"{path}: {error}", hint="remove it, and add its runs again") from None

    def _write(self, path: str, data: bytes) -> None:
        folder, _, base = path.rpartition("/")
        self._fs.create_dir(folder, recursive=True)
        hidden = f"{folder}/.{base}.{uuid.uuid4().hex}"
        with self._fs.open_output_stream(hidden) as stream:
            stream.write(data)
        self._fs.move(hidden, path)


def open_store(root: str) -> Store:
    """The store in force at `root`.

    Raises:
        UsageError: nothing is there, or something that this fencepost cannot read.
    """
    mark = _mark(root)
    if mark is None:
        raise UsageError(f"{root}: no warehouse is here", hint="make one: fencepost warehouse build RESULTS")
    if mark.format < FORMAT:
        raise UsageError(f"{root}/{MARK}: format {mark.format}, and this fencepost reads {FORMAT}", hint=_OLDER)
    return Store(root, mark.generation)


def open_or_make(root: str) -> Store:
    """The store in force at `root`; an empty one is made where nothing is. Raises as `open_store`."""
    if _mark(root) is not None:
        return open_store(root)
    made = new_generation(root)
    made.put_in_force()
    return made


def new_generation(root: str) -> Store:
    """A store at `root` that is not in force yet; raises UsageError where something else is in its place."""
    _mark(root)
    return Store(root, f"{_GENERATION}{new_id()}")


def new_id() -> str:
    """A name that no other add has, and that sorts by time, also among the adds of one second."""
    now = datetime.now(UTC)
    return f"{now:%Y%m%dT%H%M%S}.{now.microsecond:06d}-{uuid.uuid4().hex[:12]}"


def spark_name(root: str) -> str:
    """The root as Spark names it: its connector for S3 goes by another scheme."""
    return root.replace("s3://", "s3a://", 1)


def _mark(root: str) -> _Mark | None:
    """The mark of a warehouse; None where nothing is. Raises UsageError for anything else."""
    system, base = fs.FileSystem.from_uri(_uri(root))
    kind = system.get_file_info(base).type
    if kind is fs.FileType.NotFound:
        return None
    entries = system.get_file_info(fs.FileSelector(base)) if kind is fs.FileType.Directory else ()
    if kind is fs.FileType.Directory and not entries:
        return None
    if not any(info.base_name == MARK for info in entries):
        raise UsageError(f"{root}: no warehouse is here, but something else", hint="give another place: --warehouse")
    with system.open_input_stream(f"{base}/{MARK}") as stream:
        data = stream.read()
    try:
        known = json.loads(data).get("format")
    except (ValueError, AttributeError):
        raise UsageError(f"{root}/{MARK}: not the mark of a warehouse", hint="give another place") from None
    if not isinstance(known, int) or known > FORMAT:
        raise UsageError(f"{root}/{MARK}: format {known}, and this fencepost reads {FORMAT}", hint=_NEWER)
    if known < FORMAT:
        # Made by an earlier fencepost: it holds nothing that the runs do not.
        return _Mark(format=known)
    return msgspec.json.decode(data, type=_Mark)


def _uri(root: str) -> str:
    return root if "://" in root else Path(root).absolute().as_uri()


def _value(folder: str) -> str:
    return unquote(folder.partition("=")[2])
