"""Pictures of a data set: a contact sheet, a film, one recording with all that is known of it."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from masquerade import _check
from masquerade.collection import Collection
from masquerade.datasets.stage import Stage
from masquerade.io import atomic
from masquerade.io.video import write as writer
from masquerade.recordings import Photo, Signal, Video
from masquerade.report import plots, sheet

_ACROSS = 8  # pictures in a row
_TALL = 128  # pixels; larger pictures are shown smaller
_MOST_FRAMES = 96  # of a recording in a film


def show(collection: Collection[Any], folder: Path, *, count: int = 12) -> list[Path]:
    """Write pictures of the first recordings of each activity; give the files.

    Args:
        collection: of videos, photos or signals.
        folder: where to; it is made.
        count: how many recordings.
    """
    _check.count(count=count)
    chosen = [collection[index] for index in pick(collection, count)]
    if not chosen:
        raise ValueError("Expected at least one recording, got an empty collection.")
    folder.mkdir(parents=True, exist_ok=True)
    names = getattr(collection, "joint_names", getattr(collection, "JOINTS", ()))
    if isinstance(chosen[0], Signal):
        files = {"sheet.svg": _signals(chosen[0], collection.activities).encode()}
    elif isinstance(chosen[0], Photo):
        files = {"sheet.svg": photo_sheet(chosen, names).encode()}
    else:
        files = {"sheet.svg": video_sheet(chosen).encode(), "film.mp4": film(chosen)}
    for name, data in files.items():
        atomic.write_whole(folder / name, data, is_private=not collection.ABOUT.is_made_up)
    return [folder / name for name in files]


def pick(collection: Collection[Any], count: int) -> list[int]:
    """Indices of ``count`` recordings, one an activity as far as there are, then the next ones."""
    first: dict[str | None, int] = {}
    for index, labels in enumerate(collection.labels):
        first.setdefault(labels.activity, index)
    chosen = sorted(first.values())[:count]
    rest = (index for index in range(len(collection)) if index not in chosen)
    return sorted([*chosen, *islice(rest, count - len(chosen))])


def video_sheet(videos: Sequence[Video]) -> str:
    """A row of frames for each video."""
    return sheet.sheet(
        [
            _strip(video.activity or "video", [_smaller(video.frames[at]) for at in _times(video)])
            for video in videos
        ]
    )


def photo_sheet(photos: Sequence[Photo], joint_names: Sequence[str]) -> str:
    """Photos in rows, with their joints if their names are known."""
    pictures = []
    for photo in photos:
        joints = photo.joints if joint_names else None
        joints = None if joints is None else joints / _step(photo.image)
        pictures.append(sheet.Picture(image=_smaller(photo.image), joints=joints))
    strips = [
        sheet.Strip(label="" if start else "photos", pictures=pictures[start : start + _ACROSS])
        for start in range(0, len(pictures), _ACROSS)
    ]
    return sheet.sheet(strips, joint_names=joint_names)


def film(videos: Sequence[Video]) -> bytes:
    """The videos one after the other, as an .mp4; those of another size are left out."""
    shape = videos[0].frames.shape[1:]
    frames = [
        frame
        for video in videos
        if video.frames.shape[1:] == shape
        for frame in video.frames[:_MOST_FRAMES]
    ]
    stream = io.BytesIO()
    rate = Fraction(videos[0].rate_hz).limit_denominator(1001)
    writer.write(stream, frames, suffix=".mp4", rate=rate)
    return stream.getvalue()


def together(stage: Stage, index: int) -> str:
    """One video of Stage with its mask, its joints and what the actor's wrist would have felt."""
    video = stage[index]
    if not isinstance(video, Video) or video.person_mask is None or video.joints is None:
        raise ValueError(f"Expected a stage of videos, got kind={stage.kind}.")
    times = _times(video)
    frames = video.frames[times]
    masks = 255 * np.repeat(video.person_mask[times, ..., None], 3, axis=3)
    joints = [
        sheet.Picture(image=frame, joints=at)
        for frame, at in zip(frames, video.joints[times], strict=True)
    ]
    strips = [
        _strip(str(video.activity), frames),
        _strip("person mask", masks.astype(np.uint8)),
        sheet.Strip(label="joints", pictures=joints),
    ]
    return sheet.sheet(strips, joint_names=stage.joint_names, wave=stage.wrist(index))


def _times(video: Video) -> np.ndarray:
    """Of the frames that are shown."""
    return np.linspace(0, len(video.frames) - 1, min(_ACROSS, len(video.frames))).astype(int)


def _strip(label: str, images: Iterable[np.ndarray]) -> sheet.Strip:
    return sheet.Strip(label=label, pictures=[sheet.Picture(image=image) for image in images])


def _signals(signal: Signal, activities: Sequence[str]) -> str:
    """The first sensor of one recording over time."""
    seconds = np.arange(len(signal.values)) / signal.rate_hz
    lines = [
        plots.Line(name=name, x=seconds, y=signal.values[:, column])
        for column, name in enumerate(
            signal.channels[:3] or ("x", "y", "z")[: signal.values.shape[1]]
        )
    ]
    title = f"One of {len(activities)} activities at a time, {signal.rate_hz:g} Hz"
    return plots.draw_lines(lines, plots.Axes(title=title, x_label="seconds", y_label="reading"))


def _step(image: np.ndarray) -> int:
    return max(1, -(-int(max(image.shape[:2])) // (2 * _TALL)))


def _smaller(image: np.ndarray) -> np.ndarray:
    step = _step(image)
    return np.ascontiguousarray(image[::step, ::step])
