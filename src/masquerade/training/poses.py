"""Photos of people as rows: a crop around each person, and where the joints are in it.

The crop follows from the record's own box and nothing else; a public one is cut out of psi of the
whole photo, so that no number of boxes shows more than that. A photo of which no joint is known, or
all are outside the crop, adds exactly nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from masquerade._optional import Later
from masquerade.collection import Collection
from masquerade.errors import BadInput
from masquerade.networks import picture_crops
from masquerade.recordings import Photo
from masquerade.training.featured import Featured
from masquerade.training.method import Method
from masquerade.training.units import unnamed
from masquerade.training.views import PublicPictures

if TYPE_CHECKING:
    from masquerade.networks import simcc, tiny_vit_pose
else:
    simcc = Later("masquerade.networks.simcc", extra="train")
    tiny_vit_pose = Later("masquerade.networks.tiny_vit_pose", extra="train")


_BATCH = 16


class Poses:
    """Turns private photos into what a network's trunk is given, one at a time.

    Args:
        method: how they are learned from.
        names: of the joints; the public list.
    """

    mask_sha256 = None  # nothing of a photo is public by a mask

    def __init__(self, method: Method, names: Sequence[str]) -> None:
        self.method, self._names = method, names
        self.shown = PublicPictures() if isinstance(method, Featured) else None

    def rows(self, recording: Any) -> tuple[dict[str, Any], list[np.ndarray]]:
        """Its crop, and where the joints are in it."""
        with unnamed():
            photo = photo_of(recording)
            crop, target = taught(photo, len(self._names))
        seen = {"private": picture_crops.as_inputs(crop[None])}
        if isinstance(self.method, Featured) and self.shown is not None:
            region = picture_crops.region_of(photo.image, photo.box)
            whole = self.shown.made(self.method.made_public(), photo.image, cut=repr(region))
            seen["public"] = picture_crops.as_inputs(picture_crops.crop_pose(whole, region)[None])
            if not self.method.HAS_PRIVATE:
                seen["private"] = seen["public"]
        return seen, [target]


def taught(photo: Photo, count: int) -> tuple[np.ndarray, np.ndarray]:
    """A photo's crop (256, 192, 3) uint8, and targets (J, 3).

    Raises:
        BadInput: if it has another number of joints.
    """
    if photo.joints is not None and len(photo.joints) != count:
        raise BadInput(f"Expected {count} joints with every photo, got {len(photo.joints)}.")
    region = picture_crops.region_of(photo.image, photo.box)
    return picture_crops.crop_pose(photo.image, region), picture_crops.targets_of(
        photo.joints, region, count
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class FoundJoints:
    """What a network says of photos; N of them, J joints.

    Args:
        joints: (N, J, 2) in pixels of each photo.
        scores: (N, J) from 0 to 1.
    """

    joints: np.ndarray
    scores: np.ndarray


def found_in(
    net: Any, photos: Sequence[tuple[np.ndarray, picture_crops.Box | None]], *, smoothing: float
) -> FoundJoints:
    """Where a network finds the joints of people in pictures, each in its box; flip test included.

    Args:
        net: that is asked.
        photos: pictures (H, W, 3) and boxes; the whole picture where there is none.
        smoothing: of the targets that it learned from.
    """
    device = next(net.parameters()).device
    regions = [picture_crops.region_of(image, box) for image, box in photos]
    crops = [
        picture_crops.crop_pose(image, region)
        for (image, _), region in zip(photos, regions, strict=True)
    ]
    inputs = picture_crops.as_inputs(np.stack(crops)).to(device)
    said = tiny_vit_pose.answers(net, inputs, is_flipped=True, batch=_BATCH)
    places = simcc.decoded(said.double(), smoothing=smoothing)
    joints = [
        region.back(one) for region, one in zip(regions, places.joints.cpu().numpy(), strict=True)
    ]
    return FoundJoints(joints=np.stack(joints), scores=places.scores.cpu().numpy())


def guesses(
    net: Any,
    network: Any,
    collection: Collection[Any],
    *,
    progress: Callable[[int, int], None],
) -> tuple[FoundJoints, list[Photo]]:
    """What a network says of every photo, and the photos without their pictures."""
    found: list[FoundJoints] = []
    known: list[Photo] = []
    held: list[tuple[np.ndarray, picture_crops.Box | None]] = []
    nothing = np.zeros((1, 1, 3), np.uint8)
    for index in range(len(collection)):
        photo = photo_of(collection[index])
        held.append((photo.image, photo.box))
        known.append(_without_picture(photo, nothing))
        if len(held) == _BATCH or index + 1 == len(collection):
            found.append(found_in(net, held, smoothing=network.smoothing))
            held.clear()
        progress(index + 1, len(collection))
    if not found:
        raise BadInput("Expected at least one photo to test on, got none.")
    joints, scores = (
        np.concatenate([getattr(each, name) for each in found]) for name in ("joints", "scores")
    )
    return FoundJoints(joints=joints, scores=scores), known


def _without_picture(photo: Photo, nothing: np.ndarray) -> Photo:
    return Photo(
        image=nothing,
        joints=photo.joints,
        visible=photo.visible,
        head_px=photo.head_px,
        box=photo.box,
        subject=photo.subject,
        attributes=photo.attributes,
    )


def photo_of(recording: Any) -> Photo:
    """A recording that must be a photo."""
    if not isinstance(recording, Photo):
        raise BadInput(f"Expected photos to learn from, got {type(recording).__name__}s.")
    return recording
