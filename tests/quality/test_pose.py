"""PCKh and COCO's table equal what others count, on cases made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from masquerade import joints
from masquerade.errors import BadInput
from masquerade.quality.pose import (
    FoundPerson,
    TruePerson,
    coco_table,
    compute_pckh,
    keypoint_similarity,
)

MPII = joints.MPII


def by_hand(found: np.ndarray, truth: np.ndarray, heads: np.ndarray, share: float) -> float:
    """As MPII's users count: shares of each joint, weighted by how often it is there."""
    right, there = np.zeros(16), np.zeros(16)
    for photo in range(len(truth)):
        for joint in range(16):
            if np.isnan(truth[photo, joint]).any():
                continue
            there[joint] += 1
            away = np.hypot(*(found[photo, joint] - truth[photo, joint])) / heads[photo]
            right[joint] += away <= share
    kept = [joint for joint in range(16) if joint not in (6, 7)]
    ratio = there[kept] / there[kept].sum()
    return float((100 * right[kept] / there[kept] * ratio).sum())


def test_pckh_is_what_mpiis_users_count() -> None:
    rng = np.random.default_rng(0)
    truth = rng.uniform(0, 200, (12, 16, 2))
    truth[rng.random((12, 16)) < 0.2] = np.nan
    found, heads = truth + rng.normal(0, 8, truth.shape), rng.uniform(10, 40, 12)
    found[np.isnan(found)] = 0.0
    for share in (0.5, 0.1):
        ours = compute_pckh(found, truth, heads, names=MPII, share=share)
        assert ours.mean == pytest.approx(by_hand(found, truth, heads, share))
    assert 0 < compute_pckh(found, truth, heads, names=MPII).mean < 100, "the case says something"


def test_pelvis_and_thorax_are_left_out_and_neck_and_top_are_the_head() -> None:
    truth = np.zeros((1, 16, 2))
    found = truth.copy()
    found[0, [6, 7]] = 99.0
    assert compute_pckh(found, truth, np.array([10.0]), names=MPII).mean == 100
    found[0, MPII.index("head_top")] = 99.0
    wrong = compute_pckh(found, truth, np.array([10.0]), names=MPII)
    assert wrong.groups["head"] == 50 and wrong.mean == pytest.approx(100 * 13 / 14)
    assert wrong.counted == 14 and list(wrong.groups) == [
        *("head", "shoulder", "elbow", "wrist", "hip", "knee", "ankle")
    ]


def test_a_photo_without_a_head_size_or_a_joint_does_not_count() -> None:
    truth = np.zeros((4, 16, 2))
    truth[3] = np.nan
    found = np.full_like(truth, 99.0)
    heads = np.array([10.0, 0.0, np.nan, 10.0])
    result = compute_pckh(found, truth, heads, names=MPII)
    assert result.photos == 1 and result.counted == 14 and result.mean == 0
    nobody = compute_pckh(found[1:], truth[1:], heads[1:], names=MPII)
    assert nobody.counted == 0 and np.isnan(nobody.mean) and not nobody.groups
    with pytest.raises(ValueError, match="Expected 4 photos of 17 joints"):
        compute_pckh(found, truth, heads, names=joints.COCO)


def person(picture: int, *, size: float, at: float = 0.0, share: float = 0.6) -> TruePerson:
    column = np.linspace(0, size, 17)
    body = np.stack([at + column, at + column[::-1]], axis=1)
    return TruePerson(
        picture=picture,
        joints=body,
        is_labelled=np.arange(17) % 3 > 0,
        box=(at, at, size, size),
        area=share * size * size,
    )


def moved(person: TruePerson, pixels: float, score: float) -> FoundPerson:
    return FoundPerson(picture=person.picture, joints=person.joints + pixels, score=score)


def test_similarity_is_the_published_formula() -> None:
    one = person(1, size=100)
    kappa = 2 * np.array(
        [0.025, 0.025, 0.035, 0.079, 0.072, 0.072, 0.062, 0.107, 0.087, 0.087, 0.089]
    )  # of the joints that are labelled here: 1, 2, 4, 5, 7, ...
    wanted = np.exp(-(2 * 5.0**2) / (2 * one.area * kappa**2)).mean()
    assert keypoint_similarity(one, moved(one, 5.0, 1.0)) == pytest.approx(wanted)


def test_the_table_is_the_one_that_cocos_evaluator_printed() -> None:
    """The figures are pycocotools 2.0.11's for these very people."""
    true = [
        *(person(1, size=60), person(1, size=150, at=200), person(2, size=300)),
        *(person(3, size=40, at=9), person(4, size=80)),
    ]
    found = [
        *(moved(true[0], 2, 0.9), moved(true[1], 9, 0.8), moved(true[1], 4, 0.3)),
        *(moved(true[2], 3, 0.7), moved(true[2], 30, 0.75), moved(true[3], 1, 0.5)),
    ]
    names = [f"{what}{kind}" for what in ("AP", "AR") for kind in ("", "50", "75", "M", "L")]
    table = coco_table(true, found)
    assert list(table) == names
    printed = [0.49901, 0.722772, 0.60396, 0.353465, 0.534158, 0.66, 0.8, 0.8, 0.35, 0.9]
    assert list(table.values()) == pytest.approx(printed, abs=1e-5)


def test_nobody_of_a_size_is_minus_one_and_other_joints_are_refused() -> None:
    table = coco_table([person(1, size=300)], [])
    assert table["AP"] == 0 and table["APM"] == -1 and table["ARL"] == 0
    with pytest.raises(BadInput, match="Expected COCO's 17 joints"):
        coco_table([], [FoundPerson(picture=1, joints=np.zeros((16, 2)), score=1.0)])
