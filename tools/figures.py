"""How hard Stage is: what small networks without privacy learn from it, and what we ask of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # run from a checkout
from experiments.engine import chain_recordings, show_progress
from experiments.pages import write_table
from masquerade._torch import torch
from masquerade.attacks.attribute_inference import class_mean_average_precision
from masquerade.collection import Medium
from masquerade.datasets.stage import Stage
from masquerade.io import atomic, downloads
from masquerade.networks import small_networks, without_privacy
from masquerade.networks.without_privacy import CountCallback as Tick
from masquerade.networks.without_privacy import TrainingCourse, measure_trained_top_1, train_plainly
from masquerade.result import CommandResult
from masquerade.stage import plan, takes
from masquerade.vision import convolutional
from tools import run_tool

Name = Literal[
    "video",
    "frame",
    "background",
    "background_correlated",
    "signals",
    "pose",
    "subject",
    "attributes",
    "place",
]
_HEADING = ("figure", "asked", "measured", "kept", "time", "command")


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Measure how hard Stage is, one figure or all of them.

    Args:
        figure: which one; without it, all, which takes about half an hour on two cores.
        out: also write them as a table into this Markdown file.
    """

    figure: Name | None = None
    out: Path | None = None

    def run(self) -> CommandResult:
        """Train, test, and put the results beside what is asked."""
        chosen: list[str] = [self.figure] if self.figure else list(FIGURES)
        found, rows = {}, []
        for name in chosen:
            begun = time.perf_counter()
            values = _measured(name)
            seconds = time.perf_counter() - begun
            is_kept = keeps(name, values)
            found[name] = values | {"seconds": seconds, "is_kept": is_kept}
            rows.append(_row(name, values, seconds, is_kept=is_kept))
        lines = [" | ".join(row) for row in rows]
        if self.out is not None:
            atomic.write_whole(self.out, markdown(rows).encode())
            lines.append(f"Wrote {self.out}.")
        return CommandResult(data=found, lines=lines)


def _measured(name: str) -> dict[str, float]:
    """Make the data, train and test, with a bar for each."""
    torch.manual_seed(0)
    with show_progress() as progress:
        return WORK[name](partial(progress, name))


def _row(name: str, values: dict[str, float], seconds: float, *, is_kept: bool) -> tuple[str, ...]:
    figure = FIGURES[name]
    others = [f"{key} {value:.3g}" for key, value in values.items() if key != figure.key]
    result = f"{values[figure.key]:.3g}"
    if others:
        result += f" ({', '.join(others)})"
    kept = "yes" if is_kept else "NO"
    command = f"`python tools/figures.py --figure {name}`"
    return figure.said, figure.asked, result, kept, f"{seconds:.0f} s", command


def markdown(rows: list[tuple[str, ...]]) -> str:
    """The docs page."""
    return (
        "# How hard Stage is\n\n"
        "Measured one by one, each by its own command; `make figures` runs them all. Small "
        "networks without privacy, one seed each, two cores, other jobs running. Chance is 0.083 "
        "for activities and 0.021 for places. The thumbnail beside the place is an 8 x 8 "
        "picture, compared plainly or with light and tint taken out, whichever does better: "
        "where it is as good as the network, a place is known by its colours alone.\n\n"
        f"{write_table(_HEADING, rows)}\n"
    )


