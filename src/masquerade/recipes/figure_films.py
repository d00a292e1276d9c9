"""What a film of Stage tells a small network: from all of it, one frame, or the empty place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from masquerade.collection import Labels
from masquerade.data.stage import Stage
from masquerade.nets import conv
from masquerade.recipes import learning
from masquerade.recipes.learning import Course
from masquerade.recordings import Video

Progress = Callable[[int, int], None]
_PX = 64  # of a film, made that small


def film_stage(**options: float | int) -> Stage:
    """A world of many short films, large enough to learn from."""
    sizes: dict[str, float | int] = {"height": _PX, "width": _PX, "subjects": 84, "videos": 2_592}
    return Stage(**(sizes | options))  # type: ignore[arg-type]


def activity_from_video(progress: Progress) -> dict[str, float]:
    """Top-1 of a 3D network on grey frames and their differences, on people it has not seen."""
    stage = film_stage()
    stage.make(progress=progress)
    inputs, targets = _films(stage, ("public", "train"))
    unseen, right = _films(stage, ("test",))
    net = conv.classifier(axes=3, channels=2, classes=len(stage.activities), widths=(8, 16, 48, 96))
    course = Course(epochs=14, rate=4e-3, flips=True, shifts=6)
    _fit(net, inputs, targets, course, progress)
    return {"top_1": learning.top_1(learning.predict(net, unseen), right)}


def activity_from_frame(progress: Progress) -> dict[str, float]:
    """Top-1 of a 2D network that sees one frame, on people it has not seen."""
    stage = film_stage()
    stage.make(progress=progress)
    inputs, targets = _frames(stage, ("public", "train"), each=4)
    unseen, right = _frames(stage, ("test",), each=2)
    net = conv.classifier(axes=2, channels=3, classes=len(stage.activities))
    _fit(net, inputs, targets, Course(epochs=10, batch=64, flips=True, shifts=6), progress)
    return {"top_1": learning.top_1(learning.predict(net, unseen), right)}


def activity_from_background(correlation: float, progress: Progress) -> dict[str, float]:
    """Top-1 of a 2D network that sees the empty place alone."""
    stage = film_stage(correlation=correlation)
    parts = []
    for splits in (("public", "train"), ("test",)):
        chosen = [replace(stage, split=split) for split in splits]
        total = sum(map(len, chosen))
        images, labels = [], []
        for one in chosen:
            for index, known in enumerate(one.labels):
                images.append(one.empty(index))
                labels.append(_activity(stage, known))
                progress(len(images), total)
        parts.append((np.moveaxis(np.stack(images), -1, 1), np.array(labels)))
    (inputs, targets), (unseen, right) = parts
    net = conv.classifier(axes=2, channels=3, classes=len(stage.activities))
    _fit(net, inputs, targets, Course(epochs=20, batch=64, flips=False, shifts=6), progress)
    top_1 = learning.top_1(learning.predict(net, unseen), right)
    return {"top_1": top_1, "chance": 1 / len(stage.activities), "correlation": correlation}


at_chance = partial(activity_from_background, 0.0)
correlated = partial(activity_from_background, 0.9)


def _activity(stage: Stage, known: Labels) -> int:
    return stage.activities.index(str(known.activity))


def _fit(
    net: object, inputs: np.ndarray, targets: np.ndarray, course: Course, progress: Progress
) -> None:
    rng = np.random.default_rng(0)
    loss = learning.cross_entropy
    learning.fit(net, inputs, targets, loss, course=course, rng=rng, progress=progress)


def _films(stage: Stage, splits: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """(N, 2, T, 48, 48) bytes: brightness, and its change to the next frame around 128."""
    inputs, targets = [], []
    for video, activity in _every(stage, splits):
        grey = _smaller(video.frames.astype(np.float32).mean(axis=-1))
        change = np.diff(grey, axis=0, append=grey[-1:])
        both = np.stack([grey, 2 * change + 127.5])
        inputs.append(np.clip(both, 0, 255).astype(np.uint8))
        targets.append(activity)
    return np.stack(inputs), np.array(targets)


def _frames(stage: Stage, splits: tuple[str, ...], *, each: int) -> tuple[np.ndarray, np.ndarray]:
    """(N, 3, H, W) bytes: a few frames of each video, at any time."""
    rng = np.random.default_rng(1)
    inputs, targets = [], []
    for video, activity in _every(stage, splits):
        for time in rng.integers(0, len(video.frames), each):
            inputs.append(np.moveaxis(video.frames[time], -1, 0))
            targets.append(activity)
    return np.stack(inputs), np.array(targets)


def _every(stage: Stage, splits: tuple[str, ...]) -> list[tuple[Video, int]]:
    found = []
    for split in splits:
        for video in replace(stage, split=split):  # type: ignore[arg-type]
            if isinstance(video, Video):
                found.append((video, stage.activities.index(str(video.activity))))
    return found


def _smaller(grey: np.ndarray) -> np.ndarray:
    """(T, 64, 64) to (T, 48, 48): means over 4 of 12 thirds of a pixel."""
    fine = grey.repeat(3, axis=1).repeat(3, axis=2)
    frames, height, width = fine.shape
    found: np.ndarray = fine.reshape(frames, height // 4, 4, width // 4, 4).mean(axis=(2, 4))
    return found
