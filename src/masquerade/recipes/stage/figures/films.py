"""What a film of Stage tells a small network: from all of it, one frame, or the empty place."""

from __future__ import annotations

import numpy as np

from masquerade.datasets.stage import Stage
from masquerade.networks import convolutions
from masquerade.networks.without_privacy import Course, Progress, taught_top_1
from masquerade.recipes.bench import recordings

Learned = tuple[np.ndarray, np.ndarray]  # inputs, and the class of each
_PX = 64  # of a film, made that small


def film_stage(**options: float | int) -> Stage:
    """A world of many short films, large enough to learn from."""
    sizes: dict[str, float | int] = {"height": _PX, "width": _PX, "subjects": 84, "videos": 2_592}
    return Stage(**(sizes | options))  # type: ignore[arg-type]


def activity_from_video(progress: Progress) -> dict[str, float]:
    """Top-1 of a 3D network on grey frames and their differences, on people it has not seen."""
    stage = film_stage()
    stage.make(progress=progress)
    net = convolutions.classifier(
        axes=3, channels=2, classes=len(stage.activities), widths=(8, 16, 48, 96)
    )
    course = Course(epochs=14, rate=4e-3, flips=True, shifts=6)
    learned, unseen = _films(stage, "public", "train"), _films(stage, "test")
    return {"top_1": taught_top_1(net, learned, unseen, course=course, progress=progress)}


def activity_from_frame(progress: Progress) -> dict[str, float]:
    """Top-1 of a 2D network that sees one frame, on people it has not seen."""
    stage = film_stage()
    stage.make(progress=progress)
    net = convolutions.classifier(axes=2, channels=3, classes=len(stage.activities))
    course = Course(epochs=10, batch=64, flips=True, shifts=6)
    learned, unseen = _frames(stage, "public", "train", each=4), _frames(stage, "test", each=2)
    return {"top_1": taught_top_1(net, learned, unseen, course=course, progress=progress)}


def activity_from_background(correlation: float, progress: Progress) -> dict[str, float]:
    """Top-1 of a 2D network that sees the empty place alone."""
    stage = film_stage(correlation=correlation)
    learned, unseen = _places(stage, progress, "public", "train"), _places(stage, progress, "test")
    net = convolutions.classifier(axes=2, channels=3, classes=len(stage.activities))
    course = Course(epochs=20, batch=64, shifts=6)
    top_1 = taught_top_1(net, learned, unseen, course=course, progress=progress)
    return {"top_1": top_1, "chance": 1 / len(stage.activities), "correlation": correlation}


def _places(stage: Stage, progress: Progress, *splits: str) -> Learned:
    """(N, 3, H, W) bytes: where each video is, with nobody in it."""
    chosen = [stage.part(split) for split in splits]
    total = sum(map(len, chosen))
    images, targets = [], []
    for one in chosen:
        for index, known in enumerate(one.labels):
            images.append(np.moveaxis(one.empty(index), -1, 0))
            targets.append(stage.activities.index(str(known.activity)))
            progress(len(images), total)
    return np.stack(images), np.array(targets)


def _films(stage: Stage, *splits: str) -> Learned:
    """(N, 2, T, 48, 48) bytes: brightness, and its change to the next frame around 128."""
    inputs, targets = [], []
    for video in recordings(stage, *splits):
        grey = _smaller(video.frames.astype(np.float32).mean(axis=-1))
        change = np.diff(grey, axis=0, append=grey[-1:])
        both = np.stack([grey, 2 * change + 127.5])
        inputs.append(np.clip(both, 0, 255).astype(np.uint8))
        targets.append(stage.activities.index(video.activity))
    return np.stack(inputs), np.array(targets)


def _frames(stage: Stage, *splits: str, each: int) -> Learned:
    """(N, 3, H, W) bytes: a few frames of each video, at any time."""
    rng = np.random.default_rng(1)
    inputs, targets = [], []
    for video in recordings(stage, *splits):
        for time in rng.integers(0, len(video.frames), each):
            inputs.append(np.moveaxis(video.frames[time], -1, 0))
            targets.append(stage.activities.index(video.activity))
    return np.stack(inputs), np.array(targets)


def _smaller(grey: np.ndarray) -> np.ndarray:
    """(T, 64, 64) to (T, 48, 48): means over 4 of 12 thirds of a pixel."""
    fine = grey.repeat(3, axis=1).repeat(3, axis=2)
    frames, height, width = fine.shape
    found: np.ndarray = fine.reshape(frames, height // 4, 4, width // 4, 4).mean(axis=(2, 4))
    return found
