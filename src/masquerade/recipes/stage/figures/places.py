"""What Stage tells about places, by retrieval, and about activities, by worn sensors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from masquerade.collection import Medium
from masquerade.datasets.stage import Stage
from masquerade.io import downloads
from masquerade.networks import convolutions
from masquerade.networks.without_privacy import Course, Progress, taught_top_1
from masquerade.recipes.bench import recordings
from masquerade.stage import plan, takes
from masquerade.vision import mobile_networks

_WINDOW, _STEP = 128, 64  # samples at 50 Hz
_WRIST = 6  # channels: the first sensor's accelerometer and gyroscope
_GALLERY = (1, 4)  # views that are known; the others ask, at least 20 degrees away


def place_from_photo(progress: Progress) -> dict[str, float]:
    """Top-1 among 48 places for views at least 20 degrees apart, a person in every picture."""
    world = Stage(height=128, width=128, frames=1, bystanders=0.0).world
    jobs = [(place, view) for place in range(world.places) for view in range(plan.VIEWS)]
    pictures = []
    for number, (place, view) in enumerate(jobs):
        take = plan.take(world, number, kind="videos")
        pictures.append(
            takes.shoot(world, replace(take, place=place, view=view), kind="videos").frames[0]
        )
        progress(number + 1, len(jobs))
    images, where = np.stack(pictures), np.array([place for place, _ in jobs])
    known = np.isin([view for _, view in jobs], _GALLERY)
    net = mobile_networks.load(downloads.fetch("efficientnet_lite0"))
    features = mobile_networks.embed(images, net=net)
    rows = np.linspace(0, images.shape[1], 9)[:-1].astype(int)
    small = np.add.reduceat(np.add.reduceat(images.astype(float), rows, 1), rows, 2)
    thumbs = [small.reshape(len(small), -1), _standard(small).reshape(len(small), -1)]
    return {
        "efficientnet_lite0": _nearest(features, where, known),
        "thumbnail": max(_nearest(thumb, where, known) for thumb in thumbs),
        "chance": 1 / world.places,
    }


def _standard(small: np.ndarray) -> np.ndarray:
    """Each picture's channels with mean 0 and variance 1, so that light and tint do not count."""
    middle, spread = small.mean(axis=(1, 2), keepdims=True), small.std(axis=(1, 2), keepdims=True)
    found: np.ndarray = (small - middle) / (spread + 1e-6)
    return found


def _nearest(features: np.ndarray, where: np.ndarray, known: np.ndarray) -> float:
    features = features - features[known].mean(axis=0)
    features = features / np.linalg.norm(features, axis=1, keepdims=True)
    best = (features[~known] @ features[known].T).argmax(axis=1)
    return float(np.mean(where[known][best] == where[~known]))


def activity_from_wrist(progress: Progress) -> dict[str, float]:
    """Top-1 over windows of 2.56 s of the wrist's sensors, on people it has not seen."""
    stage = Stage(kind=Medium.SIGNALS, wearers=84)
    stage.make(progress=progress)
    inputs, targets = _windows(stage, "public", "train")
    unseen, right = _windows(stage, "test")
    middle, spread = inputs.mean(axis=(0, 2)), inputs.std(axis=(0, 2))
    inputs, unseen = ((each - middle[:, None]) / spread[:, None] for each in (inputs, unseen))
    net = convolutions.classifier(
        axes=1, channels=_WRIST, classes=len(stage.activities), widths=(32, 64, 128)
    )
    learned, tested, course = (inputs, targets), (unseen, right), Course(epochs=20, batch=64)
    return {"top_1": taught_top_1(net, learned, tested, course=course, progress=progress)}


def _windows(stage: Stage, *splits: str) -> tuple[np.ndarray, np.ndarray]:
    """(N, channels, time) and the activity that fills at least three quarters of each."""
    inputs, targets = [], []
    for signal in recordings(stage, *splits):
        for start in range(0, len(signal.values) - _WINDOW + 1, _STEP):
            label = signal.activity[start : start + _WINDOW]
            counts = np.bincount(label[label >= 0], minlength=len(stage.activities))
            if counts.max() >= 0.75 * _WINDOW:
                inputs.append(signal.values[start : start + _WINDOW, :_WRIST].T)
                targets.append(int(counts.argmax()))
    return np.stack(inputs), np.array(targets)
