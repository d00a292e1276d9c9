"""Features that were computed once and are kept, so that an attack can be run again in no time.

Features of private pictures are private: they lie in a folder that only its owner can open, under
names from which nobody reads a picture, though whoever holds both can tell that they belong
together. `clear_embeddings` removes all of them. An entry is found by the picture's content and by
the network with its weights; one that is damaged is made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import secrets
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from masquerade.io.downloads import cache_folder

_VERSION = 1  # another one where the same network would give other features
_OWNER_ALONE = 0o700
_DIGEST_BYTES = 32  # bytes at the start of an entry: SHA-256 of what follows
_MAX_TRIES = 3  # when another process forgets everything in between

Make = Callable[[np.ndarray], np.ndarray]


def read_or_embed(pictures: np.ndarray, *, fingerprint: str, make: Make) -> np.ndarray:
    """Features (N, ...) of pictures (N, ...): those that are kept are read, the others made.

    Args:
        pictures: whose content they are found by.
        fingerprint: of the network and its weights.
        make: computes the features of some of the pictures, one row each, in the same order.

    Raises:
        OSError: if the folder cannot be written to.
    """
    names = [_compute_entry_name([picture], fingerprint) for picture in pictures]
    found = {name: kept for name in set(names) if (kept := _read_entry(name)) is not None}
    first = {name: place for place, name in reversed(list(enumerate(names)))}
    missing = sorted((place, name) for name, place in first.items() if name not in found)
    if missing:
        made = make(pictures[[place for place, _ in missing]])
        for (_, name), row in zip(missing, made, strict=True):
            found[name] = np.asarray(row)
            _write_entry(name, found[name])
    return np.stack([found[name] for name in names])


def read_or_make(
    contents: Sequence[np.ndarray], *, fingerprint: str, make: Callable[[], np.ndarray]
) -> np.ndarray:
    """One array, of any shape: read if it is kept, made otherwise.

    Args:
        contents: all that it is made of, by which it is found.
        fingerprint: of what makes it, and of its weights.
        make: makes it.

    Raises:
        OSError: if the folder cannot be written to.
    """
    name = _compute_entry_name(contents, fingerprint)
    found = _read_entry(name)
    if found is None:
        found = np.asarray(make())
        _write_entry(name, found)
    return found


def clear_embeddings() -> int:
    """Remove every entry; how many there were.

    The folder leaves under another name first, so that nobody reads what is half gone.
    """
    home = _find_cache_folder()
    if not home.is_dir():
        return 0
    away = home.with_name(f"{home.name}.{secrets.token_hex(8)}.gone")
    try:
        home.rename(away)
    except FileNotFoundError:  # another process forgets as well
        return 0
    count = sum(1 for _ in away.rglob("*.features"))
    shutil.rmtree(away)
    return count


def _find_cache_folder() -> Path:
    return cache_folder() / "private" / "embeddings"


def _compute_entry_name(contents: Sequence[np.ndarray], fingerprint: str) -> str:
    digest = hashlib.sha256(f"{_VERSION} {fingerprint} ".encode())
    for each in contents:
        digest.update(f"{each.dtype.str} {each.shape} ".encode())
        digest.update(np.ascontiguousarray(each).tobytes())
    return digest.hexdigest()


def _find_entry_path(name: str) -> Path:
    return _find_cache_folder() / name[:2] / f"{name}.features"


def _read_entry(name: str) -> np.ndarray | None:
    """The entry, if there is one and it is whole."""
    try:
        data = _find_entry_path(name).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if hashlib.sha256(data[_DIGEST_BYTES:]).digest() != data[:_DIGEST_BYTES]:
        return None
    return np.asarray(np.load(io.BytesIO(data[_DIGEST_BYTES:]), allow_pickle=False))


def _write_entry(name: str, row: np.ndarray) -> None:
    """Put an entry under its name when it is whole; two who write the same do no harm."""
    stream = io.BytesIO()
    np.save(stream, row, allow_pickle=False)
    data = hashlib.sha256(stream.getvalue()).digest() + stream.getvalue()
    for left in reversed(range(_MAX_TRIES)):
        part = _find_entry_path(name).with_name(f".{secrets.token_hex(8)}.part")
        try:
            _make_folders(name)
            with open(part, "xb", opener=_open_privately) as file:
                file.write(data)
            part.replace(_find_entry_path(name))
            return
        except FileNotFoundError:
            if not left:
                raise
        finally:
            with contextlib.suppress(OSError):
                part.unlink()


def _open_privately(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _make_folders(name: str) -> None:
    """Where an entry goes; every folder on the way is its owner's alone."""
    home = _find_cache_folder()
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        for folder in (home.parent, home, _find_entry_path(name).parent):
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=_OWNER_ALONE)
            if folder.stat().st_mode & 0o777 != _OWNER_ALONE:
                folder.chmod(_OWNER_ALONE)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise OSError(
            f"Expected a folder for private features at {home}, got: {error.strerror}; make it "
            "writable, or set MASQUERADE_CACHE to another folder."
        ) from error
