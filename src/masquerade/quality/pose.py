"""How well joints are found: PCKh, as MPII counts it.

A joint is right where it lies within a share of the head's size from the truth. The head's size is
0.6 times the diagonal of the head box, so that a head_px is given, not made, here. Every labelled
joint counts, seen or hidden; pelvis and thorax are left out of the mean [andriluka2014].

Average precision and recall of people's joints, number for number as COCO's evaluator prints it.

A found person is right where the joints are near the truth's, near being measured in the person's
own size and in how exactly people mark each joint: object keypoint similarity [lin2014].

Convention:
    A value is -1 where nobody is of that size, as in COCO's own table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from masquerade import _check
from masquerade.errors import BadInput
from masquerade.joints import COCO

_SIGMAS = np.array(
    [
        *(0.026, 0.025, 0.025, 0.035, 0.035, 0.079, 0.079, 0.072, 0.072),
        *(0.062, 0.062, 0.107, 0.107, 0.087, 0.087, 0.089, 0.089),
    ]
)
_THRESHOLDS = np.linspace(0.5, 0.95, 10)
_RECALLS = np.linspace(0.0, 1.0, 101)
_MAX_FOUND = 20  # people found in a picture who are counted
_AREA_LIMITS = {"all": (0.0, 1e10), "medium": (32.0**2, 96.0**2), "large": (96.0**2, 1e10)}
_SHARED_ROWS = (("", 0.0, "all"), ("50", 0.5, "all"), ("75", 0.75, "all"), ("M", 0.0, "medium"))
COCO_ROWS = (
    *_SHARED_ROWS,
    ("L", 0.0, "large"),
)  # what COCO prints, of precision and then of recall


@dataclass(frozen=True, kw_only=True, eq=False)
class TruePerson:
    """Somebody in a picture.

    Args:
        picture: which one.
        joints: (17, 2) in pixels.
        is_labelled: (17,) bool; others do not count.
        box: x, y, width and height.
        area: of the person, in square pixels.
        is_ignored: whether it neither has to be found nor counts as wrong where found.
    """

    picture: int
    joints: np.ndarray
    is_labelled: np.ndarray
    box: tuple[float, float, float, float]
    area: float
    is_ignored: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class FoundPerson:
    """Somebody whom a network found.

    Args:
        picture: in which one.
        joints: (17, 2) in pixels.
        score: how sure it is.
    """

    picture: int
    joints: np.ndarray
    score: float

    @property
    def area(self) -> float:
        """Of the box around the joints."""
        return float(np.prod(self.joints.max(axis=0) - self.joints.min(axis=0)))


class _PictureMatches(NamedTuple):
    """What came of one picture at all thresholds: (T, found) and who was to be found."""

    scores: np.ndarray
    is_matched: np.ndarray
    is_left_out: np.ndarray
    wanted: int


def coco_table(true: Sequence[TruePerson], found: Sequence[FoundPerson]) -> dict[str, float]:
    """AP, AP50, AP75, APM, APL, AR, AR50, AR75, ARM and ARL, from 0 to 1.

    Example:
        >>> joints = np.arange(34.0).reshape(17, 2) * 9
        >>> one = TruePerson(picture=1, joints=joints, is_labelled=np.ones(17, bool),
        ...                  box=(0, 0, 300, 300), area=90_000.0)
        >>> table = coco_table([one], [FoundPerson(picture=1, joints=joints, score=1.0)])
        >>> round(table["AP"], 9)
        1.0
    """
    people: list[TruePerson | FoundPerson] = [*true, *found]
    for each in people:
        if each.joints.shape != (len(COCO), 2):
            raise BadInput(f"Expected COCO's {len(COCO)} joints, got shape {each.joints.shape}.")
    precision, recall = {}, {}
    for size, limits in _AREA_LIMITS.items():
        precision[size], recall[size] = _compute_recall_curves(_match_pictures(true, found, limits))
    table = {}
    for what, held in (("AP", precision), ("AR", recall)):
        for name, threshold, size in COCO_ROWS:
            rows = held[size] if not threshold else held[size][_THRESHOLDS == threshold]
            counted = rows[rows > -1]
            table[f"{what}{name}"] = float(counted.mean()) if counted.size else -1.0
    return table


def _match_pictures(
    true: Sequence[TruePerson], found: Sequence[FoundPerson], limits: tuple[float, float]
) -> list[_PictureMatches]:
    by_picture: Mapping[int, tuple[list[TruePerson], list[FoundPerson]]]
    by_picture = defaultdict(lambda: ([], []))
    for person in true:
        by_picture[person.picture][0].append(person)
    for guess in found:
        by_picture[guess.picture][1].append(guess)
    return [_match_found(*by_picture[key], limits) for key in sorted(by_picture)]


def keypoint_similarity(true: TruePerson, found: FoundPerson) -> float:
    """Object keypoint similarity, from 0 to 1."""
    x, y, width, height = true.box
    if true.is_labelled.any():
        away = (found.joints - true.joints)[true.is_labelled]
        spread = _SIGMAS[true.is_labelled]
    else:  # as far as the joints are from the box and as much around it
        low, high = np.array([x - width, y - height]), np.array([x + 2 * width, y + 2 * height])
        away = np.maximum(0, low - found.joints) + np.maximum(0, found.joints - high)
        spread = _SIGMAS
    apart = (away**2).sum(axis=1) / (2 * spread) ** 2 / (true.area + np.spacing(1)) / 2
    return float(np.exp(-apart).mean())


def _match_found(
    true: list[TruePerson], found: list[FoundPerson], limits: tuple[float, float]
) -> _PictureMatches:
    """Each found person, the surest first, takes the nearest who is still free."""
    low, high = limits
    found = sorted(found, key=lambda one: -one.score)[:_MAX_FOUND]
    is_ignored = [one.is_ignored or not low <= one.area <= high for one in true]
    order = np.argsort(is_ignored, kind="stable")
    true, ignored = [true[place] for place in order], np.array(is_ignored, bool)[order]
    near = np.array([[keypoint_similarity(one, guess) for one in true] for guess in found])
    shape = (len(_THRESHOLDS), len(found))
    is_matched, is_left_out = np.zeros(shape, bool), np.zeros(shape, bool)
    for row, threshold in enumerate(_THRESHOLDS):
        is_taken = np.zeros(len(true), bool)
        for guess in range(len(found)):
            best = (
                _find_nearest_free(near[guess], is_taken, ignored, threshold) if len(true) else -1
            )
            if best >= 0:
                is_taken[best] = is_matched[row, guess] = True
                is_left_out[row, guess] = ignored[best]
    is_other = np.array([not low <= one.area <= high for one in found], bool)
    is_left_out |= ~is_matched & is_other
    return _PictureMatches(
        scores=np.array([one.score for one in found]),
        is_matched=is_matched,
        is_left_out=is_left_out,
        wanted=int((~ignored).sum()),
    )


def _find_nearest_free(
    near: np.ndarray, is_taken: np.ndarray, ignored: np.ndarray, threshold: float
) -> int:
    """The place of the nearest who is free and near enough; ignored ones come last. -1 if none."""
    best, least = -1, min(threshold, 1 - 1e-10)
    for place in range(len(near)):
        if is_taken[place]:
            continue
        if best > -1 and not ignored[best] and ignored[place]:
            break
        if near[place] >= least:
            best, least = place, near[place]
    return best


def _compute_recall_curves(pictures: list[_PictureMatches]) -> tuple[np.ndarray, np.ndarray]:
    """Precision (T, 101) at every recall, and the highest recall (T,); -1 if nobody was wanted."""
    wanted = sum(each.wanted for each in pictures)
    precision = np.full((len(_THRESHOLDS), len(_RECALLS)), -1.0)
    recall = np.full(len(_THRESHOLDS), -1.0)
    if not wanted:
        return precision, recall
    order = np.argsort(-np.concatenate([each.scores for each in pictures]), kind="stable")
    matched, left_out = (
        np.concatenate([getattr(each, name) for each in pictures], axis=1)[:, order]
        for name in ("is_matched", "is_left_out")
    )
    right = np.cumsum(matched & ~left_out, axis=1).astype(float)
    wrong = np.cumsum(~matched & ~left_out, axis=1).astype(float)
    for row in range(len(_THRESHOLDS)):
        reached = right[row] / wanted
        share = right[row] / (wrong[row] + right[row] + np.spacing(1))
        share = np.maximum.accumulate(share[::-1])[::-1]  # the best at this recall or above
        recall[row] = reached[-1] if reached.size else 0.0
        places = np.searchsorted(reached, _RECALLS, side="left")
        padded = np.append(share, 0.0)
        precision[row] = padded[np.minimum(places, len(share))]
    return precision, recall


LEFT_OUT = ("pelvis", "thorax")
GROUPS = {
    "head": ("upper_neck", "head_top", "nose", "left_eye", "right_eye", "left_ear", "right_ear"),
    **{
        name: (f"left_{name}", f"right_{name}")
        for name in ("shoulder", "elbow", "wrist", "hip", "knee", "ankle")
    },
}


@dataclass(frozen=True, kw_only=True)
class Pckh:
    """How many joints are right, in per cent.

    Args:
        mean: over all joints that count, pelvis and thorax left out; NaN if there is none.
        groups: the mean of each group's joints, by name; of those that have any.
        counted: joints in the mean.
        photos: that have a head size and a joint that counts.
    """

    mean: float
    groups: dict[str, float]
    counted: int
    photos: int


def compute_pckh(
    found: np.ndarray,
    truth: np.ndarray,
    head_px: np.ndarray,
    *,
    names: Sequence[str],
    share: float = 0.5,
) -> Pckh:
    """Count joints that are right.

    Args:
        found: (N, J, 2) in pixels.
        truth: (N, J, 2); missing is NaN, and does not count.
        head_px: (N,) size of each head; a photo where it is not above 0 does not count.
        names: of the joints.
        share: of the head's size within which a joint is right.

    Example:
        >>> truth = np.array([[[10.0, 10.0], [20.0, 30.0]]])
        >>> found = truth + [[[3.0, 4.0], [3.0, 5.0]]]
        >>> compute_pckh(found, truth, np.array([10.0]), names=["left_hip", "left_knee"]).groups
        {'hip': 100.0, 'knee': 0.0}
    """
    _check.positive(share=share)
    is_right, counts = _judge_joints(found, truth, head_px, names, share)
    is_in_mean = _in_mean(names)
    total = int(counts[:, is_in_mean].sum())
    return Pckh(
        mean=100 * float(is_right[:, is_in_mean].sum() / total) if total else float("nan"),
        groups=_average_groups(is_right, counts, names),
        counted=total,
        photos=int(counts[:, is_in_mean].any(axis=1).sum()),
    )


def shares_right(
    found: np.ndarray,
    truth: np.ndarray,
    head_px: np.ndarray,
    *,
    names: Sequence[str],
    share: float = 0.5,
) -> np.ndarray:
    """(N,) of each photo, as `compute_pckh` counts; NaN where nothing counts.

    Example:
        >>> truth = np.array([[[10.0, 10.0], [20.0, 30.0]]])
        >>> found = truth + [[[3.0, 4.0], [3.0, 5.0]]]
        >>> shares_right(found, truth, np.array([10.0]), names=["left_hip", "left_knee"]).tolist()
        [0.5]
    """
    is_right, counts = _judge_joints(found, truth, head_px, names, share)
    total = counts[:, _in_mean(names)].sum(axis=1)
    right = is_right[:, _in_mean(names)].sum(axis=1)
    return np.where(total > 0, right / np.maximum(total, 1), np.nan)


def _in_mean(names: Sequence[str]) -> np.ndarray:
    return np.array([name not in LEFT_OUT for name in names])


def _judge_joints(
    found: np.ndarray, truth: np.ndarray, head_px: np.ndarray, names: Sequence[str], share: float
) -> tuple[np.ndarray, np.ndarray]:
    """(N, J) whether each joint is right, and whether it counts."""
    _check.shape("N J 2", found=found, truth=truth)
    if truth.shape[:2] != (len(head_px), len(names)):
        raise ValueError(
            f"Expected {len(head_px)} photos of {len(names)} joints, got {truth.shape[:2]}."
        )
    with np.errstate(invalid="ignore"):
        is_measured = np.isfinite(head_px) & (head_px > 0)
        counts = np.isfinite(truth).all(axis=2) & is_measured[:, None]  # (N, J)
        size = np.where(is_measured, head_px, 1.0)[:, None]
        is_right = counts & (np.linalg.norm(found - truth, axis=2) / size <= share)
    return is_right, counts


def _average_groups(
    is_right: np.ndarray, counts: np.ndarray, names: Sequence[str]
) -> dict[str, float]:
    """The mean over a group's joints, each with its own share of photos."""
    found = {}
    for group, members in GROUPS.items():
        places = [place for place, name in enumerate(names) if name in members]
        shares = [
            is_right[:, place].sum() / counts[:, place].sum()
            for place in places
            if counts[:, place].any()
        ]
        if shares:
            found[group] = 100 * float(np.mean(shares))
    return found


def require_measured(result: Pckh) -> Pckh:
    """The result, if there is something in it.

    Raises:
        BadInput: if no photo could be measured.
    """
    if not result.counted:
        raise BadInput(
            "Expected photos with joints and a head size, by which PCKh is measured, got none."
        )
    return result
