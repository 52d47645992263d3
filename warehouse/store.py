"""The files of a warehouse: what each `add` brought, and the one file that names what counts.

    ROOT/warehouse.json                                   the mark: format, and the generation that is in force
    ROOT/<generation>/adds/<add>.json                     what one `add` brought; without it its parts do not count
    ROOT/<generation>/data/<table>/night=<night>/system=<system>/<add>-<number>.parquet

Nothing is changed once it is written: an `add` writes its parts under names of its own, and its manifest last. So two
may add at once, one that is killed brings nothing, and whoever reads sees whole adds. A `build` makes a new generation
and puts it in force at its end (`generations`). An add that finds another generation in force than the one that it
wrote to begins again. ROOT is a path, or a URI that pyarrow and Spark both know (file:, s3:, gs:, hdfs:).
"""

import contextlib
import json
import os
import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
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
GENERATION: Final = "g-"
_ADDS: Final = "adds"
_DATA: Final = "data"
#: Folders between the data and a part: table, night, system.
_DEPTH: Final = 3
#: Files that are looked at side by side: on a remote store each takes a round trip.
_READERS: Final = 16
_TORN: Final = "missing, or no whole Parquet file"
_OLDER: Final = "build the warehouse again from the runs: fencepost warehouse build RESULTS"
_NEWER: Final = "use the newer fencepost, or build the warehouse again from the runs: fencepost warehouse build RESULTS"


