"""Find faces in one frame or in parts of it, with an ONNX network.

Two layouts of a network are understood. Both take one RGB picture, float32 0 to 255, (1, 3, H, W).

- ``centerface``: heatmap (1, 1, h, w), size (1, 2, h, w), offset (1, 2, h, w) and, unused here,
  landmarks, at a quarter of the picture's size. A cell of the heatmap above the threshold is a
  face; its centre is the cell's, moved by the offset, and its size is the exponential of the
  size; both in cells, the vertical one first. The picture may have any size.
- ``boxes_scores``: boxes (N, 4), left, top, right, bottom in pixels of the picture, and scores (N)
  or (N, classes), of which the last is the face's; axes of size 1 in front are ignored. A picture
  whose size the network fixes is stretched to it.

Where to look for faces that are nearly known: parts of a picture around boxes.

A convolutional network answers the same for a part as for the whole picture, but for what it sees
around a face; three face widths and a rim are enough. Parts start and end on the network's grid, so
that its cells lie where they lie in the whole.

Find the faces of every frame, and search only some of the frames whole.

Every n-th frame is searched whole. The frames between two of those wait for the second and are then
searched near what both hold, which takes a fraction of the time and finds where a face moved, when
it came and when it went. What is not quite a face in a frame searched whole is looked at as well,
since it may be one in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

from masquerade._optional import lazy_module
from masquerade.errors import BadInput
from masquerade.mechanism import Frames
from masquerade.vision.network_files import free_sizes, open_session
from masquerade.vision.tracks import compute_box_centres, compute_overlap

cv2 = lazy_module("cv2", extra="vision")


Region: TypeAlias = tuple[int, int, int, int]  # left, top, right, bottom

_REGION_FACE_WIDTHS = 3.0  # of a face, that a part is wide and high,
_REGION_RIM_PX = 96  # and so many pixels on each side


def merge_regions(boxes: np.ndarray, *, size: tuple[int, int], step: int) -> list[Region]:
    """Parts of a picture of ``size`` (height, width) that hold the boxes (N, 4); none overlap.

    Example:
        >>> merge_regions(np.array([[100, 100, 120, 120]]), size=(640, 960), step=32)
        [(0, 0, 256, 256)]
    """
    tall, wide = size
    reach = (
        np.max(boxes[:, 2:] - boxes[:, :2], axis=1, initial=0.0)[:, None] * _REGION_FACE_WIDTHS / 2
        + _REGION_RIM_PX
    )
    low = np.floor((compute_box_centres(boxes) - reach) / step) * step
    high = np.ceil((compute_box_centres(boxes) + reach) / step) * step
    corners = np.hstack([np.maximum(low, 0), np.minimum(high, (wide, tall))]).astype(int)
    apart: list[Region] = []
    for left, top, right, bottom in corners.tolist():
        if left < right and top < bottom:
            apart = _join_region(apart, (left, top, right, bottom))
    return apart


def num_pixels(parts: list[Region]) -> int:
    """What the parts hold together."""
    return sum((right - left) * (bottom - top) for left, top, right, bottom in parts)


def _join_region(apart: list[Region], new: Region) -> list[Region]:
    """The parts with one more, which takes in all that it touches."""
    for part in apart:
        if max(part[0], new[0]) < min(part[2], new[2]) and max(part[1], new[1]) < min(
            part[3], new[3]
        ):
            rest = [other for other in apart if other is not part]
            low = min(part[0], new[0]), min(part[1], new[1])
            return _join_region(rest, (*low, max(part[2], new[2]), max(part[3], new[3])))
    return [*apart, new]


_STRIDE = 4  # pixels a cell of CenterFace's heatmap
_SIDE_MULTIPLE = 32  # a picture's sides are multiples of it
_MAX_REGION_SHARE = 0.5  # share of the picture above which parts are not worth while
_MAX_FACE_OVERLAP = 0.3  # overlap above which two boxes are one face
_MAX_LOG_SIZE = 16.0  # beyond any picture, and its exponential is finite


class OutputLayout(StrEnum):
    """What a network's outputs are."""

    CENTERFACE = "centerface"
    BOXES_SCORES = "boxes_scores"


class FaceDetector(Protocol):
    """What finds the faces of an RGB frame: (N, 5) left, top, right, bottom, score, in pixels."""

    def __call__(self, frame: np.ndarray) -> np.ndarray:
        """The faces of the whole frame."""

    def search_near(self, frame: np.ndarray, boxes: np.ndarray) -> np.ndarray:
        """The faces near ``boxes`` (N, 4), and maybe others."""


