"""What pictures of Stage tell about people: who it is, what they look like, where joints are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from masquerade._optional import require
from masquerade.attacks.attribute_inference import class_mean_average_precision
from masquerade.collection import Medium
from masquerade.datasets.stage import Stage
from masquerade.networks import convolutions, without_privacy
from masquerade.networks.without_privacy import Course, Progress, fit
from masquerade.recipes.bench import recordings

torch = require("torch", extra="train")

_SIZE, _LARGE = (64, 48), (96, 72)  # height and width of a person cut out of a frame
ATTRIBUTES = ("skin_tone", "gender", "face", "build", "clothing")
_GALLERY = 4  # takes of each person that are known


def subject_from_video(progress: Progress) -> dict[str, float]:
    """Rank-1 among people whom the network has not seen, by nearest neighbour of its features."""
    stage = Stage(subjects=210, videos=2_520, frames=4, rate_hz=2.5, bystanders=0.0)
    stage.make(progress=progress)
    people, _, names = _crops(stage, "public", "train")
    known = sorted(set(names))
    targets = np.array([known.index(name) for name in names])
    net = convolutions.classifier(axes=2, channels=3, classes=len(known))
    course = Course(epochs=12, batch=64, flips=True, shifts=3)
    fit(net, people, targets, course=course, progress=progress)
    others, _, whose = _crops(stage, "test")
    features = without_privacy.predict(net[:-2], others)
    features = features.reshape(-1, stage.world.frames, features.shape[1]).mean(axis=1)
    whose = whose[:: stage.world.frames]
    return {"rank_1": _rank_1(features, whose), "people": len(set(whose))}


def _rank_1(features: np.ndarray, whose: Sequence[str]) -> float:
    features = features - features.mean(axis=0)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    seen: dict[str, int] = {}
    is_known = []
    for name in whose:
        seen[name] = seen.get(name, 0) + 1
        is_known.append(seen[name] <= _GALLERY)
    gallery, query = np.flatnonzero(is_known), np.flatnonzero(~np.array(is_known))
    nearest = gallery[(features[query] @ features[gallery].T).argmax(axis=1)]
    names = np.array(whose)
    return float(np.mean(names[query] == names[nearest]))


def attributes_from_video(progress: Progress) -> dict[str, float]:
    """cMAP of what an onlooker could tell, on people the network has not seen."""
    stage = Stage(
        subjects=420,
        videos=5_040,
        frames=2,
        rate_hz=1.5,
        bystanders=0.0,
        height=160,
        width=160,
    )
    stage.make(progress=progress)
    people, labels, _ = _crops(stage, "public", "train", size=_LARGE)
    values = [(key, value) for key in ATTRIBUTES for value in sorted({one[key] for one in labels})]
    targets = _asked(labels, values)
    net = convolutions.classifier(axes=2, channels=3, classes=len(values))
    course = Course(epochs=10, flips=True, shifts=4)
    fit(net, people, targets, course=course, progress=progress, loss=without_privacy.binary)
    others, wanted, _ = _crops(stage, "test", size=_LARGE)
    out = (
        without_privacy.predict(net, others)
        .reshape(-1, stage.world.frames, len(values))
        .mean(axis=1)
    )
    right = _asked(wanted[:: stage.world.frames], values)
    found = {"cmap": class_mean_average_precision(out, right)}
    for key in ATTRIBUTES:
        columns = [place for place, (name, _) in enumerate(values) if name == key]
        found[key] = class_mean_average_precision(out[:, columns], right[:, columns])
    return found


def _asked(labels: Sequence[Any], values: Sequence[tuple[str, Any]]) -> np.ndarray:
    return np.array([[one[key] == value for key, value in values] for one in labels], np.int64)


def pose_from_photo(progress: Progress) -> dict[str, float]:
    """PCKh@0.5 over the 16 MPII joints inside the picture, on people it has not seen."""
    stage = Stage(kind=Medium.PHOTOS, joints="mpii", subjects=84, photos=7_776, photo_px=64)
    stage.make(progress=progress)
    images, joints, _ = _photos(stage, "public", "train")
    unseen, right, heads = _photos(stage, "test")
    net = convolutions.PoseNet(len(stage.joint_names))
    course = Course(epochs=12)
    fit(net, images, joints, course=course, progress=progress, loss=convolutions.heat_loss)
    maps = without_privacy.predict(net, unseen)
    apart = np.linalg.norm(convolutions.joints_of(torch.from_numpy(maps)).numpy() - right, axis=2)
    inside = ((right >= 0) & (right <= 1)).all(axis=2)
    hit = apart < 0.5 * heads[:, None]
    return {"pckh": float(100 * hit[inside].mean())}


def _photos(stage: Stage, *splits: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(N, 3, H, W) bytes, joints (N, J, 2) and head sizes (N,) as shares of the picture."""
    seen = [photo for photo in recordings(stage, *splits) if photo.head_px]
    return (
        np.stack([np.moveaxis(photo.image, -1, 0) for photo in seen]),
        np.stack([photo.joints / len(photo.image) for photo in seen]).astype(np.float32),
        np.array([photo.head_px / len(photo.image) for photo in seen]),
    )


def _crops(
    stage: Stage, *splits: str, size: tuple[int, int] = _SIZE
) -> tuple[np.ndarray, list[Any], list[str]]:
    """People cut out of their frames (N, 3, high, wide), with their labels and names."""
    people, labels, names = [], [], []
    for video in recordings(stage, *splits):
        for frame, mask in zip(video.frames, video.person_mask, strict=True):
            people.append(np.moveaxis(_cut(frame, mask, size), -1, 0))
            labels.append(video.attributes)
            names.append(video.subject)
    return np.stack(people), labels, names


def _cut(frame: np.ndarray, mask: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The box around the person, made one size by picking pixels."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        rows, columns = np.arange(mask.shape[0]), np.arange(mask.shape[1])
    i = np.linspace(rows[0], rows[-1], size[0]).round().astype(int)
    middle, half = (columns[0] + columns[-1]) / 2, max(np.ptp(columns), np.ptp(rows) * 0.6) / 2
    j = np.linspace(middle - half, middle + half, size[1]).round().astype(int)
    found: np.ndarray = frame[i][:, np.clip(j, 0, mask.shape[1] - 1)]
    return found
