"""What a face looks like to a network that tells people apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from masquerade import assets
from masquerade.attack.case import Recording
from masquerade.attack.people_seen import frames_of, some_of, told_joints
from masquerade.errors import BadInput
from masquerade.sight.face_detector import Detector, Layout, load_detector
from masquerade.sight.face_recogniser import FaceRecogniser

_FRAMES = 4  # of a film that are looked at
_SCORE = 0.3  # the least of a face
_COCO = 17  # joints, of which the first five are of the head
_LEAST_FACE_PX = 8


@dataclass(frozen=True, kw_only=True)
class FaceCue:
    """Faces as rows of 128 numbers.

    Args:
        is_told: whether the labels say where the face is.
    """

    NETWORKS: ClassVar[tuple[str, ...]] = ("centerface", "dlib_face_points", "dlib_face_resnet")
    VERSION: ClassVar[int] = 1

    is_told: bool
    recogniser: FaceRecogniser = field(default_factory=FaceRecogniser)

    def __call__(self, recording: Recording) -> np.ndarray:
        """(K, 128): one row a frame in which a face is seen, of the largest."""
        frames = frames_of(recording, by="face")
        numbers = some_of(len(frames), most=_FRAMES)
        told = told_joints(recording) if self.is_told else None
        rows = []
        for number in numbers:
            boxes = self._find(frames[number]) if told is None else _told(told[number])
            rows.append(self.recogniser.embed(frames[number], boxes))
        return np.concatenate(rows)

    def _find(self, frame: np.ndarray) -> np.ndarray:
        """(1, 4) the largest face, or (0, 4)."""
        found = self._detect(frame)[:, :4]
        found = found[np.min(found[:, 2:] - found[:, :2], axis=1) >= _LEAST_FACE_PX]
        areas = np.prod(found[:, 2:] - found[:, :2], axis=1)
        return np.asarray(found[np.argsort(-areas)[:1]])

    @cached_property
    def _detect(self) -> Detector:
        network = assets.fetch("centerface")
        return load_detector(network, layout=Layout.CENTERFACE, thresh=_SCORE, height=None)


def _told(joints: np.ndarray) -> np.ndarray:
    """(1, 4) the square about nose, eyes and ears (17, 2), or (0, 4) where they are not known."""
    if len(joints) != _COCO:
        raise BadInput(
            f"Expected the 17 joints of COCO where joints=truth, got {len(joints)}; give "
            "--joints estimated, or a data set with them."
        )
    head = joints[:5]
    if not np.all(np.isfinite(head)):
        return np.zeros((0, 4))
    middle = head[:3].mean(axis=0)
    reach = max(float(np.ptp(head, axis=0).max()) * 0.7, _LEAST_FACE_PX / 2)
    return np.concatenate([middle - reach, middle + reach])[None]