def load_detector(
    path: Path, *, layout: OutputLayout, thresh: float, height: int | None
) -> FaceDetector:
    """A detector with this network.

    Args:
        path: an ONNX file.
        layout: what its outputs are.
        thresh: the least score of a face.
        height: lines of the picture that the network sees, its shorter side; None for all.

    Raises:
        BadInput: if the file is no such network.
    """
    session = _open_session(path, layout)
    picture = session.get_inputs()[0]
    if len(picture.shape) != 4:
        raise BadInput(
            f"Expected a network that takes a picture, (1, 3, H, W), got {path.name}, which takes "
            f"{picture.name} with {len(picture.shape)} axes."
        )
    fixed = _find_input_size(picture.shape) if layout is OutputLayout.BOXES_SCORES else None
    return _OnnxDetector(
        session=session, name=path.name, layout=layout, thresh=thresh, height=height, fixed=fixed
    )


@dataclass(frozen=True, kw_only=True)
class _OnnxDetector:
    """A detector that onnxruntime runs."""

    session: Any
    name: str
    layout: OutputLayout
    thresh: float
    height: int | None
    fixed: tuple[int, int] | None

    def __call__(self, frame: np.ndarray) -> np.ndarray:
        size = self._choose_input_size(frame)
        return self._in_frame(self._find_faces(_stretch_frame(frame, size)), frame, size)

    def search_near(self, frame: np.ndarray, boxes: np.ndarray) -> np.ndarray:
        size = self._choose_input_size(frame)
        scale = np.tile([size[1] / frame.shape[1], size[0] / frame.shape[0]], 2)
        parts = merge_regions(boxes * scale, size=size, step=_SIDE_MULTIPLE)
        takes_parts = self.layout is OutputLayout.CENTERFACE
        if not takes_parts or num_pixels(parts) > _MAX_REGION_SHARE * size[0] * size[1]:
            return self(frame)
        picture = _stretch_frame(frame, size)
        found = [np.zeros((0, 5))]
        for left, top, right, bottom in parts:
            faces = self._find_faces(picture[top:bottom, left:right])
            found.append(faces + np.array([left, top, left, top, 0.0]))
        return self._in_frame(np.vstack(found), frame, size)

    def _choose_input_size(self, frame: np.ndarray) -> tuple[int, int]:
        return self.fixed or working_size(*frame.shape[:2], height=self.height)

    def _find_faces(self, picture: np.ndarray) -> np.ndarray:
        """What the network finds in a picture (H, W, 3), in its pixels."""
        shown = np.ascontiguousarray(picture.transpose(2, 0, 1)[None], dtype=np.float32)
        outputs = self.session.run(None, {self.session.get_inputs()[0].name: shown})
        if not all(np.all(np.isfinite(output)) for output in outputs):
            raise BadInput(f"Expected numbers from the detector {self.name}, got NaN or infinity.")
        decode = decode_centerface if self.layout is OutputLayout.CENTERFACE else decode_boxes
        return decode(outputs, thresh=self.thresh)

    def _in_frame(self, faces: np.ndarray, frame: np.ndarray, size: tuple[int, int]) -> np.ndarray:
        """Faces of a picture of ``size`` as those of the frame that was stretched to it."""
        rows, columns = frame.shape[:2]
        faces[:, [0, 2]] = np.clip(faces[:, [0, 2]] * (columns / size[1]), 0, columns)
        faces[:, [1, 3]] = np.clip(faces[:, [1, 3]] * (rows / size[0]), 0, rows)
        return without_doubles(faces)


