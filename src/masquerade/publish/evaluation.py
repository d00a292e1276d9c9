"""What is measured of a model or a film: accuracy, joints, pictures.

How well a model finds joints in photos: PCKh where heads have a size, COCO's table where asked.

Crops are around the people that the data set names, so that what is measured is where joints are,
not who is found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from masquerade import _check
from masquerade.collection import Collection, Medium
from masquerade.errors import BadInput
from masquerade.io import arrays, video
from masquerade.io.video import probe, read
from masquerade.joints import COCO
from masquerade.ledger import Content, Ledger
from masquerade.mechanism import Frames
from masquerade.networks.network import Network
from masquerade.progress import make_progress_bars
from masquerade.publish.collections import (
    explain_held_out,
    remove_masks,
    select_photos,
    select_split,
)
from masquerade.publish.learned import count_learned, training_list_path
from masquerade.publish.receipts import check_receipt
from masquerade.quality import picture
from masquerade.quality.picture import PictureQuality
from masquerade.quality.pose import FoundPerson, Pckh, TruePerson, coco_table, compute_pckh
from masquerade.receipt import Receipt
from masquerade.recordings import Photo
from masquerade.training import rows, worn
from masquerade.training.learner import load_model
from masquerade.training.rows import FoundJoints
from masquerade.training.units import outputs_of

_BAR_WIDTH = 40
ALL = "all"


@dataclass(frozen=True, kw_only=True)
class PoseAccuracy:
    """How well joints are found.

    Args:
        near: PCKh within half of a head's size; None where no photo has one.
        exact: PCKh within a tenth of it.
        coco: COCO's table by scenario, "all" first; empty where photos have no picture number.
    """

    near: Pckh | None
    exact: Pckh | None
    coco: dict[str, dict[str, float]]


def measure_pose_accuracy(
    net: Any,
    network: Any,
    collection: Collection[Any],
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> PoseAccuracy:
    """Test a network on every photo, flip test included.

    Raises:
        BadInput: if nothing can be measured.
    """
    found, photos = rows.guess_joints(net.eval(), network, collection, progress=progress)
    names = collection.joint_names
    truth = np.stack([_list_joints(photo, len(names)) for photo in photos])
    heads = np.array([photo.head_px or math.nan for photo in photos])
    near, exact = (
        compute_pckh(found.joints, truth, heads, names=names, share=s) for s in (0.5, 0.1)
    )
    coco = _compute_coco_tables(found, photos) if names == COCO else {}
    if not near.counted and not coco:
        raise BadInput(
            "Expected photos with joints, and head sizes or COCO's picture numbers to measure by, "
            f"got none of either in {len(photos)} photos."
        )
    is_measured = near.counted > 0
    return PoseAccuracy(
        near=near if is_measured else None, exact=exact if is_measured else None, coco=coco
    )


def _list_joints(photo: Photo, count: int) -> np.ndarray:
    return np.full((count, 2), np.nan) if photo.joints is None else photo.joints


def _compute_coco_tables(
    found: FoundJoints, photos: Sequence[Photo]
) -> dict[str, dict[str, float]]:
    """COCO's table for all pictures, and for each scenario where pictures have one."""
    rows = [number for number, photo in enumerate(photos) if "image_id" in photo.attributes]
    if not rows:
        return {}
    kinds = sorted({str(photos[row].attributes.get("category", "")) for row in rows} - {""})
    chosen = {ALL: rows} | {
        kind: [row for row in rows if photos[row].attributes.get("category") == kind]
        for kind in kinds
    }
    return {
        name: coco_table(
            [_make_true_person(photos[row]) for row in some],
            [_make_found_person(found, photos, row) for row in some],
        )
        for name, some in chosen.items()
    }


def _make_true_person(photo: Photo) -> TruePerson:
    joints = _list_joints(photo, len(COCO))
    is_labelled = np.isfinite(joints).all(axis=1)
    return TruePerson(
        picture=_read_photo_number(photo, "image_id"),
        joints=np.where(is_labelled[:, None], joints, 0.0),
        is_labelled=is_labelled,
        box=photo.box or (0.0, 0.0, 0.0, 0.0),
        area=float(_read_photo_number(photo, "area_px")),
        is_ignored=not is_labelled.any(),
    )


def _make_found_person(found: FoundJoints, photos: Sequence[Photo], row: int) -> FoundPerson:
    return FoundPerson(
        picture=_read_photo_number(photos[row], "image_id"),
        joints=found.joints[row],
        score=float(found.scores[row].mean()),
    )


