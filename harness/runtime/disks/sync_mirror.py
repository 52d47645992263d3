"""Keeps what would survive a loss of power: a copy of each file of a running server as of its last fsync.

strace reports every sync that returned. Then the file is copied, and the names of all files and folders are noted. So:

- a file's content is that of its last fsync or fdatasync (or of a moment shortly after: a copy takes some time, and a
  disk may have written more than it had to);
- names (files made, renamed, removed) are those at the last sync of any file or folder, as on ext4 and XFS, where a
  sync commits the journal with every change of a name before it;
- everything that existed when the mirror began counts as synced at that moment, as it may have been.

The copy holds everything that a sync promised to the server. Anything else is lost, unless a copy happened to include
it. So a server that syncs before it acknowledges never loses an acknowledged change.
"""

import asyncio
import os
import re
import threading
import time
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.disks.strace import end, is_traced, launch
from fencepost.harness.runtime.disks.tree_copy import TreeCopy, tree_hashes

#: The calls that promise something; sync_file_range(2) promises nothing.
_SYNCS: Final = ("fsync", "fdatasync")
_SYNC_ALL: Final = ("sync", "syncfs", "msync")
_OPENS: Final = ("open", "openat", "creat")
_BEGUN: Final = re.compile(rb"^(\d+) +(\w+)\((?:\d+<([^>]*)>)?")
_RESUMED: Final = re.compile(rb"^(\d+) +<\.\.\. (\w+) resumed>")
_RETURNED: Final = re.compile(rb"\) *= (\d+)(?:<([^>]*)>)?")
_OPENED_SYNCHRONOUS: Final = "open for synchronous writes"
_SYNCHRONOUS: Final = re.compile(rb"O_D?SYNC")
_ATTACH_S: Final = 4.0
_END_S: Final = 5.0
_LOOK_S: Final = 0.004