def working_size(rows: int, columns: int, *, height: int | None) -> tuple[int, int]:
    """Height and width of the picture that the network sees: multiples of 32, never enlarged more.

    Example:
        >>> working_size(1080, 1920, height=360), working_size(5, 7, height=None)
        ((384, 640), (32, 32))
    """
    scale = 1.0 if height is None else min(1.0, height / min(rows, columns))
    least_above = (
        -(-round(side * scale) // _SIDE_MULTIPLE) * _SIDE_MULTIPLE for side in (rows, columns)
    )
    tall, wide = (max(_SIDE_MULTIPLE, side) for side in least_above)
    return tall, wide


def _stretch_frame(frame: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """A frame of ``size`` (height, width)."""
    if frame.shape[:2] == size:
        return frame
    return np.asarray(cv2.resize(frame, size[::-1], interpolation=cv2.INTER_LINEAR))


def decode_centerface(outputs: list[np.ndarray], *, thresh: float) -> np.ndarray:
    """CenterFace's tensors as (N, 5) boxes with scores, in pixels of the picture.

    Example:
        >>> heat, zeros = np.zeros((1, 1, 8, 8)), np.zeros((1, 2, 8, 8))
        >>> heat[0, 0, 2, 5] = 0.9
        >>> decode_centerface([heat, zeros, zeros], thresh=0.2)[0].tolist()
        [20.0, 8.0, 24.0, 12.0, 0.9]
    """
    _check_layout([output.shape[:2] for output in outputs[:3]] == [(1, 1), (1, 2), (1, 2)], outputs)
    heat, log_size, offset = outputs[:3]
    rows, columns = np.nonzero(heat[0, 0] >= thresh)
    cells = np.stack([rows, columns])  # (2, N)
    centre = (cells + 0.5 + offset[0, :, rows, columns].T) * _STRIDE
    size = np.exp(np.minimum(log_size[0, :, rows, columns].T, _MAX_LOG_SIZE)) * _STRIDE
    (top, left), (bottom, right) = centre - size / 2, centre + size / 2
    faces = np.stack([left, top, right, bottom, heat[0, 0, rows, columns]], axis=1)
    return faces.astype(np.float64)


def decode_boxes(outputs: list[np.ndarray], *, thresh: float) -> np.ndarray:
    """Boxes and scores as (N, 5), without those below the threshold."""
    is_so = len(outputs) >= 2 and outputs[0].shape[-1:] == (4,)
    count = outputs[0].size // 4
    _check_layout(is_so and outputs[1].size % max(count, 1) == 0, outputs)
    boxes = np.reshape(outputs[0], (count, 4)).astype(np.float64)
    scores = np.reshape(outputs[1], (count, -1))[:, -1:] if count else np.zeros((0, 1))
    faces = np.asarray(np.hstack([boxes, scores])[scores[:, 0] >= thresh])
    are_corners = bool(np.all(faces[:, :2] <= faces[:, 2:4]))
    are_pixels = not len(faces) or np.max(faces[:, :4]) > 1.0
    if not (are_corners and are_pixels):
        raise BadInput(
            "Expected boxes as left, top, right, bottom in pixels, got sizes or shares of the "
            "picture; let the network answer in corners and pixels."
        )
    return faces


def _check_layout(is_so: bool, outputs: list[np.ndarray]) -> None:
    if not is_so:
        raise BadInput(
            "Expected a network of the given layout, got outputs of shapes "
            f"{', '.join(str(output.shape) for output in outputs)}; choose another detector_layout."
        )


def without_doubles(faces: np.ndarray) -> np.ndarray:
    """The best box of each face, best first: boxes that overlap a better one are dropped."""
    faces = faces[np.argsort(-faces[:, 4], kind="stable")]
    kept = []
    while len(faces):
        best, faces = faces[0], faces[1:]
        kept.append(best)
        faces = faces[compute_overlap(best, faces) < _MAX_FACE_OVERLAP]
    return np.array(kept).reshape(-1, 5)


def _open_session(path: Path, layout: OutputLayout) -> Any:
    """A session of onnxruntime on the network."""
    if not path.is_file():
        raise BadInput(f"Expected an ONNX network at {path}; there is no such file.")
    model = path.read_bytes()
    if layout is OutputLayout.CENTERFACE:
        model = free_sizes(model)
    return open_session(model, path.name)


def _find_input_size(shape: list[int | str]) -> tuple[int, int] | None:
    """Height and width of the only picture that a network takes, if there is but one."""
    tall, wide = shape[2:]
    return (tall, wide) if isinstance(tall, int) and isinstance(wide, int) else None


RECHECK_SHARE = 0.5  # of the threshold: the least score of what is looked at again
REGION_SLACK = 0.95  # of the threshold: the least score in a part, which is a few hundredths off


@dataclass(frozen=True, kw_only=True)
class FaceSearch:
    """How the frames of a video are searched.

    Args:
        detect: what finds faces; its threshold is ``least_score``.
        thresh: the least score of a face.
        every: of so many frames one is searched whole.
    """

    detect: FaceDetector
    thresh: float
    every: int

    def search_frames(
        self, frames: Frames, *, count: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Each frame with its faces (N, 5), in order; ``count`` says which one is the last."""
        before = np.zeros((0, 5))
        waiting: list[np.ndarray] = []
        for number, frame in enumerate(frames):
            if number % self.every and number != count - 1:
                waiting.append(frame)
                continue
            after = self.detect(frame)
            for between in waiting:
                yield between, self._find_faces_near(between, np.vstack([before, after]))
            yield frame, self._select_sure(after)
            before, waiting = after, []
        for frame in waiting:  # the video ends sooner than it said
            yield frame, self._select_sure(self.detect(frame))

    def _find_faces_near(self, frame: np.ndarray, around: np.ndarray) -> np.ndarray:
        """The faces of a frame near those of the frames around it."""
        if not len(around):
            return around
        return self._select_sure(self.detect.search_near(frame, around[:, :4]), slack=REGION_SLACK)

    def _select_sure(self, faces: np.ndarray, *, slack: float = 1.0) -> np.ndarray:
        return np.asarray(faces[faces[:, 4] >= slack * self.thresh])


def least_score(thresh: float, *, every: int) -> float:
    """The threshold of the detector for a search: doubtful faces are of use only in between."""
    return thresh * RECHECK_SHARE if every > 1 else thresh