# --- what is asked


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure: in words, what is asked of it, and the number it is about."""

    said: str
    asked: str
    key: str = "top_1"
    least: float = 0.0
    most: float = 1.0


FIGURES = {
    "video": Figure(said="activity from a video, unseen people", asked=">= 0.85", least=0.85),
    "frame": Figure(said="activity from a single frame, unseen people", asked="<= 0.60", most=0.60),
    "background": Figure(
        said="activity from the empty place, correlation 0",
        asked="chance, 0.08 (at most 0.13)",
        most=0.13,
    ),
    "background_correlated": Figure(
        said="activity from the empty place, correlation 0.9", asked=">= 0.60", least=0.60
    ),
    "signals": Figure(
        said="activity from the wrist's sensors, unseen people", asked=">= 0.90", least=0.90
    ),
    "pose": Figure(
        said="joints from a photo, PCKh@0.5, unseen people",
        asked=">= 85",
        key="pckh",
        least=85.0,
        most=100.0,
    ),
    "subject": Figure(
        said="who it is, rank-1 among unseen people", asked=">= 0.80", key="rank_1", least=0.80
    ),
    "attributes": Figure(
        said="skin tone, gender, face, build, clothing: cMAP, unseen people",
        asked=">= 0.80",
        key="cmap",
        least=0.80,
    ),
    "place": Figure(
        said="place among 48 from another side, EfficientNet-Lite0",
        asked="> 0.60, and 0.15 above the thumbnail",
        key="efficientnet_lite0",
        least=0.60,
    ),
}


def keeps(name: str, values: dict[str, float]) -> bool:
    """Whether a figure is where it should be."""
    figure = FIGURES[name]
    is_above = name != "place" or values[figure.key] >= values["thumbnail"] + 0.15
    return figure.least <= values[figure.key] <= figure.most and is_above


# --- films

Learned = tuple[np.ndarray, np.ndarray]  # inputs, and the class of each
_PX = 64  # of a film, made that small


def film_stage(**options: float | int) -> Stage:
    """A world of many short films, large enough to learn from."""
    sizes: dict[str, float | int] = {"height": _PX, "width": _PX, "subjects": 84, "videos": 2_592}
    return Stage(**(sizes | options))  # type: ignore[arg-type]


def activity_from_video(progress: Tick) -> dict[str, float]:
    """Top-1 of a 3D network on grey frames and their differences, on people it has not seen."""
    stage = film_stage()
    stage.make_recordings(progress=progress)
    net = small_networks.make_classifier(
        axes=3, channels=2, classes=len(stage.activities), widths=(8, 16, 48, 96)
    )
    course = TrainingCourse(epochs=14, rate=4e-3, flips=True, shifts=6)
    learned, unseen = _films(stage, "public", "train"), _films(stage, "test")
    return {"top_1": measure_trained_top_1(net, learned, unseen, course=course, progress=progress)}


def activity_from_frame(progress: Tick) -> dict[str, float]:
    """Top-1 of a 2D network that sees one frame, on people it has not seen."""
    stage = film_stage()
    stage.make_recordings(progress=progress)
    net = small_networks.make_classifier(axes=2, channels=3, classes=len(stage.activities))
    course = TrainingCourse(epochs=10, batch=64, flips=True, shifts=6)
    learned, unseen = _frames(stage, "public", "train", each=4), _frames(stage, "test", each=2)
    return {"top_1": measure_trained_top_1(net, learned, unseen, course=course, progress=progress)}


def activity_from_background(correlation: float, progress: Tick) -> dict[str, float]:
    """Top-1 of a 2D network that sees the empty place alone."""
    stage = film_stage(correlation=correlation)
    learned, unseen = _places(stage, progress, "public", "train"), _places(stage, progress, "test")
    net = small_networks.make_classifier(axes=2, channels=3, classes=len(stage.activities))
    course = TrainingCourse(epochs=20, batch=64, shifts=6)
    top_1 = measure_trained_top_1(net, learned, unseen, course=course, progress=progress)
    return {"top_1": top_1, "chance": 1 / len(stage.activities), "correlation": correlation}


def _places(stage: Stage, progress: Tick, *splits: str) -> Learned:
    """(N, 3, H, W) bytes: where each video is, with nobody in it."""
    chosen = [stage.select_part(split) for split in splits]
    total = sum(map(len, chosen))
    images, targets = [], []
    for one in chosen:
        for index, known in enumerate(one.labels):
            images.append(np.moveaxis(one.render_empty_place(index), -1, 0))
            targets.append(stage.activities.index(str(known.activity)))
            progress(len(images), total)
    return np.stack(images), np.array(targets)


def _films(stage: Stage, *splits: str) -> Learned:
    """(N, 2, T, 48, 48) bytes: brightness, and its change to the next frame around 128."""
    inputs, targets = [], []
    for video in chain_recordings(stage, *splits):
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
    for video in chain_recordings(stage, *splits):
        for moment in rng.integers(0, len(video.frames), each):
            inputs.append(np.moveaxis(video.frames[moment], -1, 0))
            targets.append(stage.activities.index(video.activity))
    return np.stack(inputs), np.array(targets)


def _smaller(grey: np.ndarray) -> np.ndarray:
    """(T, 64, 64) to (T, 48, 48): means over 4 of 12 thirds of a pixel."""
    fine = grey.repeat(3, axis=1).repeat(3, axis=2)
    frames, height, width = fine.shape
    found: np.ndarray = fine.reshape(frames, height // 4, 4, width // 4, 4).mean(axis=(2, 4))
    return found


# --- people

_SIZE, _LARGE = (64, 48), (96, 72)  # height and width of a person cut out of a frame
ATTRIBUTES = ("skin_tone", "gender", "face", "build", "clothing")
_KNOWN_TAKES = 4  # takes of each person that are known


def subject_from_video(progress: Tick) -> dict[str, float]:
    """Rank-1 among people whom the network has not seen, by nearest neighbour of its features."""
    stage = Stage(subjects=210, videos=2_520, frames=4, rate_hz=2.5, bystanders=0.0)
    stage.make_recordings(progress=progress)
    people, _, names = _crops(stage, "public", "train")
    known = sorted(set(names))
    targets = np.array([known.index(name) for name in names])
    net = small_networks.make_classifier(axes=2, channels=3, classes=len(known))
    course = TrainingCourse(epochs=12, batch=64, flips=True, shifts=3)
    train_plainly(net, people, targets, course=course, progress=progress)
    others, _, whose = _crops(stage, "test")
    features = without_privacy.predict_outputs(net[:-2], others)
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
        is_known.append(seen[name] <= _KNOWN_TAKES)
    gallery, query = np.flatnonzero(is_known), np.flatnonzero(~np.array(is_known))
    nearest = gallery[(features[query] @ features[gallery].T).argmax(axis=1)]
    names = np.array(whose)
    return float(np.mean(names[query] == names[nearest]))


def attributes_from_video(progress: Tick) -> dict[str, float]:
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
    stage.make_recordings(progress=progress)
    people, labels, _ = _crops(stage, "public", "train", size=_LARGE)
    values = [(key, value) for key in ATTRIBUTES for value in sorted({one[key] for one in labels})]
    targets = _asked(labels, values)
    net = small_networks.make_classifier(axes=2, channels=3, classes=len(values))
    course = TrainingCourse(epochs=10, flips=True, shifts=4)
    train_plainly(
        net,
        people,
        targets,
        course=course,
        progress=progress,
        loss=without_privacy.compute_binary_loss,
    )
    others, wanted, _ = _crops(stage, "test", size=_LARGE)
    out = (
        without_privacy.predict_outputs(net, others)
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


def pose_from_photo(progress: Tick) -> dict[str, float]:
    """PCKh@0.5 over the 16 MPII joints inside the picture, on people it has not seen."""
    stage = Stage(kind=Medium.PHOTOS, joints="mpii", subjects=84, photos=7_776, photo_px=64)
    stage.make_recordings(progress=progress)
    images, joints, _ = _photos(stage, "public", "train")
    unseen, right, heads = _photos(stage, "test")
    net = small_networks.PoseNet(len(stage.joint_names))
    course = TrainingCourse(epochs=12)
    train_plainly(
        net, images, joints, course=course, progress=progress, loss=small_networks.compute_heat_loss
    )
    maps = without_privacy.predict_outputs(net, unseen)
    apart = np.linalg.norm(
        small_networks.find_hottest_joints(torch.from_numpy(maps)).numpy() - right, axis=2
    )
    inside = ((right >= 0) & (right <= 1)).all(axis=2)
    hit = apart < 0.5 * heads[:, None]
    return {"pckh": float(100 * hit[inside].mean())}


def _photos(stage: Stage, *splits: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(N, 3, H, W) bytes, joints (N, J, 2) and head sizes (N,) as shares of the picture."""
    seen = [photo for photo in chain_recordings(stage, *splits) if photo.head_px]
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
    for video in chain_recordings(stage, *splits):
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


