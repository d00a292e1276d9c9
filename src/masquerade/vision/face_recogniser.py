"""Tell faces apart with dlib's network: 128 numbers a face, near each other for one person.

A face is found by somebody else; here five points of it (corners of the eyes, the nose) are
found, the face is turned upright and cut out, 150 x 150 pixels, and the network [king2017] looks at
it. Two faces whose numbers are less than ``MAX_SAME_DISTANCE`` apart are taken for one person's by
its author, who measured 99.38 % right answers so on Labeled Faces in the Wild.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from masquerade import _check
from masquerade._optional import lazy_module
from masquerade.errors import BadInput
from masquerade.io import downloads
from masquerade.vision import network_files
from masquerade.vision.network_files import NetworkFile

dlib = lazy_module("dlib", extra="attack")


NETWORKS = ("dlib_face_resnet", "dlib_face_points")
MAX_SAME_DISTANCE = 0.6  # distance below which two faces are one person's
NUM_FEATURES = 128
_SIDE_PX = 150  # of a face as the network takes it
_PADDING = 0.25  # around it, as in training
_BATCH = 32  # faces at a time
_MIN_FACE_PX = 16.0  # a smaller box is taken for one of that size about its centre
_MAX_BOX_PX = 2**20  # beyond any picture


@dataclass(frozen=True, kw_only=True)
class FaceRecogniser:
    """Embeds faces; distances are Euclidean.

    Args:
        network: dlib_face_recognition_resnet_model_v1.dat; None for the listed asset.
        points: shape_predictor_5_face_landmarks.dat; None for the listed asset.
    """

    network: Path | None = None
    points: Path | None = None

    def __getstate__(self) -> dict[str, object]:
        """The fields alone: another process loads the networks itself."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def load_networks(self) -> None:
        """Load both files.

        Raises:
            BadInput: if one is not to be had, or is not what it should be.
            OSError: if no place that has it can be reached.
        """
        _ = self._embedding_network, self._point_finder

    def embed(self, frame: np.ndarray, boxes: np.ndarray) -> np.ndarray:
        """(N, 128) float32 of the faces of a frame.

        Args:
            frame: (H, W, 3) uint8, RGB.
            boxes: (N, 4) or more columns: left, top, right, bottom in pixels, as ``FaceDetector``
                of ``face_detector`` gives them; they may reach out of the frame.
        """
        return self._embed_chips(self.cut_chips(frame, boxes))

    def embed_all(self, frames: np.ndarray, boxes: list[np.ndarray]) -> list[np.ndarray]:
        """As ``embed`` for (T, H, W, 3) and one array of boxes a frame, more at a time."""
        _check.shape("T H W 3", frames=frames)
        if len(boxes) != len(frames):
            raise ValueError(
                f"Expected boxes for each of {len(frames)} frames, got {len(boxes)} arrays."
            )
        chips = [self.cut_chips(frame, some) for frame, some in zip(frames, boxes, strict=True)]
        ends = np.cumsum([len(each) for each in chips])[:-1]
        return np.split(self._embed_chips([chip for each in chips for chip in each]), ends)

    def cut_chips(self, frame: np.ndarray, boxes: np.ndarray) -> list[np.ndarray]:
        """Each face upright, (150, 150, 3) uint8, as the network sees it."""
        _check.shape("H W 3", frame=frame)
        if frame.dtype != np.uint8 or not frame.size:
            raise ValueError(f"Expected frame as uint8 pixels, got {frame.shape} {frame.dtype}.")
        frame = np.ascontiguousarray(frame)
        shapes = [
            self._point_finder(frame, _make_dlib_rectangle(box)) for box in _check_boxes(boxes)
        ]
        return [dlib.get_face_chip(frame, each, _SIDE_PX, _PADDING) for each in shapes]

    @property
    def in_words(self) -> str:
        """What looked, for a report."""
        return network_files.describe_network_files(*self._network_files)

    @property
    def _network_files(self) -> tuple[NetworkFile, NetworkFile]:
        network, points = NETWORKS
        return NetworkFile(network, self.network), NetworkFile(points, self.points)

    def _embed_chips(self, chips: list[np.ndarray]) -> np.ndarray:
        parts = [np.zeros((0, NUM_FEATURES), np.float32)]
        for start in range(0, len(chips), _BATCH):
            found = self._embedding_network.compute_face_descriptor(chips[start : start + _BATCH])
            parts.append(np.array(found, np.float32))
        return np.vstack(parts)

    @cached_property
    def _embedding_network(self) -> Any:
        return _load_dlib_model(dlib.face_recognition_model_v1, self._network_files[0])

    @cached_property
    def _point_finder(self) -> Any:
        found = _load_dlib_model(dlib.shape_predictor, self._network_files[1])
        blank = np.zeros((_SIDE_PX, _SIDE_PX, 3), np.uint8)
        count = found(blank, dlib.rectangle(0, 0, _SIDE_PX, _SIDE_PX)).num_parts
        if count != 5:
            raise BadInput(
                f"Expected a model of 5 points in {self.points}, got one of {count}; give "
                "shape_predictor_5_face_landmarks.dat, or leave it out."
            )
        return found


def compute_distances(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(N, M): how far each of ``some`` (N, D) is from each of ``others`` (M, D).

    Example:
        >>> compute_distances(np.zeros((1, 2)), np.array([[3.0, 4.0], [0.0, 0.0]]))
        array([[5., 0.]])
    """
    _check.shape("_ D", some=some, others=others)
    return np.asarray(np.linalg.norm(some[:, None] - others[None], axis=2))


def _check_boxes(boxes: np.ndarray) -> np.ndarray:
    """(N, 4), each with a size."""
    if boxes.ndim != 2 or boxes.shape[1] < 4:
        raise ValueError(f"Expected boxes as (N, 4), got boxes.shape={boxes.shape}.")
    corners = np.asarray(boxes[:, :4], float)
    if not np.all(np.abs(corners) < _MAX_BOX_PX) or np.any(corners[:, :2] >= corners[:, 2:]):
        raise ValueError(
            f"Expected boxes as left < right and top < bottom, in pixels, got {corners.tolist()}."
        )
    return corners


def _make_dlib_rectangle(box: np.ndarray) -> Any:
    """The square that dlib's own detector would have drawn, from brows to chin."""
    left, top, right, bottom = box
    side = max((right - left + bottom - top) / 2, _MIN_FACE_PX)
    x, y = (left + right) / 2, (top + bottom) / 2
    corners = (x - side / 2, y - side / 2, x + side / 2, y + side / 2)
    return dlib.rectangle(*(round(corner) for corner in corners))


def _load_dlib_model(kind: Any, file: NetworkFile) -> Any:
    """A model of dlib's, by the class that reads it."""
    path, name = file.find_path(), file.asset
    if not path.is_file():
        raise BadInput(f"Expected a model of dlib at {path}; there is no such file.")
    try:
        return kind(str(path))
    except RuntimeError as error:
        first = str(error).strip().splitlines()[0]
        raise BadInput(
            f"Expected {downloads.find_asset(name).file_name} in {path.name}, got: {first} "
            f"Give that file, or none, so that the asset {name} is fetched."
        ) from error
