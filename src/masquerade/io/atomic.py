"""Files that stand under their final name only when they are complete, and locks beside them.

Temporary files and locks stand in the target's own folder, so that everyone who writes there sees
them, whatever their temporary folder or user. Whoever works on one holds it (flock), and a killed
process lets go: what nobody holds is left over, and `sweep` removes it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import os
import secrets
import socket
import stat
import time
from collections.abc import Iterator
from contextvars import ContextVar
from io import BufferedRandom
from pathlib import Path

from masquerade.errors import BadInput

_RUN: ContextVar[str] = ContextVar("run", default="one")
_UNPAID: ContextVar[Path | None] = ContextVar("unpaid", default=None)
_HELD: set[Path] = set()  # locks of this process
_DAY = 86_400.0  # seconds
_MOMENT = 2.0
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@contextlib.contextmanager
def named(run: str) -> Iterator[None]:
    """Put ``run`` into the names of temporary files, so that whoever started it can clean up."""
    token = _RUN.set(run)
    try:
        yield
    finally:
        _RUN.reset(token)


@contextlib.contextmanager
def keep_closed(folder: Path | None) -> Iterator[None]:
    """Refuse to write what is not private in a folder, in which nothing was paid for yet.

    Args:
        folder: of an output; none opens it again.
    """
    token = _UNPAID.set(folder and folder.resolve())
    try:
        yield
    finally:
        _UNPAID.reset(token)


class Part:
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
    def is_named(self) -> bool:
        """Whether it stands under its final name."""
        return self.target.exists() and os.path.samestat(
            self.target.stat(), os.fstat(self.stream.fileno())
        )

    def seal(self) -> str:
        """Bring what was written to the disk; its SHA-256.

        Raises:
            OSError: if it was removed; another machine may take it for left over after a day.
        """
        if not _stands(self._path, self.stream.fileno()):
            raise OSError(
                errno.ENOENT, f"Expected the unfinished {self.target} to stay; it was removed"
            )
        self.stream.flush()
        os.fsync(self.stream.fileno())
        self.stream.seek(0)
        return hashlib.file_digest(self.stream, "sha256").hexdigest()

    def name(self) -> None:
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
def staged(target: Path, *, is_private: bool = False, replaces: bool = True) -> Iterator[Part]:
    """A new file beside ``target``; if it is never named, nothing is left behind.

    Raises:
        RuntimeError: if it is not private, and its folder is kept closed until it is paid for.
    """
    if not is_private and target.parent.resolve() == _UNPAID.get():
        raise RuntimeError(
            f"Expected what leaves to be paid for before it is written, got {target.name}; write "
            "it as part of the output."
        )
    path, descriptor = _new_part(target, 0o600 if is_private else 0o666)  # less the umask
    try:
        with open(descriptor, "w+b") as stream:  # noqa: PTH123
            yield Part(stream, path, target, replaces=replaces)
    finally:
        path.unlink(missing_ok=True)


def write_whole(target: Path, data: bytes, *, is_private: bool = False) -> None:
    """Write ``data`` to ``target``, all or nothing; a private file is its owner's alone."""
    if not target.parent.is_dir():
        raise ValueError(f"Expected the folder {target.parent} to exist; make it first.")
    with staged(target, is_private=is_private) as part:
        part.stream.write(data)
        part.seal()
        part.name()


def _new_part(target: Path, mode: int) -> tuple[Path, int]:
    """A new temporary file, held as long as it is open."""
    while True:
        name = f".masquerade-{_RUN.get()}-{_machine()}-{secrets.token_hex(8)}.part"
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
def alone(target: Path) -> Iterator[None]:
    """Wait until nobody else works on ``target``; a crash lets go.

    Raises:
        BadInput: if its folder cannot hold a lock.
    """
    name = hashlib.sha256(os.fsencode(target.name.casefold())).hexdigest()[:16]
    path = target.parent.resolve() / f".masquerade-{name}.lock"
    try:
        descriptor = _taken(path)
    except OSError as error:
        raise BadInput(
            f"Expected a folder in which files can be locked, got {target.parent} "
            f"({error.strerror}); choose another one and copy the output from there."
        ) from error
    _HELD.add(path)
    try:
        yield
    finally:
        _HELD.discard(path)
        _drop(path, descriptor)


def _taken(path: Path) -> int:
    """Try until the lock is held; another user's is closed to us for the moment of its making."""
    until = time.monotonic() + _MOMENT
    while True:
        try:
            descriptor = _take(path)
        except PermissionError:
            if time.monotonic() > until:
                raise
            time.sleep(_MOMENT / 100)
            continue
        if descriptor is not None:
            return descriptor
        until = time.monotonic() + _MOMENT


def _take(path: Path) -> int | None:
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
        if _stands(path, descriptor):
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _drop(path: Path, descriptor: int) -> None:
    """Remove a lock that is held, then let go: who waits for it makes a new one."""
    try:
        if _stands(path, descriptor):
            with contextlib.suppress(OSError):
                path.unlink()
    finally:
        os.close(descriptor)


def _stands(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def abandon(folder: Path, run: str) -> None:
    """Remove what a run that is being stopped has in a folder, also under its threads' hands."""
    for path in folder.glob(f".masquerade-{run}-*.part"):
        path.unlink(missing_ok=True)
    for path in [held for held in _HELD if held.parent == folder.resolve()]:
        path.unlink(missing_ok=True)


def sweep(folder: Path) -> int:
    """Remove what killed runs have left in a folder, and give the number of unfinished files.

    What a live process holds stays. Some networks know only the locks of their own machine, so
    another machine's file must also have been left alone for a day.
    """
    count = 0
    for path in folder.glob(".masquerade-*"):
        if path.suffix in (".part", ".lock"):
            with contextlib.suppress(OSError):  # not ours to judge, or gone
                count += _remove_dead(path) and path.suffix == ".part"
    return count


def _remove_dead(path: Path) -> bool:
    if path.suffix == ".part" and not _is_of_this_machine(path):
        if time.time() - path.stat().st_mtime < _DAY:
            return False
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _stands(path, descriptor):
            return False
        is_unfinished = os.fstat(descriptor).st_nlink == 1  # two: it has its final name as well
        path.unlink()
        return is_unfinished
    finally:
        os.close(descriptor)


@functools.cache
def _machine() -> str:
    """Twice six digits: a name stays over a restart, a kernel is shared by containers."""
    name = socket.gethostname().encode()
    parts = (name, _BOOT.read_bytes() if _BOOT.is_file() else name)
    return "".join(hashlib.sha256(part).hexdigest()[:6] for part in parts)


def _is_of_this_machine(part: Path) -> bool:
    tag = part.name.split("-")[-2]
    return tag[:6] == _machine()[:6] or tag[6:] == _machine()[6:]
