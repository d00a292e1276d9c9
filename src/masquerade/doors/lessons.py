"""From a data set to what a run learns from: views, segments, and the frozen trunk's output, once.

What the trunk gives for private recordings is private: it is held in memory up to a limit, beyond
it in a folder that only its owner can read and that is removed at the end.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from masquerade import _check
from masquerade._optional import require
from masquerade.collection import Collection, Kind
from masquerade.data.folder import Folder
from masquerade.errors import BadInput
from masquerade.nets import mvit
from masquerade.recordings import Video
from masquerade.train import views
from masquerade.train.method import Method
from masquerade.train.rows import Rows, slots_of
from masquerade.train.views import Private

torch = require("torch", extra="train")
Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Where the trunk's output is kept.

    Args:
        most_mb: in memory; more goes to disk.
        folder: on disk; the system's folder for temporary files if None.
        is_kept: whether the file stays. It is as private as the recordings.
        device: where the trunk runs and the rows lie.
    """

    most_mb: int = 4096
    folder: Path | None = None
    is_kept: bool = False
    device: str = "cpu"

    def __post_init__(self) -> None:
        _check.not_negative(most_mb=self.most_mb)
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("Expected a GPU for device=cuda, found none; use device=cpu.")
        if self.device not in ("cpu", "cuda"):
            raise ValueError(_check.unknown("device", self.device, ("cpu", "cuda")))


@dataclass(frozen=True, kw_only=True, eq=False)
class Lessons:
    """Rows, and what is public about them.

    Args:
        rows: to learn from.
        mask_sha256: fingerprint of the masks, where they are used.
    """

    rows: Rows
    mask_sha256: str | None


def split_of(collection: Collection[Any], wanted: str) -> Collection[Any]:
    """The part of a data set that is meant, unless its own flag names another one.

    Raises:
        BadInput: if it holds no videos.
    """
    if getattr(collection, "kind", collection.ABOUT.kind) != Kind.VIDEOS:
        raise BadInput(f"Expected a data set of videos, got {collection.ABOUT.title}.")
    usual = type(collection).__dataclass_fields__.get("split")  # type: ignore[attr-defined]
    is_chosen = usual is None or getattr(collection, "split", None) != usual.default
    if is_chosen or (isinstance(collection, Folder) and not collection.has_splits):
        return collection
    return replace(collection, split=wanted)  # type: ignore[type-var]


def classes_of(collection: Collection[Any]) -> tuple[str, ...]:
    """The public list of classes.

    Raises:
        BadInput: if the data set has none.
    """
    if len(collection.activities) < 2:
        raise BadInput("Expected a data set with at least two activities to learn, got fewer.")
    return collection.activities


@contextlib.contextmanager
def lessons(
    collection: Collection[Any],
    method: Method,
    net: Any,
    trunk: Any,
    *,
    memory: Memory,
    progress: Progress,
) -> Iterator[Lessons]:
    """Read every recording once and give the rows; what is on disk is removed afterwards."""
    names = classes_of(collection)
    private = Private(getattr(method, "private", Private.BACKGROUND.value))
    sinks: dict[str, _Sink] = {"private": _Sink(len(collection) * method.segments, memory)}
    if method.HAS_PUBLIC:
        sinks["public"] = _Sink(len(collection) * method.segments, memory)
    targets, owners, masks = [], [], []
    try:
        for index in range(len(collection)):
            video = _video(collection, index)
            shown = {"private": video.frames}
            if method.HAS_PUBLIC:
                shown["public"] = views.filled(video.frames, video.person_mask, private)
                masks.append(video.person_mask)
            if not method.HAS_PRIVATE:
                shown["private"] = shown["public"]
            for view, frames in shown.items():
                sinks[view].add(_activations(frames, method, net, trunk, memory.device))
            targets += [_target(video, names, collection.labels[index].name)] * method.segments
            owners.append(_owner(video, index, method, collection.labels[index].name))
            progress(index + 1, len(collection))
        most = method.recordings if method.unit == "subject" else 1
        yield Lessons(
            rows=Rows(
                private=sinks["private"].tensor(),
                public=sinks["public"].tensor() if method.HAS_PUBLIC else None,
                targets=torch.tensor(targets, device=memory.device),
                slots=slots_of(owners, segments=method.segments, most=most),
            ),
            mask_sha256=views.fingerprint([m for m in masks if m is not None]) if masks else None,
        )
    finally:
        for sink in sinks.values():
            sink.close()


def films_of(
    collection: Collection[Any], name: str, *, progress: Progress
) -> Iterator[tuple[Any, int]]:
    """Each recording's middle segment as a network wants it, (1, 3, T, H, W), with its class."""
    names = classes_of(collection)
    for index in range(len(collection)):
        video = _video(collection, index)
        cut = views.segments(video.frames, count=1, length=mvit.NORMALISATION[name].frames)
        yield mvit.prepare(cut, name), _target(video, names, collection.labels[index].name)
        progress(index + 1, len(collection))


def _video(collection: Collection[Any], index: int) -> Video:
    video = collection[index]
    if not isinstance(video, Video):
        raise BadInput(f"Expected videos to learn from, got {type(video).__name__}s.")
    return video


def _activations(frames: np.ndarray, method: Method, net: Any, trunk: Any, device: str) -> Any:
    length = mvit.NORMALISATION[net.name].frames
    films = mvit.prepare(views.segments(frames, count=method.segments, length=length), net.name)
    with torch.no_grad():
        return trunk(films.to(device))


def _target(video: Video, names: Sequence[str], what: str) -> int:
    if video.activity not in names:
        raise BadInput(f"Expected an activity of the list with {what}, got {video.activity!r}.")
    return names.index(video.activity)


def _owner(video: Video, index: int, method: Method, what: str) -> str | int:
    if method.unit != "subject":
        return index
    if video.subject is None:
        raise BadInput(f"Expected to know who is in {what} for --unit subject, got nobody.")
    return video.subject


class _Sink:
    """Collects rows in memory, or in a private file where they are too many."""

    def __init__(self, rows: int, memory: Memory) -> None:
        self._rows, self._memory, self._next = rows, memory, 0
        self._held: Any = None
        self._folder: Path | None = None

    def add(self, some: Any) -> None:
        if self._held is None:
            self._held = self._room(some)
        self._held[self._next : self._next + len(some)] = some.to(self._held.device)
        self._next += len(some)

    def tensor(self) -> Any:
        return self._held

    def close(self) -> None:
        self._held = None
        if self._folder is not None and not self._memory.is_kept:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _room(self, some: Any) -> Any:
        shape = (self._rows, *some.shape[1:])
        size_mb = some[0].numel() * 4 * self._rows / 2**20
        if size_mb <= self._memory.most_mb:
            return torch.empty(shape, device=self._memory.device)
        self._folder = Path(tempfile.mkdtemp(prefix="masquerade-", dir=self._memory.folder))
        file = self._folder / "private-activations.npy"
        held = np.lib.format.open_memmap(file, mode="w+", dtype=np.float32, shape=shape)
        return torch.from_numpy(held)
