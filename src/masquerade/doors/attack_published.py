"""Published files: which there are, what their receipts say, and whose recordings they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

import numpy as np

from masquerade.attack.case import Recording
from masquerade.collection import Labels
from masquerade.doors.publish import rehearsal_name
from masquerade.doors.receipt import check_receipt, promise_of
from masquerade.doors.source import SUFFIXES
from masquerade.errors import BadInput
from masquerade.files import arrays
from masquerade.mechanism import Mechanism
from masquerade.receipt import SUFFIX, receipt_path
from masquerade.recordings import Photo, Signal, Video
from masquerade.video import read

_OPAQUE = re.compile("[0-9a-f]{16}")
_REHEARSED = rehearsal_name(Path("a.b")).suffixes[0]


def files_in(published: Sequence[Path]) -> list[tuple[Path, Path]]:
    """Published files, each with the folder from which its name counts.

    Raises:
        BadInput: if there is none, or one of no kind that we know.
    """
    found: list[tuple[Path, Path]] = []
    for path in published:
        if path.is_dir():
            inside = sorted(each for each in path.rglob("*") if _is_published(each, path))
            found += [(each, path) for each in inside]
        else:
            found.append((path, path.parent))
    for path, _ in found:
        if not path.is_file():
            raise BadInput(f"Expected a published file at {path}; there is none.")
        if path.suffix.lower() not in SUFFIXES:
            raise BadInput(
                f"Expected published recordings ({' '.join(SUFFIXES)}), got {path}; move it away, "
                "or name the files."
            )
    if not found:
        raise BadInput(
            f"Expected published recordings in {', '.join(map(str, published))}, got none."
        )
    return found


def _is_published(path: Path, folder: Path) -> bool:
    """Not a folder, nothing hidden, and no receipt or signature of another file."""
    is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return path.is_file() and not is_hidden and SUFFIX not in path.name


def released_by(files: Sequence[Path]) -> Mechanism | None:
    """The one mechanism that their receipts name; None where no file has a receipt.

    Raises:
        BadInput: if only some have one, if they do not agree, or if a file was changed.
    """
    without = [path for path in files if not receipt_path(path).is_file()]
    if len(without) == len(files):
        return None
    if without:
        raise BadInput(
            f"Expected a receipt beside every file or none, got none beside {without[0]}; put it "
            "back, or attack these files by themselves."
        )
    receipts = [check_receipt(path) for path in files]
    first = receipts[0]
    for path, receipt in zip(files, receipts, strict=True):
        if (receipt.mechanism, receipt.fields) != (first.mechanism, first.fields):
            raise BadInput(
                f"Expected files that were released in one way, got {first.mechanism} for "
                f"{files[0].name} and {receipt.mechanism} with other fields for {path}; attack "
                "them one after the other."
            )
    made: Mechanism = promise_of(first)
    return made


@dataclass(frozen=True, kw_only=True)
class RecordingNames:
    """Recordings by the ends of their names, without suffixes."""

    known: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, labels: Sequence[Labels]) -> RecordingNames:
        """Every end of every name."""
        known: dict[str, list[int]] = {}
        for number, each in enumerate(labels):
            parts = _stem(PurePosixPath(each.name)).parts
            for start in range(len(parts)):
                known.setdefault("/".join(parts[start:]), []).append(number)
        return cls(known=known)

    def number(self, path: Path, root: Path) -> int:
        """The recording that a file was made from: the one whose name ends like the file's."""
        own = _stem(PurePosixPath(path.relative_to(root).as_posix())).parts
        for start in range(len(own)):
            found = self.known.get("/".join(own[start:]), [])
            if len(found) == 1:
                return found[0]
            if found:
                raise BadInput(
                    f"Expected a name that one recording of the data set has, got {path}, which "
                    f"{len(found)} have; publish them in folders, as the data set does."
                )
        if _OPAQUE.fullmatch(own[-1]):
            raise BadInput(
                f"Expected a file named as its recording, got the opaque name {path.name}: nobody "
                "can tell what it was made from. For a test, release with --keep-names."
            )
        raise BadInput(
            f"Expected a file named as a recording of the data set, got {path}; check --data and "
            "its fields, and that names were kept (--keep-names)."
        )


def _stem(path: PurePosixPath) -> PurePosixPath:
    """Without what tells the kind of file, and that it is a rehearsal."""
    bare = path.with_suffix("") if path.suffix.lower() in SUFFIXES else path
    return bare.with_suffix("") if bare.suffix == _REHEARSED else bare


class PublishedFiles(Sequence[Recording]):
    """Published files with what is true about them, read one at a time."""

    def __init__(self, *, paths: Sequence[Path], raw: Sequence[Recording]) -> None:
        self._paths, self._raw = paths, raw

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> Recording:  # type: ignore[override]  # no slices
        path, raw = self._paths[index], self._raw[index]
        match raw:
            case Video():
                frames = read.whole(path)[0]
                return replace(raw, frames=_fitting(frames, raw.frames, path))
            case Photo():
                [image] = read.whole(path)[0][:1]
                return replace(raw, image=_fitting(image, raw.image, path))
            case Signal():
                values = np.asarray(arrays.read(path).arrays[0]).astype(np.float32)
                return replace(raw, values=_fitting(values, raw.values, path))

    def __iter__(self) -> Iterator[Recording]:
        return (self[index] for index in range(len(self)))


def _fitting(published: np.ndarray, raw: np.ndarray, path: Path) -> np.ndarray:
    if published.shape != raw.shape:
        raise BadInput(
            f"Expected {path} to be of the shape of its recording, {raw.shape}, got "
            f"{published.shape}; check --data and its fields."
        )
    return published
