"""Files that stand under their final name only when they are complete, and locks beside them.

Temporary files and locks stand in the target's own folder, so that everyone who writes there sees
them, whatever their temporary folder or user. Whoever works on one holds it (flock), and a killed
process lets go: what nobody holds is left over, and `remove_dead_files` removes it.

What many tasks have given so far, as a file: a run that was stopped goes on where it was.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import json
import os
import secrets
import socket
import stat
import time
from collections.abc import Iterator
from contextvars import ContextVar
from io import BufferedRandom
from pathlib import Path
from typing import Any

from masquerade import _json
from masquerade.errors import BadInput

_RUN_NAME: ContextVar[str] = ContextVar("run", default="one")
_UNPAID_FOLDER: ContextVar[Path | None] = ContextVar("unpaid", default=None)
_HELD_LOCKS: set[Path] = set()  # locks of this process
_DAY_S = 86_400.0  # seconds
_LOCK_WAIT_S = 2.0
_BOOT_ID_PATH = Path("/proc/sys/kernel/random/boot_id")


@contextlib.contextmanager
def name_run(run: str) -> Iterator[None]:
    """Put ``run`` into the names of temporary files, so that whoever started it can clean up."""
    token = _RUN_NAME.set(run)
    try:
        yield
    finally:
        _RUN_NAME.reset(token)


@contextlib.contextmanager
def keep_closed(folder: Path | None) -> Iterator[None]:
    """Refuse to write what is not private in a folder, in which nothing was paid for yet.

    Args:
        folder: of an output; none opens it again.
    """
    token = _UNPAID_FOLDER.set(folder and folder.resolve())
    try:
        yield
    finally:
        _UNPAID_FOLDER.reset(token)


class UnfinishedFile:
    """A file under a temporary name beside its target.

    Args:
        stream: to write to.
        path: its temporary name.
        target: its final name.
        replaces: whether a file that stands there makes room; otherwise it stays, and naming
            raises FileExistsError.
    """

    def __init__(self, stream: BufferedRandom, path: Path, target: Path, *, replaces: bool) -> None:
        self.stream, self.target = stream, target
        self._path, self._replaces = path, replaces
        self._mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
        os.fchmod(stream.fileno(), 0o600)  # its owner's alone until it has its name

    @property
    def is_in_place(self) -> bool:
        """Whether it stands under its final name."""
        return self.target.exists() and os.path.samestat(
            self.target.stat(), os.fstat(self.stream.fileno())
        )

    def seal_file(self) -> str:
        """Bring what was written to the disk; its SHA-256.

        Raises:
            OSError: if it was removed; another machine may take it for left over after a day.
        """
        if not _is_same_file(self._path, self.stream.fileno()):
            raise OSError(
                errno.ENOENT, f"Expected the unfinished {self.target} to stay; it was removed"
            )
        self.stream.flush()
        os.fsync(self.stream.fileno())
        self.stream.seek(0)
        return hashlib.file_digest(self.stream, "sha256").hexdigest()

    def move_into_place(self) -> None:
        """Give it its final name; a crash leaves the old state or the new one."""
        self._path.chmod(self._mode)
        if self._replaces:
            self._path.replace(self.target)
        else:
            _name_exclusively(self._path, self.target)
        folder = os.open(self.target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextlib.contextmanager
def open_unfinished(
    target: Path, *, is_private: bool = False, replaces: bool = True
) -> Iterator[UnfinishedFile]:
    """A new file beside ``target``; if it is never named, nothing is left behind.

    Raises:
        RuntimeError: if it is not private, and its folder is kept closed until it is paid for.
    """
    if not is_private and target.parent.resolve() == _UNPAID_FOLDER.get():
        raise RuntimeError(
            f"Expected what leaves to be paid for before it is written, got {target.name}; write "
            "it as part of the output."
        )
    path, descriptor = _make_unfinished(target, 0o600 if is_private else 0o666)  # less the umask
    try:
        with open(descriptor, "w+b") as stream:  # noqa: PTH123
            yield UnfinishedFile(stream, path, target, replaces=replaces)
    finally:
        path.unlink(missing_ok=True)


def write_whole(target: Path, data: bytes, *, is_private: bool = False) -> None:
    """Write ``data`` to ``target``, all or nothing; a private file is its owner's alone."""
    if not target.parent.is_dir():
        raise ValueError(f"Expected the folder {target.parent} to exist; make it first.")
    with open_unfinished(target, is_private=is_private) as part:
        part.stream.write(data)
        part.seal_file()
        part.move_into_place()


