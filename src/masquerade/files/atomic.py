"""Files that stand under their final name only when they are complete."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO

_RUN: ContextVar[str] = ContextVar("run", default="one")


@contextlib.contextmanager
def named(run: str) -> Iterator[None]:
    """Put ``run`` into the names of temporary files, so that whoever started it can clean up."""
    token = _RUN.set(run)
    try:
        yield
    finally:
        _RUN.reset(token)


@contextlib.contextmanager
def staged(
    target: Path, write: Callable[[BinaryIO], None], *, is_private: bool = False
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Write beside ``target`` under a temporary name; yield the SHA-256 and the final rename.

    The temporary file reaches the disk before the rename, so that a crash leaves the old state or
    the new one. If the rename is never called, nothing is left behind; until it is, the file is its
    owner's alone.
    """
    part = target.with_name(f".masquerade-{_RUN.get()}-{secrets.token_hex(8)}.part")
    try:
        asked = 0o600 if is_private else 0o666  # less the umask
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, asked), "wb") as stream:  # noqa: PTH123
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
            os.fchmod(stream.fileno(), 0o600)
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        with part.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        yield digest, lambda: _commit(part, target, mode)
    finally:
        part.unlink(missing_ok=True)


def write_whole(target: Path, data: bytes, *, is_private: bool = False) -> None:
    """Write ``data`` to ``target``, all or nothing; a private file is its owner's alone."""
    if not target.parent.is_dir():
        raise ValueError(f"Expected the folder {target.parent} to exist; make it first.")
    with staged(target, writes(data), is_private=is_private) as (_, commit):
        commit()


def writes(data: bytes) -> Callable[[BinaryIO], None]:
    """What writes ``data`` to a stream."""

    def write(stream: BinaryIO) -> None:
        stream.write(data)

    return write


def _commit(part: Path, target: Path, mode: int) -> None:
    part.chmod(mode)
    part.replace(target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextlib.contextmanager
def alone(target: Path) -> Iterator[None]:
    """Wait until no other process of this machine works on ``target``; a crash lets go."""
    folder = Path(tempfile.gettempdir()) / f"masquerade-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to someone else; remove it, or set TMPDIR.")
    name = hashlib.sha256(os.fsencode(target.resolve())).hexdigest()
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
