"""Blur, blacken or pixelate the faces that a detector finds.

Paint over faces: an ellipse of blur, black or tiles.

A wide blur is a narrow one of a small picture: the face's surroundings are shrunk until the given
kernel is as wide as the face, blurred, and enlarged again. That takes little time whatever the
face's size, and what shrinking drops cannot come back.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from masquerade import _check
from masquerade._optional import lazy_module
from masquerade.io.atomic import write_whole
from masquerade.io.downloads import fetch_asset
from masquerade.io.downloads import list_assets as asset_names
from masquerade.mechanism import Frames, Heuristic, Shape, as_video
from masquerade.noise import Noise
from masquerade.vision.face_detector import (
    FaceDetector,
    FaceSearch,
    OutputLayout,
    least_score,
    load_detector,
)
from masquerade.vision.tracks import FaceTracks, follow_faces

cv2 = lazy_module("cv2", extra="vision")


_MAX_TILES = 4  # at most so many tiles of a scaled mosaic lie across a face


class CoverStyle(StrEnum):
    """What a face is replaced with."""

    BLUR = "blur"
    SOLID = "solid"
    MOSAIC = "mosaic"


class BlurStrength(StrEnum):
    """Whether the kernel grows with the face or is as a paper gives it."""

    SCALED = "scaled"
    PAPER = "paper"


@dataclass(frozen=True, kw_only=True)
class FaceCover:
    """How faces are painted over.

    Args:
        style: with what.
        strength: whether the kernel grows with the face.
        kernel: width of the blur's kernel or of a tile, in pixels.
        sigma: standard deviation of the blur, in pixels.
        margin: what the ellipse's box has more than the face's on each side, in face sizes.
    """

    style: CoverStyle
    strength: BlurStrength
    kernel: int
    sigma: float
    margin: float

    def cover_faces(self, frame: np.ndarray, boxes: np.ndarray) -> np.ndarray:
        """A copy of ``frame`` with the faces in ``boxes`` (N, 4) covered."""
        painted = frame.copy()
        for box in boxes:
            size = box[2:] - box[:2]
            columns, rows = (
                _find_span(
                    box[axis], box[axis + 2], size[axis] * self.margin, end=frame.shape[1 - axis]
                )
                for axis in (0, 1)
            )
            part = painted[rows, columns]
            if part.size:
                radius = size * (0.5 + self.margin)
                inside = _make_ellipse_mask(
                    rows, columns, centre=(box[:2] + box[2:]) / 2, radius=radius
                )
                part[inside] = self._cover_part(part, face=float(max(size)))[inside]
        return painted

    def _cover_part(self, part: np.ndarray, *, face: float) -> np.ndarray:
        """What stands in the place of ``part``, which holds a face of that many pixels."""
        if self.style is CoverStyle.SOLID:
            return np.zeros_like(part)
        is_scaled = self.strength is BlurStrength.SCALED
        if self.style is CoverStyle.MOSAIC:
            tile = max(self.kernel, face / _MAX_TILES) if is_scaled else self.kernel
            return _enlarge_part(_shrink_part(part, tile), part.shape, cv2.INTER_NEAREST)
        small = _shrink_part(part, max(1.0, face / self.kernel) if is_scaled else 1.0)
        width = (self.kernel, self.kernel)
        blurred = cv2.GaussianBlur(small, width, self.sigma, borderType=cv2.BORDER_REPLICATE)
        return _enlarge_part(blurred, part.shape, cv2.INTER_LINEAR)


def _find_span(low: float, high: float, margin: float, *, end: int) -> slice:
    """The pixels from ``low`` to ``high`` and a margin around, inside the frame."""
    return slice(
        min(end, max(0, math.floor(low - margin))), max(0, min(end, math.ceil(high + margin)))
    )


def _make_ellipse_mask(
    rows: slice, columns: slice, *, centre: np.ndarray, radius: np.ndarray
) -> np.ndarray:
    """Which pixels of the part lie in the ellipse, by their centres."""
    across, down = (
        (np.arange(span.start, span.stop) + 0.5 - middle) / max(length, 0.5)
        for span, middle, length in zip((columns, rows), centre, radius, strict=True)
    )
    return np.asarray(across[None, :] ** 2 + down[:, None] ** 2 <= 1.0)


def _shrink_part(part: np.ndarray, factor: float) -> np.ndarray:
    tall, wide = (max(1, round(side / factor)) for side in part.shape[:2])
    return (
        part
        if factor == 1
        else np.asarray(cv2.resize(part, (wide, tall), interpolation=cv2.INTER_AREA))
    )


def _enlarge_part(small: np.ndarray, shape: tuple[int, ...], interpolation: int) -> np.ndarray:
    return np.asarray(cv2.resize(small, shape[1::-1], interpolation=interpolation))


_MAX_KERNEL_PX = 4095  # pixels of a kernel
_MAX_WAITING_FRAMES = 1000  # frames that wait in memory


@dataclass(frozen=True, kw_only=True)
class FaceBlur(Heuristic):
    """Cover every face that a detector finds with an ellipse, also where it is missed for a moment.

    The baseline of video papers [nken2025, Sec. 4.2] is a Gaussian of 21 pixels with sigma 10. On
    a face of 300 pixels that hides nothing, so by default both grow with the face: the kernel is
    as wide as the face, and never narrower than given. ``strength="paper"`` keeps the given
    values whatever the face's size.

    Guarantee:
        none: a detector misses faces; what is covered can be recognised by other means (gait, body,
            clothes, place), and blurred faces can be matched by a network trained on blurred ones.

    Args:
        kernel: width of the blur's kernel or of the mosaic's tile, in pixels; odd.
        sigma: standard deviation of the blur, in pixels.
        strength: scaled (kernel and sigma grow with the face) or paper (as given).
        style: blur, solid (black) or mosaic.
        thresh: the least score of a face, 0 to 1; lower covers more.
        margin: how far the ellipse's box reaches beyond the face's on each side, in face widths
            and heights; above 0.21 the ellipse holds the whole box.
        hold: the most frames for which a face stays covered where the detector misses it: between
            two finds, and before the first and after the last, there for less long than it was
            found, and less the less sure it was. Frames wait for it.
        min_size: faces less high and less wide than this stay as they are, in pixels.
        max_size: faces higher or wider than this stay as they are, in pixels.
        leave_alone: regions that stay as they are, each "x,y,width,height" in pixels.
        detector: "centerface", or the path of an ONNX network.
        detector_layout: what the network's outputs are: centerface or boxes_scores.
        detect_height: lines of the picture that the detector sees (its shorter side, 540 as in
            540p); None for all of them. Fewer are faster and miss small faces.
        every: search every n-th frame whole, and those in between only near what these hold; it is
            faster and misses less than a small ``detect_height``.
        export: write the faces to this file as JSON. It is computed from the private video: do not
            publish it. It must be a new file, not the output or its receipt; no receipt names it.
    """

    kernel: int = 21
    sigma: float = 10.0
    strength: str = "scaled"
    style: str = "blur"
    thresh: float = 0.2
    margin: float = 0.3
    hold: int = 5
    min_size: int | None = None
    max_size: int | None = None
    leave_alone: tuple[str, ...] | None = None
    detector: str = "centerface"
    detector_layout: str = "centerface"
    detect_height: int | None = None
    every: int = 1
    export: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _check.count(kernel=self.kernel, every=self.every)
        _check.positive(sigma=self.sigma)
        _check.probability(thresh=self.thresh)
        _check.not_negative(margin=self.margin, hold=self.hold)
        _check.at_least(0.5, "Below, faces would stay as they are.", sigma=self.sigma)
        _check.at_most(1e6, sigma=self.sigma)
        _check.at_most(_MAX_KERNEL_PX, kernel=self.kernel)
        _check.at_most(_MAX_WAITING_FRAMES, hold=self.hold, every=self.every)
        _check.at_most(10, margin=self.margin)
        if self.kernel % 2 == 0 or self.kernel < 3:
            raise ValueError(f"Expected kernel to be odd and >= 3, got kernel={self.kernel}.")
        if not isinstance(self.hold, int) or isinstance(self.hold, bool):
            raise ValueError(f"Expected hold to be a whole number, got hold={self.hold!r}.")
        for name in ("min_size", "max_size", "detect_height"):
            if getattr(self, name) is not None:
                _check.count(**{name: getattr(self, name)})
                _check.at_most(65535, **{name: getattr(self, name)})
        if (self.min_size or 0) > (self.max_size or np.inf):
            raise ValueError(
                f"Expected min_size <= max_size, got min_size={self.min_size} and "
                f"max_size={self.max_size}; no face would be covered."
            )
        _check.parse_choice(CoverStyle, style=self.style)
        _check.parse_choice(BlurStrength, strength=self.strength)
        _check.parse_choice(OutputLayout, detector_layout=self.detector_layout)
        if self.leave_alone is not None:
            object.__setattr__(self, "leave_alone", tuple(self.leave_alone))
            self._list_regions()

    @property
    def hides(self) -> str:
        """Faces."""
        return "the faces that a detector finds"

    @property
    def is_partial(self) -> bool:
        """Faces alone change."""
        return True

    def encode_fields(self) -> dict[str, Any]:
        """The public fields; where the private file goes is not one of them."""
        return {**super().encode_fields(), "export": None}

    def stream(self, frames: Frames, shape: Shape, noise: Noise) -> Frames:
        """The frames with covered faces; each waits for ``hold + 2 * (every - 1)`` more at most.

        Whatever the detector raises ends the stream: no frame passes unseen.
        """
        shape = as_video(shape)
        if self.export is not None:
            _check_export_path(Path(self.export))
        return self._stream_covered(frames, shape, self._load_detector())

    def _stream_covered(self, frames: Frames, shape: Shape, detect: FaceDetector) -> Frames:
        cover = FaceCover(
            style=CoverStyle(self.style),
            strength=BlurStrength(self.strength),
            kernel=self.kernel,
            sigma=self.sigma,
            margin=self.margin,
        )
        search = FaceSearch(detect=detect, thresh=self.thresh, every=self.every)
        tracks = FaceTracks(hold=self.hold, every=self.every)
        found = search.search_frames(frames, count=shape[0])
        sized = ((frame, self._of_size(faces)) for frame, faces in found)
        for frame, boxes in follow_faces(sized, tracks):
            yield self._restore_regions(cover.cover_faces(frame, boxes), frame)
        if self.export is not None:
            _check_export_path(Path(self.export))
            write_whole(Path(self.export), _as_json(tracks, shape), is_private=True)

    def _load_detector(self) -> FaceDetector:
        is_asset = self.detector in asset_names()
        return load_detector(
            fetch_asset(self.detector) if is_asset else Path(self.detector),
            layout=OutputLayout(self.detector_layout),
            thresh=least_score(self.thresh, every=self.every),
            height=self.detect_height,
        )

    def _of_size(self, faces: np.ndarray) -> np.ndarray:
        """Those of the faces (N, 5) that are neither too small nor too big to be covered."""
        sides = np.max(faces[:, 2:4] - faces[:, :2], axis=1, initial=0.0)
        is_covered = (sides >= (self.min_size or 0)) & (sides <= (self.max_size or np.inf))
        return np.asarray(faces[is_covered])

    def _restore_regions(self, painted: np.ndarray, frame: np.ndarray) -> np.ndarray:
        """The painted frame with the regions that are left alone."""
        for region in self._list_regions():
            painted[region] = frame[region]
        return painted

    def _list_regions(self) -> list[tuple[slice, slice]]:
        return [_parse_region(text) for text in self.leave_alone or ()]


def _parse_region(text: str) -> tuple[slice, slice]:
    """The rows and columns of "x,y,width,height"."""
    try:
        left, top, width, height = (int(number) for number in str(text).split(","))
    except ValueError:
        left = top = width = height = -1
    if min(left, top) < 0 or min(width, height) < 1:
        raise ValueError(
            'Expected leave_alone as "x,y,width,height", whole numbers of pixels with width and '
            f"height >= 1, got {text!r}."
        )
    return slice(top, top + height), slice(left, left + width)


def _check_export_path(path: Path) -> None:
    """Refuse a path at which no new file can stand."""
    if not path.parent.is_dir():
        raise ValueError(f"Expected the folder {path.parent} to exist; make it first.")
    if path.exists():
        raise FileExistsError(f"{path} stands there already; choose another name for export.")


def _as_json(tracks: FaceTracks, shape: Shape) -> bytes:
    """The tracks as a file that says of itself that it is private."""
    found = sorted(tracks.ended + tracks.live, key=lambda track: track.frames[0])
    content = {
        "PRIVATE": "Computed from a private video. Do not publish this file.",
        "box": "left, top, right, bottom in pixels of the frame, as the detector found it",
        "video": dict(zip(("frames", "height", "width"), shape, strict=False)),
        "most_held_frames": tracks.reach,
        "faces": [
            [
                {"frame": frame, "box": face[:4].round(2).tolist(), "score": round(face[4], 4)}
                for frame, face in zip(track.frames, track.faces, strict=True)
            ]
            for track in found
        ],
    }
    return json.dumps(content).encode()
