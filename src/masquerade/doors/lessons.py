"""From a data set to what a run learns from: views, segments, and the frozen trunk's output, once.

What the trunk gives for private recordings is private: it is held in memory up to a limit, beyond
it in a folder that only its owner can read and that is removed at the end.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from masquerade import _check
from masquerade._optional import require
from masquerade.collection import Collection
from masquerade.doors.faults import private_item, unnamed
from masquerade.doors.owners import owner_of, units_of
from masquerade.errors import BadInput
from masquerade.nets import mvit
from masquerade.recordings import Video
from masquerade.train import views
from masquerade.train.loop import Precision, lowered
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
        precision: in which the trunk runs; bfloat16 on a GPU alone.
    """

    most_mb: int = 4096
    folder: Path | None = None
    is_kept: bool = False
    device: str = "cpu"
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        _check.not_negative(most_mb=self.most_mb)
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("Expected a GPU for device=cuda, found none; use device=cpu.")
        if self.device not in ("cpu", "cuda"):
            raise ValueError(_check.unknown("device", self.device, ("cpu", "cuda")))
        if self.precision not in get_args(Precision):
            raise ValueError(_check.unknown("precision", self.precision, get_args(Precision)))
        if self.precision == "bfloat16" and self.device != "cuda":
            raise ValueError("Expected device=cuda for precision=bfloat16; use precision=float32.")


@dataclass(frozen=True, kw_only=True, eq=False)
class Lessons:
    """Rows, and what is public about them.

    Args:
        rows: to learn from.
        mask_sha256: fingerprint of the masks, where they are used.
        units: the unit of each recording.
    """

    rows: Rows
    mask_sha256: str | None
    units: tuple[int, ...]


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
    see: Callable[[Video], None] = lambda video: None,
) -> Iterator[Lessons]:
    """Read every recording once and give the rows; what is on disk is removed afterwards."""
    names = classes_of(collection)
    private = Private(getattr(method, "private", Private.BACKGROUND.value))
    sinks: dict[str, Sink] = {"private": Sink(len(collection) * method.segments, memory)}
    if method.HAS_PUBLIC:
        sinks["public"] = Sink(len(collection) * method.segments, memory)
    targets, owners = [], []
    masks: list[Any] = []
    known: dict[bytes, bytes] = {}
    try:
        for index in range(len(collection)):
            video = video_of(private_item(collection, index))
            see(video)
            shown = {"private": video.frames}
            if method.HAS_PUBLIC:
                shown["public"] = views.public_view(video, private)
                masks.append(video.person_mask)
                _refuse_two_masks(video, known)
            if not method.HAS_PRIVATE:
                shown["private"] = shown["public"]
            for view, frames in shown.items():
                sinks[view].add(_activations(frames, method, net, trunk, memory))
            with unnamed():
                targets += [_target(video, names)] * method.segments
            owners.append(owner_of(video, index, str(method.unit), collection.labels[index].name))
            progress(index + 1, len(collection))
        most = method.recordings if method.unit == "subject" else 1
        yield Lessons(
            rows=Rows(
                private=sinks["private"].tensor(),
                public=sinks["public"].tensor() if method.HAS_PUBLIC else None,
                targets=torch.tensor(targets, device=memory.device),
                slots=slots_of(owners, segments=method.segments, most=most),
            ),
            mask_sha256=views.fingerprint(masks) if masks else None,
            units=units_of(owners),
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
        video = video_of(collection[index])
        cut = views.segments(video.frames, count=1, length=mvit.NORMALISATION[name].frames)
        yield mvit.prepare(cut, name), _target(video, names)
        progress(index + 1, len(collection))


def video_of(recording: Any) -> Video:
    """A recording that must be a video."""
    if not isinstance(recording, Video):
        raise BadInput(f"Expected videos to learn from, got {type(recording).__name__}s.")
    return recording


def _refuse_two_masks(video: Video, known: dict[bytes, bytes]) -> None:
    """A recording that is listed twice has one mask: two could together show all of it."""
    content = hashlib.sha256(repr(video.frames.shape).encode())
    content.update(video.frames.tobytes())
    found = views.mark(video)
    if known.setdefault(content.digest(), found) != found:
        raise BadInput(
            "Expected one mask with a recording that is listed twice, got two: what is private "
            "under one would be used without noise under the other. List it once."
        )


def _activations(frames: np.ndarray, method: Method, net: Any, trunk: Any, memory: Memory) -> Any:
    length = mvit.NORMALISATION[net.name].frames
    films = mvit.prepare(views.segments(frames, count=method.segments, length=length), net.name)
    with torch.no_grad(), lowered(memory.device, memory.precision):
        return trunk(films.to(memory.device))


def _target(video: Video, names: Sequence[str]) -> int:
    if video.activity not in names:
        raise BadInput("Expected an activity of the list with every recording, got another.")
    return names.index(video.activity)


class Sink:
    """Collects rows in memory, or in a private file where they are too many.

    Args:
        rows: that will be added in all.
        memory: where.
    """

    def __init__(self, rows: int, memory: Memory) -> None:
        self._rows, self._memory, self._next = rows, memory, 0
        self._held: Any = None
        self._folder: Path | None = None

    def add(self, some: Any) -> None:
        """The next rows."""
        if self._held is None:
            self._held = self._room(some)
        self._held[self._next : self._next + len(some)] = some.to(self._held.device)
        self._next += len(some)

    def tensor(self) -> Any:
        """All of them."""
        return self._held

    def close(self) -> None:
        """Let go of them, and remove the file."""
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
