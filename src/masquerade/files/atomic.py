"""Files that stand under their final name only when they are complete."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
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
    part = target.with_name(f".masquerade-{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        with part.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        yield digest, lambda: _commit(part, target)
    finally:
        part.unlink(missing_ok=True)


def write_whole(target: Path, data: bytes) -> None:
    """Write ``data`` to ``target``, all or nothing."""
    with staged(target, writes(data)) as (_, commit):
        commit()


def writes(data: bytes) -> Callable[[BinaryIO], None]:
    """What writes ``data`` to a stream."""

    def write(stream: BinaryIO) -> None:
        stream.write(data)

    return write


def _commit(part: Path, target: Path) -> None:
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
    name = hashlib.sha256(str(target.resolve()).encode()).hexdigest()
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
