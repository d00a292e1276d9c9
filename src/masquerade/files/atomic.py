"""Files that stand under their final name only when they are complete."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def staged(
    target: Path, write: Callable[[BinaryIO], None]
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Write beside ``target`` under a temporary name; yield the SHA-256 and the final rename.

    The temporary file reaches the disk before the rename, so that a crash leaves the old state or
    the new one. If the rename is never called, nothing is left behind.
    """
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".masquerade-", suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        part.chmod(0o666 & ~_umask())
        with part.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        yield digest, lambda: _commit(part, target)
    finally:
        part.unlink(missing_ok=True)


def write_whole(target: Path, data: bytes) -> None:
    """Write ``data`` to ``target``, all or nothing."""
    with staged(target, lambda stream: void(stream.write(data))) as (_, commit):
        commit()


def void(_: object) -> None:
    """Drop a result, so that a write can be an expression."""


def _commit(part: Path, target: Path) -> None:
    part.replace(target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
