"""Selective privacy: noise that moves along where people can be told, and clean elsewhere.

Noise that is carried along by the motion of a film, and stays as random as it was.

Appearance-free video: noise that moves as the picture moves.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any

import numpy as np

from masquerade import _check
from masquerade._optional import lazy_module
from masquerade.io.downloads import fetch_asset
from masquerade.mechanism import Frames, Heuristic, Shape, Value, as_video
from masquerade.mechanisms.given_masks import read_given_masks
from masquerade.noise import Noise
from masquerade.recordings import Video
from masquerade.vision.face_detector import FaceSearch, OutputLayout, load_detector
from masquerade.vision.flow import FlowPreset, OpticalFlow
from masquerade.vision.tracks import FaceTracks, follow_faces

cv2 = lazy_module("cv2", extra="vision")


_SPARSE_RATIO = (
    16  # of so many pixels fewer than one: those are sorted, which no table of all is needed for
)
_GOLDEN_STEPS = np.array([0.7548776662466927, 0.5698402909980532])  # 1/p and 1/p^2 with p^3 = p + 1


def compute_flow_offset(number: int) -> np.ndarray:
    """What is added to the flow of a frame before it is rounded down, another in every frame.

    So motion by a part of a pixel is right on average over time.
    """
    return np.asarray(((0.5 + number * _GOLDEN_STEPS) % 1).astype(np.float32) % 1)  # never 1


def steps_of(back: np.ndarray, number: int) -> np.ndarray:
    """(..., 2) int32: by how many whole pixels the noise of frame ``number`` moves.

    Args:
        back: (..., 2), right and down in pixels, as `OpticalFlow.estimate_back_flow` gives it.
        number: of the frame.
    """
    return np.asarray(np.floor(back + compute_flow_offset(number)), np.int32)


def carry_pixels(
    field: np.ndarray, steps: np.ndarray, fresh: Callable[[int], np.ndarray]
) -> np.ndarray:
    """The next field (H, W, C): pixel x takes what was at x + steps, or something new.

    Which pixel goes where depends on ``steps`` alone, and none goes to two places: if the numbers
    of ``field`` are independent given the film, so are those of the result. Most pixels of most
    films move alike: they are moved together, and the others one by one.

    Args:
        field: of the frame before.
        steps: (H, W, 2) of whole numbers, right and down in pixels.
        fresh: draws rows (N, C) for what is uncovered or comes in over the border.
    """
    height, width, _ = steps.shape
    most = _find_usual_step(steps)
    is_odd = cv2.inRange(steps, most, most) == 0
    takers, givers = _pair_pixels(steps, is_odd, most)
    taken = field.reshape(height * width, -1)[givers]
    moved = np.roll(field, (-most[1], -most[0]), axis=(0, 1)) if any(most) else field.copy()
    rows = moved.reshape(height * width, -1)
    new = np.flatnonzero(is_odd | _comes_in(height, width, most) if any(most) else is_odd)
    rows[new] = fresh(len(new))
    rows[takers] = taken
    return moved


def _find_usual_step(steps: np.ndarray) -> tuple[int, int]:
    """The step in the middle of all, which most have where a camera stands or pans."""
    some = steps[:: max(1, len(steps) // 64), :: max(1, steps.shape[1] // 64)].reshape(-1, 2)
    right, down = np.sort(some, axis=0)[len(some) // 2]
    return int(right), int(down)


def _comes_in(height: int, width: int, most: tuple[int, int]) -> np.ndarray:
    """(H, W): where the usual step leads out of the picture."""
    y, x = np.arange(height) + most[1], np.arange(width) + most[0]
    return np.asarray(((y < 0) | (y >= height))[:, None] | ((x < 0) | (x >= width)))


def _pair_pixels(
    steps: np.ndarray, is_odd: np.ndarray, most: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Pixels with a step of their own that get their wish, and the places that they take."""
    height, width = is_odd.shape
    odd = np.flatnonzero(is_odd)
    y, x = np.divmod(odd, width)
    own = steps.reshape(-1, 2)[odd]
    x += own[:, 0]
    y += own[:, 1]
    inside = _is_inside(x, y, is_odd.shape)
    odd, x, y = odd[inside], x[inside], y[inside]
    x_usual, y_usual = x - most[0], y - most[1]  # who takes this place by the usual step
    free = ~_is_inside(x_usual, y_usual, is_odd.shape)
    free[~free] = is_odd[y_usual[~free], x_usual[~free]]
    takers, givers = odd[free], y[free] * width + x[free]
    # of several that want a pixel, one gets it
    if _SPARSE_RATIO * len(givers) < height * width:
        _, wins = np.unique(givers, return_index=True)
        return takers[wins], givers[wins]
    last = np.empty(height * width, np.intp)
    last[givers] = takers
    is_last = last[givers] == takers
    return takers[is_last], givers[is_last]