def _make_unfinished(target: Path, mode: int) -> tuple[Path, int]:
    """A new temporary file, held as long as it is open."""
    while True:
        name = f".masquerade-{_RUN_NAME.get()}-{_find_machine_id()}-{secrets.token_hex(8)}.part"
        part = target.with_name(name)
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        with contextlib.suppress(OSError):  # where nothing can be held nothing is swept
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:  # a sweep may have been quicker
            return part, descriptor
        os.close(descriptor)


def _name_exclusively(part: Path, target: Path) -> None:
    """Unlike a rename a link never replaces, not even what another machine has put there."""
    try:
        os.link(part, target)
    except FileExistsError as error:
        if not target.is_file() or not target.samefile(part):  # a network may ask twice
            raise FileExistsError(
                f"Expected {target} to be free; another run has put a file there. It was left "
                "alone, and this run published nothing."
            ) from error
    except OSError:  # no links here: an empty file of this name is ours alone, too
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        part.replace(target)


@contextlib.contextmanager
def lock_target(target: Path) -> Iterator[None]:
    """Wait until nobody else works on ``target``; a crash lets go.

    Raises:
        BadInput: if its folder cannot hold a lock.
    """
    name = hashlib.sha256(os.fsencode(target.name.casefold())).hexdigest()[:16]
    path = target.parent.resolve() / f".masquerade-{name}.lock"
    try:
        descriptor = _acquire_lock(path)
    except OSError as error:
        raise BadInput(
            f"Expected a folder in which files can be locked, got {target.parent} "
            f"({error.strerror}); choose another one and copy the output from there."
        ) from error
    _HELD_LOCKS.add(path)
    try:
        yield
    finally:
        _HELD_LOCKS.discard(path)
        _release_lock(path, descriptor)


def _acquire_lock(path: Path) -> int:
    """Try until the lock is held; another user's is closed to us for the moment of its making."""
    until = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            descriptor = _try_lock(path)
        except PermissionError:
            if time.monotonic() > until:
                raise
            time.sleep(_LOCK_WAIT_S / 100)
            continue
        if descriptor is not None:
            return descriptor
        until = time.monotonic() + _LOCK_WAIT_S


def _try_lock(path: Path) -> int | None:
    """Hold the lock at ``path``; None if it was removed under our hands and has to be made anew."""
    flags = os.O_RDWR | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        try:
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return None
        os.fchmod(descriptor, 0o666)  # it is empty, and other users wait for it as well
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_same_file(path, descriptor):
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _release_lock(path: Path, descriptor: int) -> None:
    """Remove a lock that is held, then let go: who waits for it makes a new one."""
    try:
        if _is_same_file(path, descriptor):
            with contextlib.suppress(OSError):
                path.unlink()
    finally:
        os.close(descriptor)


