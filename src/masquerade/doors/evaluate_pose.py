"""How well a model finds joints in photos: PCKh where heads have a size, COCO's table where asked.

Crops are around the people that the data set names, so that what is measured is where joints are,
not who is found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from masquerade.collection import Collection
from masquerade.errors import BadInput
from masquerade.joints import COCO
from masquerade.recordings import Photo
from masquerade.train import poses
from masquerade.train.poses import FoundJoints
from masquerade.utility.coco_ap import FoundPerson, TruePerson, coco_table
from masquerade.utility.pose import Pckh, pckh

_BAR = 40
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


def pose_accuracy(
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
    found, photos = poses.guesses(net.eval(), network, collection, progress=progress)
    names = collection.joint_names
    truth = np.stack([_joints_of(photo, len(names)) for photo in photos])
    heads = np.array([photo.head_px or math.nan for photo in photos])
    near, exact = (pckh(found.joints, truth, heads, names=names, share=s) for s in (0.5, 0.1))
    coco = _coco(found, photos) if names == COCO else {}
    if not near.counted and not coco:
        raise BadInput(
            "Expected photos with joints, and head sizes or COCO's picture numbers to measure by, "
            f"got none of either in {len(photos)} photos."
        )
    is_measured = near.counted > 0
    return PoseAccuracy(
        near=near if is_measured else None, exact=exact if is_measured else None, coco=coco
    )


def _joints_of(photo: Photo, count: int) -> np.ndarray:
    return np.full((count, 2), np.nan) if photo.joints is None else photo.joints


def _coco(found: FoundJoints, photos: Sequence[Photo]) -> dict[str, dict[str, float]]:
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
            [_true(photos[row]) for row in some], [_guess(found, photos, row) for row in some]
        )
        for name, some in chosen.items()
    }


def _true(photo: Photo) -> TruePerson:
    joints = _joints_of(photo, len(COCO))
    is_labelled = np.isfinite(joints).all(axis=1)
    return TruePerson(
        picture=_number(photo, "image_id"),
        joints=np.where(is_labelled[:, None], joints, 0.0),
        is_labelled=is_labelled,
        box=photo.box or (0.0, 0.0, 0.0, 0.0),
        area=float(_number(photo, "area_px")),
        is_ignored=not is_labelled.any(),
    )


def _guess(found: FoundJoints, photos: Sequence[Photo], row: int) -> FoundPerson:
    return FoundPerson(
        picture=_number(photos[row], "image_id"),
        joints=found.joints[row],
        score=float(found.scores[row].mean()),
    )


def _number(photo: Photo, name: str) -> int:
    held = photo.attributes.get(name, 0)
    return held if isinstance(held, int) else 0


def said_of_pose(right: PoseAccuracy) -> list[str]:
    """In words, with a bar for each group of joints."""
    lines = []
    if right.near is not None and right.exact is not None:
        lines.append(
            f"PCKh@0.5 {right.near.mean:.2f}, PCKh@0.1 {right.exact.mean:.2f}: per cent of "
            f"{right.near.counted} joints in {right.near.photos} photos, pelvis and thorax "
            "left out."
        )
        lines += [
            f"{name:8} {'#' * round(_BAR * share / 100):{_BAR}} {share:.1f}"
            for name, share in right.near.groups.items()
        ]
    for name, table in right.coco.items():
        shown = ", ".join(f"{key} {100 * value:.1f}" for key, value in table.items() if value >= 0)
        lines.append(f"COCO, {name}: {shown}; boxes are the data set's own.")
    return lines


def data_of_pose(right: PoseAccuracy) -> dict[str, Any]:
    """For JSON."""
    return {
        "pckh_0.5": None if right.near is None else right.near.mean,
        "pckh_0.1": None if right.exact is None else right.exact.mean,
        "groups": {} if right.near is None else right.near.groups,
        "coco": right.coco,
    }
