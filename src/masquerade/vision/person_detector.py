"""Find people in a frame with MediaPipe's pose detector, in squares of several sizes.

The network sees 224 x 224 pixels and finds people who fill at least a fifth of that, so a frame is
searched in squares that overlap by half: some as wide as its shorter side, some half as wide. It
gives the middle of the hips and a point on the circle around the whole body, above the head of who
stands upright.

The squares of a frame in which people are sought, and which of them look as they did before.

A network that is shown the same picture twice says the same twice. So in a film a square is shown
to it again only where something changed since it was shown last, and now and then anyway.

Which pixels of a frame belong to people, with a doubt that always falls on the private side.

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

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from masquerade import _check
from masquerade._optional import lazy_module
from masquerade.errors import BadInput
from masquerade.vision.network_files import LiteNetwork, NetworkFile, describe_network_files

cv2 = lazy_module("cv2", extra="vision")


_EDGE_SQUARE_SCALE = 1.5  # a square over an edge, beside one inside
_TILES_PER_SIDE = 28  # a side of a picture that are compared
_MAX_UNCHANGED_SHADES = 4  # shades by which all of them may differ, where nothing changed
_MAX_ANSWER_USES = 4  # of an answer, at most

Key = tuple[int, ...]


def list_squares(rows: int, columns: int, *, parts: int) -> Iterator[tuple[int, int, int]]:
    """Top, left and side of squares over a frame: a part of its shorter side, half overlapping.

    Example:
        >>> list(list_squares(100, 150, parts=1)), len(list(list_squares(100, 100, parts=2)))
        ([(0, 0, 100), (0, 50, 100)], 9)
    """
    side = max(1, min(rows, columns) // parts)
    for top in _list_starts(rows, side):
        for left in _list_starts(columns, side):
            yield top, left, side


def list_mirror_squares(frame: np.ndarray, *, parts: int) -> Iterator[tuple[int, int, np.ndarray]]:
    """Top, left and pixels of squares over both edges, half of each in a mirror that stands there.

    They are larger than `list_squares`, and black above and below the frame: so who fills it is
    found.

    Example:
        >>> [(top, left) for top, left, _ in list_mirror_squares(np.zeros((100, 150, 3)), parts=1)]
        [(-25, -75), (-25, 75)]
    """
    rows, columns = frame.shape[:2]
    half = max(1, min(round(_EDGE_SQUARE_SCALE / 2 * min(rows, columns) / parts), columns - 1))
    above = max(0, 2 * half - rows) // 2
    below = max(0, 2 * half - rows) - above
    for top in _list_starts(max(rows, 2 * half), 2 * half):
        for left, start in ((-half, 0), (columns - half, columns - half)):
            band = np.pad(frame[:, start : start + half], ((above, below), (0, 0), (0, 0)))
            inside = band[top : top + 2 * half]
            both = (inside[:, ::-1], inside) if left < 0 else (inside, inside[:, ::-1])
            yield top - above, left, np.hstack(both)


def _list_starts(length: int, side: int) -> list[int]:
    count = 1 + -(-(length - side) // max(1, side // 2))
    return [round(place) for place in np.linspace(0, length - side, count)]


@dataclass(kw_only=True, eq=False)
class _SquareAnswer:
    """What was found in a square.

    Args:
        tiles: of the picture that was shown.
        found: in it.
        uses: how often that stood for a later picture.
    """

    tiles: np.ndarray
    found: np.ndarray
    uses: int = 0


class SearchMemory:
    """What was found in the squares of a film, for those that did not change."""

    def __init__(self) -> None:
        self._answers: dict[Key, _SquareAnswer] = {}

    def find_or_recall(
        self, key: Key, picture: np.ndarray, look: Callable[[], np.ndarray]
    ) -> np.ndarray:
        """What a look at a square gives, or gave.

        Args:
            key: of the square.
            picture: (H, W, 3) uint8, what a look is shown.
            look: at it.
        """
        tiles = cv2.resize(
            picture, (_TILES_PER_SIDE, _TILES_PER_SIDE), interpolation=cv2.INTER_AREA
        )
        known = self._answers.get(key)
        if known is None or known.uses >= _MAX_ANSWER_USES or _is_changed(known.tiles, tiles):
            self._answers[key] = _SquareAnswer(tiles=tiles, found=look())
        else:
            known.uses += 1
        return self._answers[key].found


def _is_changed(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(cv2.absdiff(one, other).max() > _MAX_UNCHANGED_SHADES)


_GRIDS = ((28, 2), (14, 2), (7, 6))  # cells a side, and anchors a cell, of the network's outputs
_MAX_SAME_DISTANCE = 0.5  # of the larger radius: two people whose hips are nearer are one
_MAX_EDGE_DISTANCE = (
    0.2  # of the radius: below half of _SAME, or who is there is found beside themselves
)
_HALF_BODY_SCORE = 0.5  # of the least score: half a body and its mirror look less like a person
_MAX_LOGIT = 100.0  # beyond it a score is 0 or 1, and its exponential still a number


class PersonDetector:
    """Finds people.

    Args:
        path: pose_detection.tflite.
        thresh: the least score of a person.
        parts: the sides of squares, as parts of the frame's shorter side: 1 is all of it.
    """

    def __init__(self, path: Path, *, thresh: float, parts: tuple[int, ...]) -> None:
        anchors = _make_anchors()
        self._run = LiteNetwork(path, outputs=((1, len(anchors), 12), (1, len(anchors), 1)))
        self._anchors, self._thresh, self._parts = anchors, thresh, parts

    def __call__(self, frame: np.ndarray) -> np.ndarray:
        """(N, 4): x, y of the hips, radius of the whole body, score; best first, in pixels."""
        return self.detect_with_turns(frame)[:, :4]

    def detect_with_turns(
        self,
        frame: np.ndarray,
        *,
        where: Mapping[int, np.ndarray] | None = None,
        beyond: bool = False,
        seen: SearchMemory | None = None,
    ) -> np.ndarray:
        """(N, 5): the same, and by which angle the body is turned clockwise from upright.

        Args:
            frame: (H, W, 3) uint8.
            where: (H, W) bool for each of the parts; only squares that hold some of theirs are
                searched. All if not given.
            beyond: also look over the left and the right edge, into a mirror that stands there: who
                is half out of the picture is whole in it.
            seen: what was found in frames before; squares that look as they did are not searched.
        """
        seen = SearchMemory() if seen is None else seen
        found = [np.zeros((0, 5))]
        for parts in self._parts:
            wanted = None if where is None else where[parts]
            for top, left, side in list_squares(*frame.shape[:2], parts=parts):
                inside = np.s_[top : top + side, left : left + side]
                if wanted is None or wanted[inside].any():
                    people = self._detect_in_square(frame[inside], (top, left, side), seen)
                    found.append(people + np.array([left, top, 0.0, 0.0, 0.0]))
            if beyond:
                found.extend(self._detect_over_edges(frame, parts, seen))
        return drop_twin_detections(np.vstack(found))

    def _detect_over_edges(
        self, frame: np.ndarray, parts: int, seen: SearchMemory
    ) -> Iterator[np.ndarray]:
        """Whoever has the hips about at the left or the right edge."""
        for top, left, picture in list_mirror_squares(frame, parts=parts):
            key = (top, left, len(picture))
            people = self._detect_in_square(picture, key, seen, share=_HALF_BODY_SCORE)
            people = people + np.array([left, top, 0.0, 0.0, 0.0])
            edge = 0 if left < 0 else frame.shape[1]
            yield people[np.abs(people[:, 0] - edge) < _MAX_EDGE_DISTANCE * people[:, 2]]

    def _detect_in_square(
        self,
        picture: np.ndarray,
        key: tuple[int, int, int],
        seen: SearchMemory,
        *,
        share: float = 1.0,
    ) -> np.ndarray:
        """(N, 5) in a square, of a score of at least that ``share`` of the least."""
        size, least = self._run.size[::-1], share * self._thresh
        small = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
        return seen.find_or_recall(
            key, small, lambda: self._detect_in_picture(small, len(picture), least)
        )

    def _detect_in_picture(self, small: np.ndarray, side: int, least: float) -> np.ndarray:
        of = self._run.size
        boxes, scores = self._run(small / 127.5 - 1.0)
        score = 1.0 / (1.0 + np.exp(-np.clip(scores[:, 0].astype(float), -_MAX_LOGIT, _MAX_LOGIT)))
        sure = score >= least
        hips, rim = (boxes[sure, at : at + 2] / of[0] + self._anchors[sure] for at in (4, 6))
        right, down = (rim - hips).T
        radius, turn = np.hypot(right, down), np.arctan2(right, -down)
        return np.column_stack([hips * side, radius * side, score[sure], turn])


def drop_twin_detections(people: np.ndarray) -> np.ndarray:
    """The best of each person, best first."""
    people, kept = people[np.argsort(-people[:, 3], kind="stable")], list[np.ndarray]()
    for one in people:
        if all(np.hypot(*(one - k)[:2]) > _MAX_SAME_DISTANCE * max(one[2], k[2]) for k in kept):
            kept.append(one)
    return np.array(kept).reshape(-1, people.shape[1])


def _make_anchors() -> np.ndarray:
    """(N, 2): where the network measures from, as shares of the picture."""
    found = []
    for cells, each in _GRIDS:
        y, x = np.mgrid[:cells, :cells]
        found.append(np.repeat(np.stack([x, y], axis=-1).reshape(-1, 2) + 0.5, each, 0) / cells)
    return np.concatenate(found)


NETWORKS = ("selfie_segmentation", "pose_detection")
_PARTS = (1, 2)  # squares as wide as the frame's shorter side, and half as wide
_AROUND = 1.25  # of the circle around a body: what the segmenter is shown
_MIN_STRETCH_PX = 8  # a smaller stretch of a frame shows nobody
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

    def load_networks(self) -> None:
        """Load both networks.

        Raises:
            BadInput: if one is not to be had, or not the one on the list.
            OSError: if no place that has it can be reached.
        """
        _ = self._segmenter_network, self._person_detector

    def segment_frames(self, frames: np.ndarray) -> np.ndarray:
        """(T, H, W) bool, True on people, for (T, H, W, 3) uint8."""
        _check.shape("T H W 3", frames=frames)
        return np.stack([self.segment_frame(frame) for frame in frames])

    def segment_frame(self, frame: np.ndarray) -> np.ndarray:
        """(H, W) bool, True on people, for one frame (H, W, 3) uint8."""
        people = self.search_near(frame, self.find_people(frame))
        if self.private == "person":
            people = np.maximum(people, self._segment_everywhere(frame))
            return _grow_mask(people > 1.0 - self.threshold, self.margin_px)
        return ~_grow_mask(people < self.threshold, self.margin_px)

    @property
    def in_words(self) -> str:
        """What made the masks, for a receipt."""
        looked = describe_network_files(*map(NetworkFile, NETWORKS))
        return f"threshold {self.threshold:g}, margin {self.margin_px} pixels, {looked}"

    def find_people(self, frame: np.ndarray) -> np.ndarray:
        """(N, 4): everybody whom the detector finds: x, y of the hips, radius, score; in pixels."""
        return self._person_detector(frame)

    def search_near(self, frame: np.ndarray, people: np.ndarray) -> np.ndarray:
        """(H, W): how likely a pixel is of somebody of ``people`` (N, 3 or more), as `found`."""
        found = np.zeros(frame.shape[:2], np.float32)
        for x, y, radius, *_ in people:
            reach = max(1, round(_AROUND * radius))
            self._raise_in_square(frame, found, (round(y) - reach, round(x) - reach, 2 * reach))
        return found

    def _segment_everywhere(self, frame: np.ndarray) -> np.ndarray:
        """(H, W): how likely a pixel is of anybody."""
        found = np.zeros(frame.shape[:2], np.float32)
        for parts in _PARTS:
            for square in list_squares(*frame.shape[:2], parts=parts):
                self._raise_in_square(frame, found, square)
        return found

    def _raise_in_square(
        self, frame: np.ndarray, found: np.ndarray, square: tuple[int, int, int]
    ) -> None:
        """Raise ``found`` to what the segmenter says of a square, which may reach out of it.

        There it is shown a mirror: who is half out of the picture is whole in it.
        """
        top, left, side = square
        bottom, right = min(top + side, len(found)), min(left + side, found.shape[1])
        rows, columns = slice(max(0, top), bottom), slice(max(0, left), right)
        if min(bottom - rows.start, right - columns.start) < min(_MIN_STRETCH_PX, side):
            return
        beyond = (rows.start - top, top + side - bottom, columns.start - left, left + side - right)
        shown = cv2.copyMakeBorder(frame[rows, columns], *beyond, cv2.BORDER_REFLECT)
        there = np.s_[rows.start - top : bottom - top, columns.start - left : right - left]
        small = cv2.resize(shown, self._segmenter_network.size[::-1], interpolation=cv2.INTER_AREA)
        (likely,) = self._segmenter_network(small / 255.0)
        whole = cv2.resize(likely[..., 0], (side, side), interpolation=cv2.INTER_LINEAR)
        found[rows, columns] = np.maximum(found[rows, columns], whole[there])

    @cached_property
    def _segmenter_network(self) -> LiteNetwork:
        return LiteNetwork(_fetch_network(NETWORKS[0]), outputs=((1, 256, 256, 1),))

    @cached_property
    def _person_detector(self) -> PersonDetector:
        score = _SCORES[self.private]
        return PersonDetector(_fetch_network(NETWORKS[1]), thresh=score, parts=_PARTS)


def _grow_mask(hidden: np.ndarray, margin_px: int) -> np.ndarray:
    """Where something is hidden within a margin, up, down, left and right."""
    side = 2 * margin_px + 1
    kernel = np.ones((side, side), np.uint8)
    return np.asarray(cv2.dilate(hidden.astype(np.uint8), kernel) > 0)


def _fetch_network(name: str) -> Path:
    """A network from the cache; without it there are no masks, and nothing is trained."""
    try:
        return NetworkFile(name).find_path()
    except (OSError, BadInput) as error:
        error.add_note("Without it there is no segmenter; give masks instead, with --masks.")
        raise