def _is_same_file(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def remove_run_files(folder: Path, run: str) -> None:
    """Remove what a run that is being stopped has in a folder, also under its threads' hands."""
    for path in folder.glob(f".masquerade-{run}-*.part"):
        path.unlink(missing_ok=True)
    for path in [held for held in _HELD_LOCKS if held.parent == folder.resolve()]:
        path.unlink(missing_ok=True)


def remove_dead_files(folder: Path) -> int:
    """Remove what killed runs have left in a folder, and give the number of unfinished files.

    What a live process holds stays. Some networks know only the locks of their own machine, so
    another machine's file must also have been left alone for a day.
    """
    count = 0
    for path in folder.glob(".masquerade-*"):
        if path.suffix in (".part", ".lock"):
            with contextlib.suppress(OSError):  # not ours to judge, or gone
                count += _remove_if_dead(path) and path.suffix == ".part"
    return count


def _remove_if_dead(path: Path) -> bool:
    if path.suffix == ".part" and not _is_of_this_machine(path):
        if time.time() - path.stat().st_mtime < _DAY_S:
            return False
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_same_file(path, descriptor):
            return False
        is_unfinished = os.fstat(descriptor).st_nlink == 1  # two: it has its final name as well
        path.unlink()
        return is_unfinished
    finally:
        os.close(descriptor)


@functools.cache
def _find_machine_id() -> str:
    """Twice six digits: a name stays over a restart, a kernel is shared by containers."""
    name = socket.gethostname().encode()
    parts = (name, _BOOT_ID_PATH.read_bytes() if _BOOT_ID_PATH.is_file() else name)
    return "".join(hashlib.sha256(part).hexdigest()[:6] for part in parts)


def _is_of_this_machine(part: Path) -> bool:
    tag = part.name.split("-")[-2]
    return tag[:6] == _find_machine_id()[:6] or tag[6:] == _find_machine_id()[6:]


class TaskJournal:
    """Finished tasks as a file: a line of JSON for each, on disk before the next step.

    A line that a crash has torn is dropped. The journal of another run is begun anew.

    Args:
        path: of the file.
        run: what has to be the same for its values to hold, in words or as a hash.
        is_resumed: whether values that stand there are taken over.
    """

    def __init__(self, path: Path, *, run: str = "", is_resumed: bool = True) -> None:
        self.path, self.run, self._is_resumed = path, run, is_resumed
        self.values: dict[str, Any] = {}
        self.seconds = 0.0
        self._descriptor = -1

    def __enter__(self) -> TaskJournal:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._begin_file()
        except BaseException:
            os.close(self._descriptor)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def record_task(self, name: str, value: Any, seconds: float) -> Any:
        """Keep the value of a task, and give it as it will be read again."""
        line = json.dumps({"task": name, "value": _json.encode_noun(value), "seconds": seconds})
        self._append_line(line)
        return self._restore_value(json.loads(line))

    def remove_file(self) -> None:
        """Forget it all: the next run begins anew."""
        self.path.unlink(missing_ok=True)

    def _begin_file(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise BadInput(
                f"Expected a journal that no other run writes, got {self.path} ({error.strerror}); "
                "wait for that run, or choose another folder."
            ) from error
        whole = self.path.read_bytes()
        whole = whole[: whole.rfind(b"\n") + 1]
        lines = whole.split(b"\n")[:-1]
        if not (self._is_resumed and lines and _parse_line(lines[0]) == {"run": self.run}):
            os.ftruncate(self._descriptor, 0)
            self._append_line(json.dumps({"run": self.run}))
            return
        os.ftruncate(self._descriptor, len(whole))
        for found in map(_parse_line, lines[1:]):
            if found is not None and {"task", "value", "seconds"} <= set(found):
                self._restore_value(found)

    def _restore_value(self, found: dict[str, Any]) -> Any:
        self.seconds += found["seconds"]
        self.values[found["task"]] = found["value"]
        return found["value"]

    def _append_line(self, line: str) -> None:
        data = line.encode() + b"\n"
        if os.write(self._descriptor, data) < len(data):
            raise OSError(f"Expected room on the disk of {self.path}; a line was cut off.")
        os.fsync(self._descriptor)


def _parse_line(line: bytes) -> dict[str, Any] | None:
    """A line of a journal; None if it is no object."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