class SyncMirror:
    """The mirror of the server `pid`, whose files lie below `data`. Call `begin`, kill the server, call `restore`."""

    def __init__(self, pid: int, data: Path) -> None:
        #: After `restore`: the files below `data` that lost something.
        self.lost: tuple[str, ...] = ()
        self._pid, self._data = pid, data.resolve()
        self._copy = TreeCopy(self._data)
        #: Files whose every write is synced as it is made.
        self._synchronous = _open_synchronous(pid)
        #: By thread: the call under way, and its file.
        self._under_way: dict[bytes, tuple[str, str]] = {}
        self._pipe, theirs = os.pipe()
        try:
            calls = ",".join(f"?{call}" for call in (*_SYNCS, *_SYNC_ALL, *_OPENS))
            options = ["-e", f"trace={calls}", "-o", f"/proc/self/fd/{theirs}"]
            self._messages_fd = os.memfd_create("strace-said")
            self._process = launch(pid, options, self._messages_fd, pass_fds=(theirs,))
        finally:
            os.close(theirs)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._stop = False
        self._failure = ""
        self._ready = threading.Event()
        self.syncs = 0
        self.longest_ms = 0.0

    async def begin(self) -> None:
        """Attach, and copy what is there; raises HarnessError."""
        deadline = time.monotonic() + _ATTACH_S
        while not is_traced(self._pid):
            if self._process.poll() is not None or time.monotonic() > deadline:
                messages = os.pread(self._messages_fd, 1 << 12, 0).decode(errors="replace").strip()
                raise HarnessError(
                    f"strace could not be attached to process {self._pid}: {messages or 'it gave no reason'}"
                )
            await asyncio.sleep(_LOOK_S)
        self._thread.start()
        while not self._ready.is_set():
            if time.monotonic() > deadline + _ATTACH_S:
                raise HarnessError(f"copying the files of process {self._pid} took too long")
            await asyncio.sleep(_LOOK_S)

    def why_not_whole(self) -> str | None:
        """Return why syncs may have been missed, or None. Called right before the kill."""
        if self._process.poll() is not None:
            return "its tracer had ended"
        return self._failure or None

    async def restore(self) -> str:
        """Put the files back after the kill; return what was lost, in one sentence. Raises HarnessError."""
        await asyncio.to_thread(self._thread.join, _END_S)
        if self._thread.is_alive():
            raise HarnessError(f"the tracer of process {self._pid} goes on {_END_S:g} s after the kill")
        if self._failure:
            raise HarnessError(self._failure)
        deadline = time.monotonic() + _END_S
        while (status := self._process.poll()) is None and time.monotonic() < deadline:
            await asyncio.sleep(_LOOK_S)
        if status != 0:
            # It ends normally with the server. A tracer that ended earlier may have missed later syncs.
            raise HarnessError(f"the tracer of process {self._pid} ended with {status}, so syncs may have been missed")
        return await asyncio.to_thread(self._put_back)

    def _put_back(self) -> str:
        for path in self._synchronous:
            self._copy.take(Path(path))
        before = tree_hashes(self._data)
        wanted = dict(self._copy.hashes())
        self._copy.put_back()
        after = tree_hashes(self._data)
        if after != wanted:
            raise HarnessError(f"the files below {self._data} are not what was put back")
        changed = sorted(path for path in before.keys() & after.keys() if before[path] != after[path])
        shown = [f"{path} {before[path][:8]} to {after[path][:8]}" for path in changed[:4]]
        shown += [f"{len(changed) - 4} more"] if len(changed) > 4 else []
        self.lost = tuple(sorted({*changed, *(before.keys() - after.keys())}))
        gone, back = len(before.keys() - after.keys()), len(after.keys() - before.keys())
        names = f", {gone} names gone and {back} back" if gone or back else ""
        put = f"{len(after)} files as of their last of {self.syncs} syncs: {len(changed)} differ{names}"
        return f"{put} ({'; '.join(shown)})" if shown else put

    async def close(self) -> None:
        """Release the server if it lives, and forget everything. Idempotent."""
        if self._pipe < 0:
            return
        self._stop = True
        await end(self._process)
        if self._thread.ident is not None:
            await asyncio.to_thread(self._thread.join, _END_S)
            if self._thread.is_alive():
                raise HarnessError("copying a server's files does not end")
        os.close(self._pipe)
        os.close(self._messages_fd)
        self._pipe = -1
        self._copy.close()

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        try:
            self._copy.take_all()
            self._ready.set()
            rest = b""
            # All lines that came meanwhile are handled together: a file that was synced twice is copied once.
            while (data := os.read(self._pipe, 1 << 20)) and not self._stop:
                began = time.monotonic()
                *lines, rest = (rest + data).split(b"\n")
                self._mirror(lines)
                self.longest_ms = max(self.longest_ms, (time.monotonic() - began) * 1e3)
        except Exception as error:
            self._failure = f"copying failed: {type(error).__name__}: {error}"
            self._ready.set()

    def _mirror(self, lines: list[bytes]) -> None:
        synced: set[str] = set()
        everything = False
        for line in lines:
            call, path = self._returned(line)
            if call in _SYNC_ALL:
                everything = True
            elif call in _SYNCS and Path(path).is_relative_to(self._data):
                synced.add(path)
                self.syncs += 1
        if everything:
            self.syncs += 1
        if everything:
            self._copy.take_all()
        elif synced:
            files = {path for path in map(Path, synced) if not path.is_dir()}
            # Servers write a file of another name, sync it and rename it: Kafka does so every few seconds.
            renamed = {path for path in files if not self._copy.take(path)}
            if renamed:
                self._copy.take_renamed(renamed)
            self._copy.take_names()

    def _returned(self, line: bytes) -> tuple[str, str]:
        """Return the call that returned without an error on this line, and its file; ("", "") for none."""
        begun, resumed, returned = _BEGUN.match(line), _RESUMED.match(line), _RETURNED.search(line)
        if begun:
            self._under_way[begun[1]] = (begun[2].decode(), os.fsdecode(begun[3] or b""))
            if begun[2].decode() in _OPENS:
                self._under_way[begun[1]] = (_OPENED_SYNCHRONOUS if _SYNCHRONOUS.search(line) else "open", "")
        thread = begun or resumed
        if thread is None or returned is None:
            return "", ""
        call, path = self._under_way.pop(thread[1], (thread[2].decode(), ""))
        if call == _OPENED_SYNCHRONOUS:
            if returned[2] is None:
                self._failure = "a file was opened for synchronous writes, and its name was not told"
            else:
                self._synchronous.add(os.fsdecode(returned[2]))
        return call, path


def _open_synchronous(pid: int) -> set[str]:
    """Return the files that the process has open for synchronous writes; raise HarnessError when it has ended."""
    paths = set()
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")
    except (FileNotFoundError, ProcessLookupError):
        raise HarnessError(f"process {pid} has ended") from None
    for number in numbers:
        try:
            lines = Path(f"/proc/{pid}/fdinfo/{number}").read_text().splitlines()
            flags = next(int(line.split()[1], 8) for line in lines if line.startswith("flags:"))
            if flags & (os.O_SYNC | os.O_DSYNC):
                paths.add(os.readlink(f"/proc/{pid}/fd/{number}"))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return paths