def _read_photo_number(photo: Photo, name: str) -> int:
    held = photo.attributes.get(name, 0)
    return held if isinstance(held, int) else 0


def describe_pose_accuracy(right: PoseAccuracy) -> list[str]:
    """In words, with a bar for each group of joints."""
    lines = []
    if right.near is not None and right.exact is not None:
        lines.append(
            f"PCKh@0.5 {right.near.mean:.2f}, PCKh@0.1 {right.exact.mean:.2f}: per cent of "
            f"{right.near.counted} joints in {right.near.photos} photos, pelvis and thorax "
            "left out."
        )
        lines += [
            f"{name:8} {'#' * round(_BAR_WIDTH * share / 100):{_BAR_WIDTH}} {share:.1f}"
            for name, share in right.near.groups.items()
        ]
    for name, table in right.coco.items():
        shown = ", ".join(f"{key} {100 * value:.1f}" for key, value in table.items() if value >= 0)
        lines.append(f"COCO, {name}: {shown}; boxes are the data set's own.")
    return lines


def encode_pose_accuracy(right: PoseAccuracy) -> dict[str, Any]:
    """For JSON."""
    return {
        "pckh_0.5": None if right.near is None else right.near.mean,
        "pckh_0.1": None if right.exact is None else right.exact.mean,
        "groups": {} if right.near is None else right.near.groups,
        "coco": right.coco,
    }


_MAX_NAMES = 8


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """How often a model is right.

    Args:
        top_1: share of recordings.
        per_class: share of each class that has recordings, by name.
    """

    top_1: float
    per_class: dict[str, float]

    @property
    def mean_per_class(self) -> float:
        """The mean over classes, however many recordings each has."""
        return float(np.mean(list(self.per_class.values())))


