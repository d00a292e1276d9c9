"""Which pixels of a frame belong to people, with a doubt that always falls on the private side.

Two public networks look: a detector finds people, and a segmenter says which pixels around each are
theirs. What is done with them depends on which side is private.

- People private: a pixel counts as a person's if the segmenter thinks so around anybody found, or
  in any of the squares that cover the frame; then the mask grows by a margin.
- Background private: a pixel counts as a person's only around somebody who was surely found; then
  the mask shrinks by the margin.

What it misses: people who are smaller than a tenth of the frame's shorter side, those of whom
little is seen (a hand, a head behind a chair), reflections, pictures of people, shadows, and what
people carry. Where the background is private, something that looks like a person is taken for one.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from masquerade import _check
from masquerade._optional import Later
from masquerade.errors import BadInput
from masquerade.vision.network_files import LiteNetwork, NetworkFile, in_words
from masquerade.vision.person_detector import PersonDetector, squares

cv2 = Later("cv2", extra="vision")


NETWORKS = ("selfie_segmentation", "pose_detection")
_PARTS = (1, 2)  # squares as wide as the frame's shorter side, and half as wide
_AROUND = 1.25  # of the circle around a body: what the segmenter is shown
_LEAST_PX = 8  # a smaller stretch of a frame shows nobody
_SCORES = {"person": 0.5, "background": 0.8}  # of a person who counts, by what is private


@dataclass(frozen=True, kw_only=True)
class PersonSegmenter:
    """Makes person masks.

    Args:
        private: which side of the mask is.
        threshold: how sure the segmenter must be of a pixel that is to count as public, from 0.5
            to below 1.
        margin_px: by which the public side is made smaller, all around.
    """

    private: Literal["background", "person"]
    threshold: float = 0.7
    margin_px: int = 2

    def __post_init__(self) -> None:
        if not 0.5 <= self.threshold < 1:
            raise ValueError(
                f"Expected threshold from 0.5 to below 1, got threshold={self.threshold}."
            )
        _check.not_negative(margin_px=self.margin_px)

    def __getstate__(self) -> dict[str, object]:
        """The fields alone: another process loads the networks itself."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def ready(self) -> None:
        """Load both networks.

        Raises:
            BadInput: if one is not to be had, or not the one on the list.
            OSError: if no place that has it can be reached.
        """
        _ = self._segment, self._detect

    def masks(self, frames: np.ndarray) -> np.ndarray:
        """(T, H, W) bool, True on people, for (T, H, W, 3) uint8."""
        _check.shape("T H W 3", frames=frames)
        return np.stack([self.mask(frame) for frame in frames])

    def mask(self, frame: np.ndarray) -> np.ndarray:
        """(H, W) bool, True on people, for one frame (H, W, 3) uint8."""
        people = self.near(frame, self.found(frame))
        if self.private == "person":
            people = np.maximum(people, self._everywhere(frame))
            return _grown(people > 1.0 - self.threshold, self.margin_px)
        return ~_grown(people < self.threshold, self.margin_px)

    @property
    def in_words(self) -> str:
        """What made the masks, for a receipt."""
        looked = in_words(*map(NetworkFile, NETWORKS))
        return f"threshold {self.threshold:g}, margin {self.margin_px} pixels, {looked}"

    def found(self, frame: np.ndarray) -> np.ndarray:
        """(N, 4): everybody whom the detector finds: x, y of the hips, radius, score; in pixels."""
        return self._detect(frame)

    def near(self, frame: np.ndarray, people: np.ndarray) -> np.ndarray:
        """(H, W): how likely a pixel is of somebody of ``people`` (N, 3 or more), as `found`."""
        found = np.zeros(frame.shape[:2], np.float32)
        for x, y, radius, *_ in people:
            reach = max(1, round(_AROUND * radius))
            self._look(frame, found, (round(y) - reach, round(x) - reach, 2 * reach))
        return found

    def _everywhere(self, frame: np.ndarray) -> np.ndarray:
        """(H, W): how likely a pixel is of anybody."""
        found = np.zeros(frame.shape[:2], np.float32)
        for parts in _PARTS:
            for square in squares(*frame.shape[:2], parts=parts):
                self._look(frame, found, square)
        return found

    def _look(self, frame: np.ndarray, found: np.ndarray, square: tuple[int, int, int]) -> None:
        """Raise ``found`` to what the segmenter says of a square, which may reach out of it.

        There it is shown a mirror: who is half out of the picture is whole in it.
        """
        top, left, side = square
        bottom, right = min(top + side, len(found)), min(left + side, found.shape[1])
        rows, columns = slice(max(0, top), bottom), slice(max(0, left), right)
        if min(bottom - rows.start, right - columns.start) < min(_LEAST_PX, side):
            return
        beyond = (rows.start - top, top + side - bottom, columns.start - left, left + side - right)
        shown = cv2.copyMakeBorder(frame[rows, columns], *beyond, cv2.BORDER_REFLECT)
        there = np.s_[rows.start - top : bottom - top, columns.start - left : right - left]
        small = cv2.resize(shown, self._segment.size[::-1], interpolation=cv2.INTER_AREA)
        (likely,) = self._segment(small / 255.0)
        whole = cv2.resize(likely[..., 0], (side, side), interpolation=cv2.INTER_LINEAR)
        found[rows, columns] = np.maximum(found[rows, columns], whole[there])

    @cached_property
    def _segment(self) -> LiteNetwork:
        return LiteNetwork(_fetched(NETWORKS[0]), outputs=((1, 256, 256, 1),))

    @cached_property
    def _detect(self) -> PersonDetector:
        score = _SCORES[self.private]
        return PersonDetector(_fetched(NETWORKS[1]), thresh=score, parts=_PARTS)


def _grown(hidden: np.ndarray, margin_px: int) -> np.ndarray:
    """Where something is hidden within a margin, up, down, left and right."""
    side = 2 * margin_px + 1
    kernel = np.ones((side, side), np.uint8)
    return np.asarray(cv2.dilate(hidden.astype(np.uint8), kernel) > 0)


def _fetched(name: str) -> Path:
    """A network from the cache; without it there are no masks, and nothing is trained."""
    try:
        return NetworkFile(name).path()
    except (OSError, BadInput) as error:
        error.add_note("Without it there is no segmenter; give masks instead, with --masks.")
        raise