def _is_inside(x: np.ndarray, y: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.asarray((x >= 0) & (x < shape[1]) & (y >= 0) & (y < shape[0]))


@dataclass(frozen=True, kw_only=True)
class AppearanceFree(Heuristic):
    """Show noise that is carried along by the motion of the video.

    The first frame is random; each further one takes its pixels from the frame before, along the
    optical flow, as in the baseline "appearance free" of [nken2025, Sec. 4.2]. Pixels move by
    whole steps and never into two places; what is uncovered or comes in over the border is drawn
    anew. So every single frame is uniform noise, independent of the input, and its texture never
    fades. Flows are rounded with an offset that changes from frame to frame, so that motion by a
    part of a pixel is right on average over time.

    Guarantee:
        none: the frames together show the motion: outlines of what moves, gait, gestures and the
            activity can be read from it, and people are recognised by their gait.

    Args:
        preset: how carefully the optical flow is estimated: medium, or fast (three to six times
            faster, with rougher outlines, and small things move too little).
    """

    preset: str = "medium"

    def __post_init__(self) -> None:
        _check.parse_choice(FlowPreset, preset=self.preset)

    @property
    def hides(self) -> str:
        """All but motion."""
        return "how things and people look, and everything that stands still"

    def stream(self, frames: Frames, shape: Shape, noise: Noise) -> Frames:
        """Noise frames with the motion of ``frames``."""
        _, height, width, _ = as_video(shape)
        flow = OpticalFlow(preset=self.preset)
        image, before = _sample_colours(height * width, noise).reshape(height, width, 3), None
        for number, frame in enumerate(frames):
            if before is not None:
                back = flow.estimate_back_flow(frame, before)  # frame(x) = before(x + back)
                image = carry_pixels(
                    image, steps_of(back, number), partial(_sample_colours, noise=noise)
                )
            before = frame
            yield image


def _sample_colours(count: int, noise: Noise) -> np.ndarray:
    """``count`` random colours, (count, 3) uint8; a secret word is eight uniform bytes."""
    octets = noise.draw_words(-(-3 * count // 8)).view(np.uint8)
    return np.array(octets[: 3 * count]).reshape(count, 3)


_BODY_RATIOS = (
    4.0,
    0.7,
    8.0,
)  # of a face: how wide a person is, and how far above and below its top
_HEAD_MARGIN = 0.3  # of a face's size, on each side
_MAX_MARGIN_PX = 1000  # pixels of a margin


class HiddenRegion(StrEnum):
    """What is hidden."""

    FACES = "faces"
    BODIES = "bodies"
    PEOPLE = "people"
    GIVEN = "given"


@dataclass(frozen=True, kw_only=True)
class SelectivePrivacy(Heuristic):
    """Show noise carried by the motion where people can be told, and the video as it is elsewhere.

    The baseline "selective privacy" of [nken2025, Sec. 4.2], after [ilic2024]: inside the region
    the frames are those of `appearance_free`, so gestures can still be read. There, features of
    a public network are compared with chosen patches to find the region; here it is what a face
    detector finds, the bodies below, the people that a segmenter finds, or masks that you give.

    Guarantee:
        none: all outside the region is published as it is, people whom the networks miss among
            it; inside, outlines, gait and gestures can be read.

    Args:
        region: faces (the heads around those that a detector finds), bodies (an upright person's
            box around each such face), people (their outlines by a segmenter, in each frame by
            itself; this needs the extra masks) or given (masks).
        masks: with region given, a .npy or .npz with one array (T, H, W), not 0 where something is
            hidden; in Python a `Video` brings its own. It is private; no receipt names it.
        grow: the region is larger by so many pixels all around.
        thresh: the least score of a face, 0 to 1; lower hides more.
        hold: the most frames for which a face stays hidden where the detector misses it.
        preset: how carefully the optical flow is estimated: medium or fast.
    """

    region: str = "faces"
    masks: str | None = field(default=None, compare=False)
    grow: int = 2
    thresh: float = 0.2
    hold: int = 5
    preset: str = "medium"

    def __post_init__(self) -> None:
        _check.parse_choice(HiddenRegion, region=self.region)
        _check.probability(thresh=self.thresh)
        _check.not_negative(grow=self.grow, hold=self.hold)
        _check.at_most(_MAX_MARGIN_PX, grow=self.grow, hold=self.hold)
        for name in ("grow", "hold"):
            if int(getattr(self, name)) != getattr(self, name):
                value = getattr(self, name)
                raise ValueError(f"Expected {name} to be a whole number, got {name}={value!r}.")
        if self.masks is not None and self.region != HiddenRegion.GIVEN:
            raise ValueError(
                f"Expected masks with region given, got region={self.region}; leave one out."
            )
        AppearanceFree(preset=self.preset)  # refuses another preset

    @property
    def hides(self) -> str:
        """How the region looks."""
        where = {
            HiddenRegion.FACES: "the faces that a detector finds",
            HiddenRegion.BODIES: "the people around the faces that a detector finds",
            HiddenRegion.PEOPLE: "the people that a segmenter finds",
            HiddenRegion.GIVEN: "what lies inside given masks",
        }
        return (
            f"how {where[HiddenRegion(self.region)]} "
            f"look{'s' * (self.region == HiddenRegion.GIVEN)}"
        )

    @property
    def is_partial(self) -> bool:
        """The region alone changes."""
        return True

    def encode_fields(self) -> dict[str, Any]:
        """The public fields; where the private masks lie is not one of them."""
        return {**super().encode_fields(), "masks": None}

    def apply(self, value: Value, noise: Noise) -> Value:
        """The released video; a `Video` with masks of its own is hidden inside those."""
        is_own = (
            isinstance(value, Video) and self.region == HiddenRegion.GIVEN and self.masks is None
        )
        if not (is_own and isinstance(value, Video)) or value.person_mask is None:
            return super().apply(value, noise)
        self.check(value)
        masks = iter(value.person_mask)
        shown = self._mix_noise(
            zip(iter(value.frames), masks, strict=True), value.frames.shape, noise
        )
        return Video(frames=np.stack(list(shown)), rate_hz=value.rate_hz)

    def stream(self, frames: Frames, shape: Shape, noise: Noise) -> Frames:
        """The frames with noise in the region.

        Whatever the networks raise ends the stream: no frame passes unseen.
        """
        shape = as_video(shape)
        if self.region == HiddenRegion.GIVEN:
            return self._mix_noise(
                zip(frames, self._read_given_regions(shape), strict=True), shape, noise
            )
        if self.region == HiddenRegion.PEOPLE:
            return self._mix_noise(_segment_people(frames), shape, noise)
        return self._mix_noise(self._detect_regions(frames, shape), shape, noise)

    def _mix_noise(
        self, regions: Iterator[tuple[np.ndarray, np.ndarray]], shape: Shape, noise: Noise
    ) -> Frames:
        """Noise where the region is, from frames with their regions (H, W)."""
        shown, beside = itertools.tee(regions)
        grains = AppearanceFree(preset=self.preset).stream(
            (frame for frame, _ in shown), shape, noise
        )
        for image, (frame, region) in zip(grains, beside, strict=True):
            yield np.where(self._grow_region(region)[..., None], image, frame)

    def _grow_region(self, region: np.ndarray) -> np.ndarray:
        if not self.grow:
            return region
        square = np.ones((2 * self.grow + 1,) * 2, np.uint8)
        return np.asarray(cv2.dilate(region.astype(np.uint8), square) > 0)

    def _detect_regions(
        self, frames: Frames, shape: Shape
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Each frame with what the detector finds in it."""
        detect = load_detector(
            fetch_asset("centerface"),
            layout=OutputLayout.CENTERFACE,
            thresh=self.thresh,
            height=None,
        )
        search = FaceSearch(detect=detect, thresh=self.thresh, every=1)
        found = follow_faces(
            search.search_frames(frames, count=shape[0]), FaceTracks(hold=self.hold)
        )
        return ((frame, self._mask_boxes(boxes, shape)) for frame, boxes in found)

    def _mask_boxes(self, boxes: np.ndarray, shape: Shape) -> np.ndarray:
        """(H, W): which pixels lie in one of the boxes (N, 4), or in the bodies below."""
        region = np.zeros(shape[1:3], bool)
        for box in boxes:
            left, top, right, bottom = (
                estimate_body_box(box)
                if self.region == HiddenRegion.BODIES
                else _estimate_head_box(box)
            )
            rows = slice(max(0, int(top)), max(0, int(np.ceil(bottom))))
            region[rows, max(0, int(left)) : max(0, int(np.ceil(right)))] = True
        return region

    def _read_given_regions(self, shape: Shape) -> Iterator[np.ndarray]:
        """The masks of the file, which must fit the video."""
        instead = "let a network find faces, bodies or people (--region)"
        return read_given_masks(self.masks, shape, instead=instead)


def _segment_people(frames: Frames) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Each frame with the people that a segmenter finds in it."""
    from masquerade.vision.person_detector import PersonSegmenter  # needs an extra

    segmenter = PersonSegmenter(private="person")
    segmenter.load_networks()  # before any frame is taken
    return ((frame, segmenter.segment_frame(frame)) for frame in frames)


def _estimate_head_box(face: np.ndarray) -> np.ndarray:
    """The box of a head with that face, ears and chin included."""
    around = _HEAD_MARGIN * (face[2:4] - face[:2])
    return np.concatenate([face[:2] - around, face[2:4] + around])


def estimate_body_box(face: np.ndarray) -> np.ndarray:
    """The box of somebody upright with that face: left, top, right, bottom.

    Example:
        >>> estimate_body_box(np.array([10.0, 20.0, 20.0, 30.0])).tolist()
        [-5.0, 13.0, 35.0, 100.0]
    """
    left, top, right, bottom = face[:4]
    wide, above, below = _BODY_RATIOS
    middle, half, high = (left + right) / 2, wide * (right - left) / 2, bottom - top
    return np.array([middle - half, top - above * high, middle + half, top + below * high])