def measure_accuracy(
    net: Any,
    network: Network,
    collection: Collection[Any],
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Accuracy:
    """Test a network on every recording's middle segment, or every window of one activity."""
    test = worn.predict_segments if network.KIND is Medium.SIGNALS else rows.guess_actions
    found, right = test(net.eval(), network, collection, progress=progress)
    is_right = found == right
    per_class = {
        name: float(is_right[right == number].mean())
        for number, name in enumerate(collection.activities)
        if (right == number).any()
    }
    return Accuracy(top_1=float(is_right.mean()), per_class=per_class)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """How often a model is right, on what, and who may be told.

    Args:
        accuracy: the figures; of joints where the model finds them.
        recordings: that it was tested on.
        split: of the data set.
        held_out: why the model did not learn from them: made up, contents (none is on its private
            list), split, or named by the caller; empty where it may have.
        is_private: whether no epsilon covers the figures, which then stay in the house.
    """

    accuracy: Accuracy | PoseAccuracy
    recordings: int
    split: str
    held_out: str
    is_private: bool


def evaluate_file(
    model: Path | str,
    collection: Collection[Any],
    *,
    private: bool = False,
    ledger: Ledger | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Evaluation:
    """Test a model that `train_file` or `teach_file` wrote on a data set's test split.

    Args:
        model: the .safetensors file.
        collection: the data set; a split that it names is taken instead of the test split.
        private: test on recordings that the model may have learned from as well.
        ledger: recordings in an account of it are refused like those that were learned from.
        progress: called with how many are tested, and of how many.

    Raises:
        BadInput: if the model may have learned from the recordings and ``private`` is not said, or
            if its classes are not those of the data set.
    """
    receipt = check_receipt(model)  # before anything is made of its bytes
    net, network, names, said = load_model(Path(model))
    if network.KIND is Medium.SIGNALS:
        test = collection.select_kind(Medium.SIGNALS).select_default_part("test")
    elif network.KIND is Medium.PHOTOS:
        test = select_photos(collection, "test")
    else:
        test = select_split(collection, "test")
    held_out, is_protected = _judge_test_data(
        Path(model), receipt, test, said, ledger, private=private
    )
    if names != outputs_of(test, network.KIND):
        what = "joints" if network.KIND is Medium.PHOTOS else "classes"
        more = ", ..." * (len(names) > _MAX_NAMES)
        raise BadInput(
            f"Expected the {what} of the model, in its order "
            f"({', '.join(names[:_MAX_NAMES])}{more}), "
            "got a data set with others; of manifest and folder --classes gives the list."
        )
    measure: Any = measure_pose_accuracy if network.KIND is Medium.PHOTOS else measure_accuracy
    return Evaluation(
        accuracy=measure(net, network, test, progress=progress),
        recordings=len(test),
        split=test.part_name,
        held_out=held_out,
        is_private=not held_out or is_protected,
    )


def _judge_test_data(
    model: Path,
    receipt: Receipt,
    test: Collection[Any],
    model_facts: dict[str, Any],
    ledger: Ledger | None,
    *,
    private: bool,
) -> tuple[str, bool]:
    """Why the model did not learn from these recordings, and whether a ledger protects some.

    Raises:
        BadInput: if it may have, or if some are protected, unless ``private`` is said.
    """
    is_listed = training_list_path(model).is_file() and not test.ABOUT.is_made_up
    is_asked = ledger is not None or is_listed
    contents = [Content.from_value(each) for each in remove_masks(test)] if is_asked else []
    count = count_learned(model, receipt, contents) if is_listed else None
    held_out = explain_held_out(test, model_facts, learned_from=count)
    protected = 0 if ledger is None else ledger.count_members(contents)
    if protected and not private:
        raise BadInput(
            f"Expected recordings of nobody whom this ledger protects, got {protected} that "
            "are in an account; test on others, or say --private and publish nothing."
        )
    if not held_out and not private:
        seen = f"of which it has learned from {count}" if count else "of which it may have seen all"
        raise BadInput(
            f"Expected recordings that the model did not learn from, got the split "
            f"{test.part_name}, {seen}; give a test split, or --subjects that were left out, or "
            "say --private and publish nothing."
        )
    return held_out, bool(protected)


_ARRAY_SUFFIXES = (".npy", ".npz")


@dataclass(frozen=True, kw_only=True, eq=False)
class _OpenFilm:
    """A file whose shape is known and whose frames are still to come."""

    shape: tuple[int, ...]
    frames: Frames
    is_rounded: bool = False


def measure_files(before: Path | str, after: Path | str, *, every: int = 1) -> PictureQuality:
    """Measure what is left of a video: two video files, pictures, .npy or .npz files.

    Args:
        before: the original. An array is (T, H, W, 3) uint8.
        after: what was made of it. An array of other numbers, as a mechanism that adds noise gives
            it, is rounded and clamped to 0..255 first, as it must be to be shown.
        every: SSIM is measured on every ``every``-th frame.

    Raises:
        BadInput: if a file is missing, damaged or holds no video.
        ValueError: if the two differ in length or size.
    """
    return _compare_films(_open_original(Path(before)), _open_film(Path(after)), every=every)


def _open_original(path: Path) -> _OpenFilm:
    film = _open_film(path)
    if film.is_rounded:
        raise BadInput(
            f"Expected the original in {path} as uint8 RGB, got other numbers; "
            "convert to 0..255 with a public range first."
        )
    return film


def _open_film(path: Path) -> _OpenFilm:
    suffix = path.suffix.lower()
    if suffix in _ARRAY_SUFFIXES:
        return _open_array(path)
    if not video.is_video(path):
        choices = (*video.SUFFIXES, *_ARRAY_SUFFIXES)
        raise ValueError(_check.describe_unknown("kind of file", suffix or path.name, choices))
    with make_progress_bars() as progress:
        progress.add_task(f"counting {path.name}", total=None)
        shape = probe.probe(path).shape
    return _OpenFilm(shape=shape, frames=read.read_frames(path))


def _open_array(path: Path) -> _OpenFilm:
    table = arrays.read_array_file(path)
    if len(table.arrays) != 1:
        raise BadInput(
            f"Expected one array in {path}, got {', '.join(table.names)}; save the video alone."
        )
    values = table.arrays[0]
    if values.ndim != 4 or values.shape[3] != 3:
        raise BadInput(f"Expected video of (T, H, W, 3) in {path}, got shape {values.shape}.")
    if values.dtype == np.uint8:
        return _OpenFilm(shape=values.shape, frames=iter(values))
    return _OpenFilm(shape=values.shape, frames=map(_round_frame, values), is_rounded=True)


def _round_frame(frame: np.ndarray) -> np.ndarray:
    """The frame as a screen would show it."""
    shown: np.ndarray = np.clip(np.rint(frame), 0, 255).astype(np.uint8)
    return shown


def _compare_films(before: _OpenFilm, after: _OpenFilm, *, every: int) -> PictureQuality:
    if before.shape != after.shape:
        raise ValueError(
            f"Expected two videos of one length and size, got {before.shape} before and "
            f"{after.shape} after (frames, height, width, channels); cut or scale one of them."
        )
    with make_progress_bars() as progress:
        seen = progress.track(before.frames, total=before.shape[0], description="comparing")
        return picture.measure(seen, after.frames, every=every)
