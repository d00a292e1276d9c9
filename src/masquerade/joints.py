"""Body points: the lists that data sets use, who mirrors whom, and which belong together."""

from __future__ import annotations

from collections.abc import Sequence

from masquerade import _check

COCO = (
    *("nose", "left_eye", "right_eye", "left_ear", "right_ear", "left_shoulder", "right_shoulder"),
    *("left_elbow", "right_elbow", "left_wrist", "right_wrist", "left_hip", "right_hip"),
    *("left_knee", "right_knee", "left_ankle", "right_ankle"),
)
MPII = (
    *("right_ankle", "right_knee", "right_hip", "left_hip", "left_knee", "left_ankle"),
    *("pelvis", "thorax", "upper_neck", "head_top"),
    *("right_wrist", "right_elbow", "right_shoulder"),
    *("left_shoulder", "left_elbow", "left_wrist"),
)
JOINTS = (*COCO, "pelvis", "thorax", "upper_neck", "head_top")
JOINT_LISTS = {len(names): names for names in (MPII, COCO, JOINTS)}
# From what a joint that a list lacks begins, when its weights are taken from those of another list.
NEAR = {
    "pelvis": ("left_hip", "right_hip"),
    "thorax": ("left_shoulder", "right_shoulder"),
    "upper_neck": ("left_shoulder", "right_shoulder"),
    "head_top": ("left_eye", "right_eye"),
    "nose": ("upper_neck", "head_top"),
    "left_eye": ("head_top",),
    "right_eye": ("head_top",),
    "left_ear": ("head_top",),
    "right_ear": ("head_top",),
}
_SIDES = ("left", "right")
_LIMBS = tuple(
    (f"{side}_{one}", f"{side}_{other}")
    for side in _SIDES
    for one, other in (
        *(("shoulder", "elbow"), ("elbow", "wrist"), ("hip", "knee"), ("knee", "ankle")),
        *(("shoulder", "hip"), ("eye", "ear")),
    )
)
LIMBS = (
    *_LIMBS,
    *(("left_shoulder", "right_shoulder"), ("left_hip", "right_hip")),
    *(("nose", "left_eye"), ("nose", "right_eye")),
    *(("thorax", "upper_neck"), ("upper_neck", "head_top"), ("pelvis", "thorax")),
)


def find_joint_list(count: int) -> tuple[str, ...]:
    """The list with so many joints: 16 are MPII's, 17 COCO's, 21 all.

    Raises:
        ValueError: if there is none.

    Example:
        >>> find_joint_list(16)[0], find_joint_list(17)[0]
        ('right_ankle', 'nose')
    """
    if count not in JOINT_LISTS:
        raise ValueError(
            _check.describe_unknown("number of joints", str(count), tuple(map(str, JOINT_LISTS)))
        )
    return JOINT_LISTS[count]


def find_mirror_order(names: Sequence[str]) -> list[int]:
    """Where each joint is when the picture is mirrored: left and right change places.

    Example:
        >>> find_mirror_order(["nose", "left_eye", "right_eye"])
        [0, 2, 1]
    """
    places = {name: place for place, name in enumerate(names)}
    return [places.get(_other_side(name), place) for place, name in enumerate(names)]


def list_limbs(names: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of joints that a line is drawn between.

    Example:
        >>> list_limbs(["left_hip", "left_knee", "nose"])
        [(0, 1)]
    """
    places = {name: place for place, name in enumerate(names)}
    return [(places[one], places[two]) for one, two in LIMBS if one in places and two in places]


def _other_side(name: str) -> str:
    side, _, what = name.partition("_")
    return f"{_SIDES[1 - _SIDES.index(side)]}_{what}" if side in _SIDES else name
