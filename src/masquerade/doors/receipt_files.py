"""Published files: which they are, and whether each is the one that its receipt describes."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from masquerade import catalog, video
from masquerade.doors.learned import SUFFIX as PRIVATE_LIST
from masquerade.doors.source import Limits, find
from masquerade.errors import BadInput
from masquerade.mechanism import Mechanism, Shapes
from masquerade.receipt import SUFFIX, Receipt, along_path, receipt_path
from masquerade.video import probe
from masquerade.video.formats import MAX_PIXELS

_LEAST_PACKED = 64  # noise does not pack: how many times its size a release unpacks to, at most
_LOOKS, _MOST_NUMBERS = 8, 1 << 26  # of a film's frames some are looked at


def published_files(paths: Iterable[Path | str]) -> list[Path]:
    """The files themselves, and of folders all that is in them and was published.

    Receipts, signatures and private lists of what models learned from were not.

    Raises:
        BadInput: if a folder holds none.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        if not path.is_dir():
            found.append(path)
            continue
        inside = [one for one in sorted(path.rglob("*")) if _is_published(one, path)]
        if not inside:
            raise BadInput(f"Expected published files in {path}, got none; is this the folder?")
        found += inside
    return found


def private_lists(paths: Iterable[Path | str]) -> list[Path]:
    """Private lists of what models learned from that stand in folders to be published."""
    folders = [path for path in map(Path, paths) if path.is_dir()]
    return [one for folder in folders for one in sorted(folder.rglob(f"*{PRIVATE_LIST}"))]


def warnings_of(private: Iterable[Path]) -> list[str]:
    """A line for each of these lists."""
    return [f"! {path} is PRIVATE: take it out before you publish." for path in private]


def _is_published(path: Path, folder: Path) -> bool:
    is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    is_beside = SUFFIX in path.name or path.name.endswith(PRIVATE_LIST)
    return path.is_file() and not is_hidden and not is_beside and not _goes_along(path)


def _goes_along(path: Path) -> bool:
    """Whether another file's receipt vouches for it; that file is checked, and this one with it."""
    if receipt_path(path).exists():
        return False
    stem = path.name.partition(".")[0]
    for beside in path.parent.glob(f"{glob.escape(stem)}*{SUFFIX}"):
        with contextlib.suppress(OSError, ValueError):
            named = Receipt.from_json(beside.read_text(encoding="utf-8")).along
            target = beside.with_name(beside.name.removesuffix(SUFFIX))
            if path in [along_path(target, suffix) for suffix in named]:
                return True
    return False


def compare_with_file(receipt: Receipt, promise: object, path: Path) -> bool | None:
    """Refuse a file of other shapes: a guarantee depends on them; a model states others.

    Returns:
        Whether it looks like an output of the mechanism; None where nobody can say.
    """
    if receipt.mechanism in catalog.names("train"):
        if path.suffix != ".safetensors":
            raise BadInput(f"Expected a model (.safetensors) by its receipt, got {path.name}.")
        return None
    looks = _Looks(receipt)
    try:
        found = _shapes_in(path, _limits(receipt.shapes, path), looks)
    except ValueError as error:
        raise BadInput(f"Expected a file that can be released, got another: {error}") from error
    if receipt.shapes not in found:
        raise BadInput(
            f"Expected {path.name} to hold numbers of shape {_said(receipt.shapes)}, as its "
            f"receipt says, got {_said(found[0])}; the receipt is of another file, or was edited."
        )
    if not looks.frames or not isinstance(promise, Mechanism):
        return None
    return promise.looks_released(looks.frames, receipt.shapes[0], receipt.public_seeds)


class _Looks:
    """Some frames of a film, from its first to its last; no more than fit, whatever it states."""

    def __init__(self, receipt: Receipt) -> None:
        self.frames: list[np.ndarray] = []
        self._every, self._count = -(-receipt.shapes[0][0] // _LOOKS), 0
        self._room = _MOST_NUMBERS

    def add(self, frame: np.ndarray) -> None:
        """Keep it if it is one of those."""
        if self._count % self._every == 0 and self._room > 0:
            self.frames.append(frame)
            self._room -= frame.size
        self._count += 1


def compare_along(receipt: Receipt, path: Path) -> None:
    """What was published with a file must stand beside it, unchanged."""
    for suffix, digest in receipt.along.items():
        other = along_path(path, suffix)
        if not other.is_file():
            raise BadInput(
                f"Expected {other.name} beside {path.name}, with which it was released; it is gone."
            )
        with other.open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != digest:
                raise BadInput(
                    f"Expected {other.name} to be the file that was released with {path.name}; it "
                    "was changed."
                )


def _limits(shapes: Shapes, path: Path) -> Limits:
    """As large as the receipt says, where a file of that size on disk may well be."""
    usual, size = Limits(), path.stat().st_size
    numbers = sum(map(math.prod, shapes))
    pixels = max(math.prod(shape[1:3]) for shape in shapes)
    return Limits(
        max_pixels=min(max(usual.max_pixels, pixels), MAX_PIXELS),
        max_bytes=max(usual.max_bytes, min(8 * numbers, _LEAST_PACKED * size)),
    )


def _shapes_in(path: Path, limits: Limits, looks: _Looks) -> list[Shapes]:
    """The shapes a file may state; a .csv does not tell a heading, nor one axis from a column."""
    if video.is_video(path):
        return [(probe.probe(path, max_pixels=limits.max_pixels, see=looks.add).shape,)]
    if path.suffix.lower() != ".csv":
        return [find(path, limits=limits).shapes]
    tables = []
    for heading in (False, True):
        with contextlib.suppress(BadInput):
            tables.append(find(path, heading=heading, limits=limits).shapes)
    if not tables:
        raise BadInput(f"Expected numbers in {path.name}; there are none.")
    return tables + [((rows,),) for ((rows, columns),) in tables if columns == 1]


def _said(shapes: Shapes) -> str:
    return ", ".join(" x ".join(map(str, shape)) for shape in shapes)