class Superseded(Exception):
    """A build has put another generation in force: what was written to this one does not count."""


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
    a run that could not be judged is in no part, so that a later add tries it again. `replaces` are the adds that a
    build did not carry over, because it began after them; None: this is no build.
    """

    id: str
    at: str
    tables: dict[str, int]
    parts: tuple[Part, ...] = ()
    nights: tuple[NightPart, ...] = ()
    rebuilt: str = ""
    replaces: tuple[str, ...] | None = None

    @property
    def files(self) -> list[str]:
        """Every file that it names, relative to the data."""
        tables = [part.files for part in self.parts] + [night.files for night in self.nights]
        own = [file for files in tables for paths in files.values() for file in paths]
        return [*own, self.rebuilt] if self.rebuilt else own

    @property
    def runs(self) -> set[str]:
        return {run for part in self.parts for run in part.runs}


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """The generation in force, and the one `before` it, from which late adds are still carried over."""

    format: int
    generation: str = ""
    before: str = ""


class Store:
    """The files below one root, of one generation."""

    def __init__(self, root: str, generation: str) -> None:
        self.root: Final = absolute(root)
        self.generation: Final = generation
        self.fs, self.base = fs.FileSystem.from_uri(_uri(self.root))
        self._home: Final = f"{self.base}/{generation}"

    @property
    def data(self) -> str:
        """Where parts lie, as Spark names it."""
        return f"{spark_name(self.root)}/{self.generation}/{_DATA}"

    def add_ids(self) -> list[str]:
        """The names of all adds, oldest first."""
        try:
            entries = self.fs.get_file_info(fs.FileSelector(f"{self._home}/{_ADDS}", allow_not_found=True))
        except FileNotFoundError:
            # pyarrow looks first whether the folder is there: it was removed between that and the listing.
            return []
        return sorted(i.base_name[:-5] for i in entries if i.base_name.endswith(".json") and i.base_name[0] != ".")

    def adds(self) -> list[Add]:
        """Every add, oldest first.

        Raises:
            UsageError: a manifest is torn, or is of a newer format.
        """
        return [self.read_add(name) for name in self.add_ids()]

    def read_add(self, name: str) -> Add:
        """One add by its name; raises as `adds`."""
        path = f"{self._home}/{_ADDS}/{name}.json"
        with self.fs.open_input_stream(path) as stream:
            data = stream.read()
        try:
            return msgspec.json.decode(data, type=Add)
        except msgspec.DecodeError as error:
            raise UsageError(f"{path}: {error}", hint="remove it, and add its runs again") from None

    def commit(self, add: Add) -> None:
        """Write an add's manifest: from now on its parts count.

        Raises:
            Superseded: the parts do not count, since a build has put another generation in force. The manifest comes
                before this look at the mark, and a build carries over what it finds after it has changed the mark. So
                one of the two sees the other.
        """
        self.write_manifest(add)
        if not self.is_in_force():
            raise Superseded

    def write_manifest(self, add: Add) -> None:
        """Write the manifest of an add, also to a generation that is not in force yet."""
        self._write(f"{self._home}/{_ADDS}/{add.id}.json", msgspec.json.encode(add))

    def is_in_force(self) -> bool:
        """Whether this generation is the one that is read."""
        mark = read_mark(self.root)
        return mark is not None and mark.generation == self.generation

    def put_in_force(self, before: str = "", *, new: bool = True) -> bool:
        """Make this generation the one that is read, in place of `before`, and say whether it is.

        `new`: only where no generation is in force yet. `generations.replace` carries over what was added to another.
        """
        data = msgspec.json.encode(Mark(format=FORMAT, generation=self.generation, before=before))
        return self._write(f"{self.base}/{MARK}", data, new=new)

    def remove(self) -> None:
        """Remove this generation, which is not in force, and the root if nothing else is in it."""
        # An add may still write to it, until it looks at the mark; whoever comes next removes that.
        with contextlib.suppress(OSError):
            self.fs.delete_dir(self._home)
        with contextlib.suppress(OSError):
            if not self.fs.get_file_info(fs.FileSelector(self.base)):
                self.fs.delete_dir(self.base)

    def remove_orphans(self) -> None:
        """Remove files that no manifest names; nobody may be adding meanwhile."""
        below = fs.FileSelector(self._home, recursive=True, allow_not_found=True)
        files = [info.path for info in self.fs.get_file_info(below) if info.type is fs.FileType.File]
        named = {f"{self._home}/{_DATA}/{file}" for add in self.adds() for file in add.files}
        named |= {f"{self._home}/{_ADDS}/{name}.json" for name in self.add_ids()}
        for path in files:
            if path not in named:
                self.fs.delete_file(path)

    def copy_file(self, relative: str, target: "Store") -> bool:
        """Copy one file of the data into another generation; whether it is there. One that is missing stays missing."""
        source, path = (f"{home}/{_DATA}/{relative}" for home in (self._home, target._home))
        folder, _, base = path.rpartition("/")
        # Two commands may copy the same file at once.
        hidden = f"{folder}/.{base}.{uuid.uuid4().hex}"
        with contextlib.suppress(FileNotFoundError):
            self.fs.create_dir(folder, recursive=True)
            self.fs.copy_file(source, hidden)
            self.fs.move(hidden, path)
        return bool(self.fs.get_file_info(path).type is fs.FileType.File)

    def files_of(self, add: str) -> dict[tuple[str, str], dict[str, tuple[str, ...]]]:
        """The parts that an add has written so far, by night and system: their paths by table."""
        parts: dict[tuple[str, str], dict[str, list[str]]] = {}
        data = f"{self._home}/{_DATA}"
        for info in self.fs.get_file_info(fs.FileSelector(data, recursive=True, allow_not_found=True)):
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
        path = f"{self._home}/{_DATA}/{relative}"
        folder, _, base = path.rpartition("/")
        self.fs.create_dir(folder, recursive=True)
        pq.write_table(rows, f"{folder}/.{base}", filesystem=self.fs, compression="zstd")
        self.fs.move(f"{folder}/.{base}", path)
        return relative

    def read_file(self, relative: str) -> Any:
        """Read one file of the data as an Arrow table."""
        path = f"{self._home}/{_DATA}/{relative}"
        try:
            return pq.read_table(path, filesystem=self.fs, partitioning=None)
        except (FileNotFoundError, pa.ArrowException):
            raise UsageError(f"{path}: {_TORN}", hint=_OLDER) from None

    def refuse_torn(self, adds: Iterable[Add], *, whole: bool = False) -> None:
        """Raise UsageError for the first file of these adds that is missing or no whole Parquet file.

        Spark skips an empty file without a word. `whole`: read the rows too, not only the footers.
        """
        with ThreadPoolExecutor(_READERS) as pool:
            files = [file for add in adds for file in add.files]
            torn = next((file for file, bad in zip(files, pool.map(self._is_torn, files), strict=True) if bad), None)
            if torn is None and whole:
                torn = next((file for file in files if self._is_torn(file, whole=True)), None)
        if torn is not None:
            raise UsageError(f"{self.root}/{self.generation}/{_DATA}/{torn}: {_TORN}", hint=_OLDER)

    def _is_torn(self, relative: str, *, whole: bool = False) -> bool:
        try:
            if whole:
                self.read_file(relative)
            else:
                pq.read_metadata(f"{self._home}/{_DATA}/{relative}", filesystem=self.fs)
        except (OSError, pa.ArrowException, UsageError):
            return True
        return False

    def _write(self, path: str, data: bytes, *, new: bool = False) -> bool:
        """Write a small file, whole or not at all. `new`: only where there is none yet; False if there is."""
        folder, _, base = path.rpartition("/")
        self.fs.create_dir(folder, recursive=True)
        hidden = f"{folder}/.{base}.{uuid.uuid4().hex}"
        with self.fs.open_output_stream(hidden) as stream:
            stream.write(data)
        if new and isinstance(self.fs, fs.LocalFileSystem):
            try:
                os.link(hidden, path)
            except FileExistsError:
                return False
            finally:
                os.unlink(hidden)
        elif new and self.fs.get_file_info(path).type is not fs.FileType.NotFound:
            self.fs.delete_file(hidden)
            return False
        else:
            self.fs.move(hidden, path)
        return True


def open_store(root: str) -> Store:
    """The store in force at `root`.

    Raises:
        UsageError: nothing is there, or something that this fencepost cannot read.
    """
    mark = read_mark(root)
    if mark is None:
        raise UsageError(f"{root}: no warehouse is here", hint="make one: fencepost warehouse build RESULTS")
    if mark.format < FORMAT:
        raise UsageError(f"{root}/{MARK}: format {mark.format}, and this fencepost reads {FORMAT}", hint=_OLDER)
    return Store(root, mark.generation)


def open_or_make(root: str) -> Store:
    """The store in force at `root`; an empty one is made where nothing is. Raises as `open_store`."""
    if read_mark(root) is None:
        new_generation(root).put_in_force()
    return open_store(root)


def new_generation(root: str) -> Store:
    """A store at `root` that is not in force yet; raises UsageError where something else is in its place."""
    read_mark(root)
    return Store(root, f"{GENERATION}{new_id()}")


def new_id() -> str:
    """A name that no other add has, and that sorts by time, also among the adds of one second."""
    now = datetime.now(UTC)
    return f"{now:%Y%m%dT%H%M%S}.{now.microsecond:06d}-{uuid.uuid4().hex[:12]}"


def spark_name(root: str) -> str:
    """The root as Spark names it: its connector for S3 goes by another scheme."""
    return root.replace("s3://", "s3a://", 1)


def absolute(root: str) -> str:
    """The place of a warehouse as executors must name it: an absolute path, or the URI that it is."""
    return root if "://" in root else str(Path(root).absolute())


def read_mark(root: str) -> Mark | None:
    """The mark of a warehouse; None where nothing is. Raises UsageError for anything else."""
    system, base = fs.FileSystem.from_uri(_uri(root))
    kind = system.get_file_info(base).type
    if kind is fs.FileType.NotFound:
        return None
    names = (
        [i.base_name for i in system.get_file_info(fs.FileSelector(base))] if kind is fs.FileType.Directory else [""]
    )
    if MARK not in names:
        # What is made right now: a generation that is not in force, and files under hidden names.
        if all(name.startswith((".", GENERATION)) for name in names):
            return None
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
        return Mark(format=known)
    return msgspec.json.decode(data, type=Mark)


def _uri(root: str) -> str:
    return root if "://" in root else Path(root).absolute().as_uri()


def _value(folder: str) -> str:
    return unquote(folder.partition("=")[2])
