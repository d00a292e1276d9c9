"""Find people's joints in photos with a trained model, and draw them."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from masquerade import _check, joints
from masquerade.cli.flags import Positional
from masquerade.collection import Medium
from masquerade.datasets.recording_files import read_picture
from masquerade.errors import BadInput
from masquerade.io import atomic
from masquerade.io.video import write as writer
from masquerade.progress import make_progress_bars, make_reporter
from masquerade.report.sheet import draw_skeletons
from masquerade.result import CommandResult
from masquerade.training import rows
from masquerade.training.learner import TrainedNetwork, load_model

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
_JSON_NAME = "joints.json"
_PRIVATE_NOTE = (
    "PRIVATE: what is found follows from these photos and is covered by no epsilon; it is as "
    "private as they are."
)


def estimate_photos(
    model: Path | str,
    photos: list[Path],
    out: Path,
    *,
    box: tuple[float, float, float, float] | None = None,
    progress: Any = lambda done, total: None,
) -> dict[str, Any]:
    """Write ``joints.json``, in COCO's form, and a picture with a skeleton for each photo.

    Args:
        model: that `masquerade train --task pose` wrote.
        photos: files of pictures, one person in each.
        out: a folder; it is made.
        box: around the person in every photo (x, y, width, height); the whole picture if None.
        progress: called with how many are done, and of how many.

    Returns:
        What is in ``joints.json``.
    """
    trained = load_model(Path(model))
    if trained.network.KIND is not Medium.PHOTOS:
        raise BadInput(f"Expected a model that finds joints, got one of {trained.network.name}.")
    out.mkdir(parents=True, exist_ok=True)
    images: list[dict[str, Any]] = []
    people: list[dict[str, Any]] = []
    for number, path in enumerate(photos, 1):
        image = read_picture(path)
        found = rows.find_joints(trained.net, [(image, box)], smoothing=_find_smoothing(trained))
        drawn = draw_skeletons(image, [found.joints[0]], trained.classes)
        atomic.write_whole(out / f"{path.name}.joints.png", _encode_png(drawn), is_private=True)
        height, width = image.shape[:2]
        images.append({"id": number, "file_name": path.name, "width": width, "height": height})
        people.append(_make_annotation(number, found.joints[0], found.scores[0]))
        progress(number, len(photos))
    said = {"images": images, "annotations": people, "categories": [_make_category(trained)]}
    atomic.write_whole(out / _JSON_NAME, json.dumps(said).encode(), is_private=True)
    return said


def list_photos(source: Path) -> list[Path]:
    """A photo, or those in a folder, by name.

    Raises:
        BadInput: if there is none.
    """
    if not source.is_dir():
        return [source]
    found = sorted(each for each in source.iterdir() if each.suffix.lower() in SUFFIXES)
    if not found:
        raise BadInput(f"Expected photos ({', '.join(SUFFIXES)}) in {source}, got none.")
    return found


def _find_smoothing(trained: TrainedNetwork) -> float:
    found: float = trained.network.smoothing  # type: ignore[attr-defined]
    return found


def _encode_png(image: np.ndarray) -> bytes:
    stream = io.BytesIO()
    writer.write_video(stream, [image], suffix=".png", rate=Fraction(1))
    return stream.getvalue()


def _make_annotation(number: int, found: np.ndarray, scores: np.ndarray) -> dict[str, Any]:
    """One annotation; in place of how visible a joint is stands how sure the model is."""
    flat = np.column_stack([found, scores]).round(3)
    low, high = found.min(axis=0), found.max(axis=0)
    return {
        "id": number,
        "image_id": number,
        "category_id": 1,
        "keypoints": flat.ravel().tolist(),
        "bbox": np.concatenate([low, high - low]).round(3).tolist(),
        "score": round(float(scores.mean()), 4),
    }


def _make_category(trained: TrainedNetwork) -> dict[str, Any]:
    names = list(trained.classes)
    limbs = [[one + 1, two + 1] for one, two in joints.list_limbs(names)]  # COCO counts from 1
    return {"id": 1, "name": "person", "keypoints": names, "skeleton": limbs}


@dataclass(frozen=True, kw_only=True)
class EstimateJoints:
    """Write where a model finds people's joints in photos, and draw skeletons.

    Args:
        model: the .safetensors file that train --task pose wrote.
        source: a photo, or a folder of photos, of one person each who fills most of it.
        out: a folder for joints.json, in COCO's form, and one picture a photo.
        box: x, y, width and height around the person, in pixels, where it is not the whole photo.
    """

    model: Positional[Path]
    source: Positional[Path]
    out: Path = Path("joints")
    box: tuple[float, float, float, float] | None = None

    def __post_init__(self) -> None:
        if self.box is not None:
            _check.finite(box_x=self.box[0], box_y=self.box[1])
            _check.positive(box_width=self.box[2], box_height=self.box[3])

    def run(self) -> CommandResult:
        """Find, draw, write."""
        with make_progress_bars() as progress:
            tell = make_reporter(progress)
            found = estimate_photos(
                self.model,
                list_photos(self.source),
                self.out,
                box=self.box,
                progress=lambda done, total: tell("photos", done, total),
            )
        people = found["annotations"]
        return CommandResult(
            data={
                "joints": str(self.out / _JSON_NAME),
                "photos": len(people),
                "mean_score": float(np.mean([one["score"] for one in people])),
            },
            lines=[
                _PRIVATE_NOTE,
                f"Wrote {self.out / _JSON_NAME} and {len(people)} pictures with skeletons.",
            ],
        )


COMMAND = EstimateJoints
