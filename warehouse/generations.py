"""One generation of a warehouse in place of another, so that nothing that was reported as added is lost.

A build writes a new generation, changes the mark, and then carries over what was added to the old generation since it
began. An add writes its manifest, and then looks at the mark: if that names another generation, it begins again. So
whatever the order of these four steps, an add that reports success is carried over. The mark names the generation
before, so that the next writer finishes what a killed build left.

On this machine's file systems a lock on a folder says who is at work: a build holds the root, an add its generation.
The kernel drops the lock when the process dies. A remote store has no locks: there, one build at a time is the users'
own rule, and nothing is tidied but by builds.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from typing import Final

import msgspec
from pyarrow import fs

from fencepost.harness.base.errors import UsageError
from fencepost.warehouse.store import FORMAT, GENERATION, Mark, Store, read_mark

#: How long a build waits for an add that tidies.
_PATIENCE_S: Final = 10.0
_WAIT: Final = "wait for it to end, then try again"


@contextlib.contextmanager
def building(root: str) -> Iterator[None]:
    """Hold the warehouse at `root` for one build; raises UsageError while another one is under way."""
    place = Store(root, "")
    place.fs.create_dir(place.base, recursive=True)
    try:
        with contextlib.ExitStack() as stack:
            deadline = time.monotonic() + _PATIENCE_S
            while True:
                try:
                    held = stack.enter_context(_locked(place, fcntl.LOCK_EX | fcntl.LOCK_NB))
                    break
                except BlockingIOError:
                    # An add that tidies has it, for an instant.
                    if time.monotonic() < deadline:
                        time.sleep(0.05)
                        continue
                raise UsageError(f"{root}: another build of this warehouse is under way", hint=_WAIT)
            if held:
                _settle(root)
            yield
    finally:
        tidy(root)


@contextlib.contextmanager
def writing(store: Store) -> Iterator[None]:
    """Hold a generation while parts are written to it, so that nobody takes them for orphans."""
    store.fs.create_dir(f"{store.base}/{store.generation}", recursive=True)
    with _locked(store, fcntl.LOCK_SH):
        yield


def tidy(root: str) -> None:
    """Finish what a killed build left, and remove what nobody reads; nothing while others are at work."""
    with contextlib.suppress(BlockingIOError), _locked(Store(root, ""), fcntl.LOCK_EX | fcntl.LOCK_NB) as held:
        if held:
            _settle(root)
    mark = read_mark(root)
    if mark is None or not mark.generation:
        return
    store = Store(root, mark.generation)
    # FileNotFoundError: a build has just replaced it.
    with (
        contextlib.suppress(BlockingIOError, FileNotFoundError),
        _locked(store, fcntl.LOCK_EX | fcntl.LOCK_NB) as held,
    ):
        if held:
            store.remove_orphans()


def replace(target: Store, expected: str) -> int:
    """Put `target`, which a build has written, in the place of the generation `expected`; empty: there was none.

    Returns:
        How many adds were carried over.

    Raises:
        UsageError: another build was faster.
    """
    while True:
        mark = read_mark(target.root)
        before = mark.generation if mark is not None and mark.format == FORMAT else ""
        if expected and before != expected:
            raise UsageError(f"{target.root}: another build was put in force meanwhile", hint="build again if need be")
        # What takes long is copied before readers see the new generation.
        carried = _carry(Store(target.root, before), target) if before else 0
        if target.put_in_force(before, new=mark is None):
            break
    return carried + _settle(target.root)


def _settle(root: str) -> int:
    """Carry over what came late, then remove every generation that is not in force; returns how many adds."""
    place = Store(root, "")
    # Listed before the mark is read: a first add puts its generation in force, and only then makes its folder.
    there = place.fs.get_file_info(fs.FileSelector(place.base, allow_not_found=True))
    mark = read_mark(root) or Mark(format=FORMAT)
    carried = _carry(Store(root, mark.before), Store(root, mark.generation)) if mark.before else 0
    for info in there:
        is_generation = info.type is fs.FileType.Directory and info.base_name.startswith(GENERATION)
        if is_generation and info.base_name != mark.generation:
            Store(root, info.base_name).remove()
    return carried


def _carry(source: Store, target: Store) -> int:
    """Copy the adds that came to `source` after the build of `target` began; returns how many.

    Their names sort after the build's own, so that of a run which both have the build's judgement counts.
    """
    known = set(target.add_ids())
    build = next((add for add in target.adds() if add.replaces is not None), None)
    if build is None:
        return 0
    try:
        adds = source.adds()
    except FileNotFoundError:
        # Another command removes it at this moment, and only after it has carried over what was there.
        return 0
    replaced, carried = build.replaces or (), 0
    for add in adds:
        name = f"{build.id}~{add.id}"
        if add.id in replaced or name in known:
            continue
        there = [source.copy_file(file, target) for file in add.files]
        if there and not any(there):
            # Its manifest was written to a generation that was removed before: its writer begins again.
            continue
        target.write_manifest(msgspec.structs.replace(add, id=name, replaces=None))
        carried += 1
    return carried


@contextlib.contextmanager
def _locked(store: Store, how: int) -> Iterator[bool]:
    """Lock a generation's folder, or the root for a store without one; False where that is not possible.

    Raises:
        BlockingIOError: somebody else holds it, and `how` says not to wait.
    """
    if not isinstance(store.fs, fs.LocalFileSystem):
        yield False
        return
    try:
        handle = os.open(f"{store.base}/{store.generation}", os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        yield False
        return
    try:
        try:
            fcntl.flock(handle, how)
            held = True
        except BlockingIOError:
            raise
        except OSError:
            # A network file system without locks on folders.
            held = False
        yield held
    finally:
        os.close(handle)