# --- places and sensors

_WINDOW, _STEP = 128, 64  # samples at 50 Hz
_WRIST = 6  # channels: the first sensor's accelerometer and gyroscope
_KNOWN_VIEWS = (1, 4)  # views that are known; the others ask, at least 20 degrees away


def place_from_photo(progress: Tick) -> dict[str, float]:
    """Top-1 among 48 places for views at least 20 degrees apart, a person in every picture."""
    world = Stage(height=128, width=128, frames=1, bystanders=0.0).world
    jobs = [(place, view) for place in range(world.places) for view in range(plan.VIEWS)]
    pictures = []
    for number, (place, view) in enumerate(jobs):
        take = plan.plan_take(world, number, kind="videos")
        pictures.append(
            takes.shoot_take(world, replace(take, place=place, view=view), kind="videos").frames[0]
        )
        progress(number + 1, len(jobs))
    images, where = np.stack(pictures), np.array([place for place, _ in jobs])
    known = np.isin([view for _, view in jobs], _KNOWN_VIEWS)
    net = convolutional.load_efficientnet_lite(downloads.fetch_asset("efficientnet_lite0"))
    features = convolutional.embed_images(images, net=net)
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


def activity_from_wrist(progress: Tick) -> dict[str, float]:
    """Top-1 over windows of 2.56 s of the wrist's sensors, on people it has not seen."""
    stage = Stage(kind=Medium.SIGNALS, wearers=84)
    stage.make_recordings(progress=progress)
    inputs, targets = _windows(stage, "public", "train")
    unseen, right = _windows(stage, "test")
    middle, spread = inputs.mean(axis=(0, 2)), inputs.std(axis=(0, 2))
    inputs, unseen = ((each - middle[:, None]) / spread[:, None] for each in (inputs, unseen))
    net = small_networks.make_classifier(
        axes=1, channels=_WRIST, classes=len(stage.activities), widths=(32, 64, 128)
    )
    learned, tested, course = (
        (inputs, targets),
        (unseen, right),
        TrainingCourse(epochs=20, batch=64),
    )
    return {"top_1": measure_trained_top_1(net, learned, tested, course=course, progress=progress)}


def _windows(stage: Stage, *splits: str) -> tuple[np.ndarray, np.ndarray]:
    """(N, channels, time) and the activity that fills at least three quarters of each."""
    inputs, targets = [], []
    for signal in chain_recordings(stage, *splits):
        for start in range(0, len(signal.values) - _WINDOW + 1, _STEP):
            label = signal.activity[start : start + _WINDOW]
            counts = np.bincount(label[label >= 0], minlength=len(stage.activities))
            if counts.max() >= 0.75 * _WINDOW:
                inputs.append(signal.values[start : start + _WINDOW, :_WRIST].T)
                targets.append(int(counts.argmax()))
    return np.stack(inputs), np.array(targets)


WORK: dict[str, Callable[[Tick], dict[str, float]]] = {
    "video": activity_from_video,
    "frame": activity_from_frame,
    "background": partial(activity_from_background, 0.0),
    "background_correlated": partial(activity_from_background, 0.9),
    "signals": activity_from_wrist,
    "pose": pose_from_photo,
    "subject": subject_from_video,
    "attributes": attributes_from_video,
    "place": place_from_photo,
}


if __name__ == "__main__":
    run_tool(Figures)
