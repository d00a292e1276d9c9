"""How somebody moves: joints over time, in metres, whichever way the camera looks.

Lengths of limbs, the size and rhythm of steps and of swinging arms, and how joints bend.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

import numpy as np

from masquerade.attack.case import Recording
from masquerade.attack.people_seen import PoseSearch
from masquerade.errors import BadInput
from masquerade.recordings import Video
from masquerade.sight.person_tracks import tracked

LEAST_S, LEAST_FRAMES = 1.0, 8  # of a track, for a gait to be seen
_BLAZE = (0, 11, 12, 13, 14, 15, 16, 23, 24, 25, 26, 27, 28)
_COCO = (0, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)
# Of those: nose, shoulders, elbows, wrists, hips, knees, ankles, left before right.
_LIMBS = ((1, 3), (2, 4), (3, 5), (4, 6), (7, 9), (8, 10), (9, 11), (10, 12), (1, 2), (7, 8))
_BENDS = (
    (1, 3, 5),
    (2, 4, 6),
    (7, 9, 11),
    (8, 10, 12),
    (1, 7, 9),
    (2, 8, 10),
    (7, 1, 3),
    (8, 2, 4),
)
_PAIRS = ((11, 12), (5, 6), (9, 10), (3, 4))  # left and right that swing against each other
_BANDS_HZ = np.array([0.3, 0.8, 1.3, 1.9, 2.6, 3.6, 5.0])
_FAINT = 1e-4


@dataclass(frozen=True, kw_only=True)
class GaitCue:
    """A film as one row of what its main person's joints do.

    Args:
        is_told: whether joints are the labels', an upper bound of what eyes can see.
    """

    NETWORKS: ClassVar[tuple[str, ...]] = ("pose_detection", "pose_landmark_full")
    VERSION: ClassVar[int] = 1

    is_told: bool
    search: PoseSearch = field(default_factory=PoseSearch)

    def __call__(self, recording: Recording) -> np.ndarray:
        """(1, D), or (0, D) where nobody is followed for long enough."""
        film = _film(recording)
        joints = _told(film) if self.is_told else self._followed(film)
        if len(joints) < max(LEAST_FRAMES, LEAST_S * film.rate_hz):
            return np.zeros((0, len(described(np.zeros((8, 13, 3)), 1.0))))
        return described(joints, film.rate_hz)[None]

    def _followed(self, film: Video) -> np.ndarray:
        """(T, 13, 3) of the person who is seen longest."""
        tracks = tracked(self.search.people(frame) for frame in film.frames)
        longest = max(tracks, key=lambda track: int(track.is_seen.sum()), default=None)
        return np.zeros((0, 13, 3)) if longest is None else longest.world[:, _BLAZE]


def described(joints: np.ndarray, rate_hz: float) -> np.ndarray:
    """(D,) numbers on joints (T, 13, 3), metres to the right, down and away."""
    lengths = [np.median(_length(joints[:, a] - joints[:, b])) for a, b in _LIMBS]
    neck, hips = joints[:, 1:3].mean(axis=1), joints[:, 7:9].mean(axis=1)
    spine = neck - hips
    lengths += [np.median(_length(spine)), np.median(_length(joints[:, 0] - neck))]
    bends = np.stack([_angle(joints, *each) for each in _BENDS], axis=1)  # (T, 8)
    apart = np.stack([_length(joints[:, a] - joints[:, b]) for a, b in _PAIRS], axis=1)
    lean = np.arccos(np.clip(-spine[:, 1] / np.maximum(_length(spine), _FAINT), -1, 1))
    heights = joints[:, [11, 12, 5, 6], 1] - hips[:, 1:2]
    moves = np.column_stack([bends, apart, lean, heights])
    low, high = np.percentile(moves, [10, 90], axis=0)
    logs = np.log(np.maximum(lengths, _FAINT))
    return np.concatenate(
        [logs, logs - logs.mean(), moves.mean(axis=0), high - low, _bands(moves, rate_hz)]
    )


def _bands(moves: np.ndarray, rate_hz: float) -> np.ndarray:
    """How much of each movement (T, M) is how fast, in logarithms, and how fast on average."""
    swing = (moves - moves.mean(axis=0)) * np.hanning(len(moves))[:, None]
    power = np.abs(np.fft.rfft(swing, n=max(64, len(moves)), axis=0)) ** 2
    at_hz = np.fft.rfftfreq(max(64, len(moves)), 1 / rate_hz)
    sums = [power[(at_hz >= low) & (at_hz < high)].sum(axis=0) for low, high in pairwise(_BANDS_HZ)]
    whole = power.sum(axis=0) + _FAINT
    speed = at_hz @ power / whole
    shares = np.log(np.array(sums) / whole + 1e-2)  # (bands, M)
    return np.concatenate([shares.mean(axis=1), shares[:, :12].ravel(), speed])


def _length(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(vectors, axis=-1))


def _angle(joints: np.ndarray, a: int, b: int, c: int) -> np.ndarray:
    """(T,) at joint b, between a and c, in radians."""
    one, other = joints[:, a] - joints[:, b], joints[:, c] - joints[:, b]
    size = np.maximum(_length(one) * _length(other), _FAINT**2)
    return np.asarray(np.arccos(np.clip(np.sum(one * other, axis=1) / size, -1, 1)))


def _film(recording: Recording) -> Video:
    if not isinstance(recording, Video):
        raise BadInput("Expected films where by=gait; use --by face or --by body for photos.")
    count = len(recording.frames)
    if count < max(LEAST_FRAMES, LEAST_S * recording.rate_hz):
        raise BadInput(
            f"Expected films of at least {LEAST_S:g} s and {LEAST_FRAMES} frames where by=gait, "
            f"got one of {count} frames at {recording.rate_hz:g} Hz; give longer ones."
        )
    return recording


def _told(film: Video) -> np.ndarray:
    """(T, 13, 3) of the labels, as right, down, away."""
    joints = film.joints_3d
    if joints is None or joints.shape[1] != 17 or not np.all(np.isfinite(joints)):
        raise BadInput(
            "Expected recordings with the 17 joints of COCO in metres where joints=truth, got one "
            "without; use --joints estimated."
        )
    x, y, up = np.moveaxis(joints[:, _COCO].astype(float), 2, 0)
    return np.stack([x, -up, y], axis=2)
