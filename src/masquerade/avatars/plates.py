"""Pictures of the places of a film without the people, put together from all of its frames.

Every shot has a plate, as its first frame sees it and some way beyond. At each of its pixels that
colour is kept which most frames agree on there, as one of them showed it: who was missed for a
moment does not stay. What one plate never saw another may have: they are linked where the camera
turned from one to the other. What no frame saw is painted in once, so that it does not flicker.

Masks of single frames miss somebody now and then, and then the plate shows them. Once the masks of
the whole film are known, only what lies outside of them in some frame is a place: all else counts
as never seen.

Plates wait on disk; two are in memory at a time.

How the camera moves: where each frame lies on the plate of its shot.

A plate is a picture of the place as one frame, its first, sees it. Points of that frame, outside of
people, are sought in every later one, and give one homography for the whole picture. Each frame is
compared with the plate's own first, so that errors do not add up. A camera that turns too far away,
or a cut, begins another plate.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from masquerade._optional import lazy_module
from masquerade.avatars.inpaint import fill_holes
from masquerade.io.streams import Spool

cv2 = lazy_module("cv2", extra="vision")


_LINES = 360  # of the small picture in which points are sought
_POINTS, _APART, _QUALITY = 400, 7, 0.01
_MIN_MATCHES = 16  # points that a homography is trusted with
_MAX_REPROJECTION_PX = 1.5  # how far a point may lie off, in the small picture
_MAX_OUTLIER_SHARE = 0.35  # of the points that must agree for the frame to be of this shot
_STILL_PX = 0.2  # in the small picture: a camera that moves less stands
_MAX_PLATE_SHIFT = 0.22  # of the picture's sides: beyond it another plate begins
_MAX_PLATE_ZOOM = 1.25
_MIN_NEW_SHOT_SHADES = 30.0  # shades in the mean by which a picture without points is another shot


@dataclass(frozen=True, kw_only=True, eq=False)
class FramePlacement:
    """Where a frame lies.

    Args:
        plate: the number of its plate.
        to_plate: (3, 3) leads from pixels of the frame to pixels of the plate's first frame.
        begins: whether it is the first of its plate.
        link: (3, 3) leads from pixels of a new plate to those of the one before; None after a cut.
    """

    plate: int
    to_plate: np.ndarray
    begins: bool = False
    link: np.ndarray | None = None

    @property
    def is_still(self) -> bool:
        """Whether it lies exactly on the plate."""
        return bool(np.array_equal(self.to_plate, np.eye(3)))


class FrameAligner:
    """Places frames, one after the other."""

    def __init__(self) -> None:
        self._plate, self._key, self._points = -1, np.zeros((0, 0), np.uint8), np.zeros((0, 2))
        self._last = np.eye(3)  # from the small first picture of the plate to the last small one

    def place_frame(self, frame: np.ndarray, people: np.ndarray) -> FramePlacement:
        """Where the next frame (H, W, 3) lies, judged by what is not in ``people`` (H, W)."""
        grey, free = _shrink_for_alignment(frame, people)
        if self._plate < 0:
            return self._begin_plate(grey, free, link=None)
        found = self._estimate_homography(grey, free)
        if found is None:
            return self._begin_plate(grey, free, link=None)
        self._last = found
        scale = np.diag([frame.shape[1] / grey.shape[1], frame.shape[0] / grey.shape[0], 1.0])
        to_plate = _normalise_homography(scale @ np.linalg.inv(found) @ np.linalg.inv(scale))
        if _is_far(found, grey.shape):
            return self._begin_plate(grey, free, link=to_plate)
        is_still = np.array_equal(found, np.eye(3))
        return FramePlacement(plate=self._plate, to_plate=np.eye(3) if is_still else to_plate)

    def _begin_plate(
        self, grey: np.ndarray, free: np.ndarray, *, link: np.ndarray | None
    ) -> FramePlacement:
        self._plate += 1
        self._key, self._last = grey, np.eye(3)
        points = cv2.goodFeaturesToTrack(
            grey, _POINTS, _QUALITY, _APART, mask=free.astype(np.uint8)
        )
        self._points = np.zeros((0, 2)) if points is None else points.reshape(-1, 2)
        return FramePlacement(plate=self._plate, to_plate=np.eye(3), begins=True, link=link)

    def _estimate_homography(self, grey: np.ndarray, free: np.ndarray) -> np.ndarray | None:
        """(3, 3) from the plate's small first picture to this one; None if it is another shot."""
        if len(self._points) < _MIN_MATCHES:
            apart = cv2.absdiff(grey, self._key)[free]
            return None if apart.size and apart.mean() > _MIN_NEW_SHOT_SHADES else np.eye(3)
        before = self._points.astype(np.float32)[:, None]
        guess = cv2.perspectiveTransform(before, self._last).astype(np.float32)
        after, status, _ = cv2.calcOpticalFlowPyrLK(
            self._key, grey, before, guess, flags=cv2.OPTFLOW_USE_INITIAL_FLOW
        )
        kept = _is_free(after[:, 0], free) & (status.ravel() > 0)
        inside = _is_free(guess[:, 0], np.ones_like(free))
        before, after = before[kept, 0], after[kept, 0]
        if len(before) < max(_MIN_MATCHES, _MAX_OUTLIER_SHARE * inside.sum()):
            return self._place_without_points(grey, free)
        if np.median(np.linalg.norm(after - before, axis=1)) < _STILL_PX:
            return np.eye(3)
        found, agree = cv2.findHomography(before, after, cv2.RANSAC, _MAX_REPROJECTION_PX)
        if found is None or agree.sum() < max(_MIN_MATCHES, _MAX_OUTLIER_SHARE * len(before)):
            return self._place_without_points(grey, free)
        return np.asarray(_normalise_homography(found))

    def _place_without_points(self, grey: np.ndarray, free: np.ndarray) -> np.ndarray | None:
        """Where points are lost, as behind a crowd: the same place if it hardly changed."""
        height, width = grey.shape
        seen = cv2.warpPerspective(self._key, self._last, (width, height))
        there = cv2.warpPerspective(np.ones_like(self._key), self._last, (width, height)) > 0
        apart = cv2.absdiff(grey, seen)[free & there]
        return self._last if apart.size and np.median(apart) < _MIN_NEW_SHOT_SHADES / 3 else None


def _shrink_for_alignment(frame: np.ndarray, people: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The frame in grey and what is free of people, both made smaller."""
    rows, columns = frame.shape[:2]
    scale = min(1.0, _LINES / rows)
    size = (max(16, round(columns * scale)), max(16, round(rows * scale)))
    grey = cv2.cvtColor(np.ascontiguousarray(frame), cv2.COLOR_RGB2GRAY)
    small = cv2.resize(grey, size, interpolation=cv2.INTER_AREA)
    hidden = cv2.resize(people.astype(np.uint8) * 255, size, interpolation=cv2.INTER_AREA)
    return small, cv2.dilate(hidden, np.ones((5, 5), np.uint8)) == 0


def _is_free(points: np.ndarray, free: np.ndarray) -> np.ndarray:
    """(N,) which points (N, 2) lie in the picture, where ``free`` says so."""
    x, y = np.rint(np.nan_to_num(points, nan=-1.0).clip(-1e6, 1e6)).astype(int).T
    inside = (x >= 0) & (y >= 0) & (x < free.shape[1]) & (y < free.shape[0])
    inside[inside] = free[y[inside], x[inside]]
    return np.asarray(inside)


def _is_far(found: np.ndarray, size: tuple[int, ...]) -> bool:
    """Whether the picture moved too far away, or grew or shrank too much."""
    height, width = size
    corners = np.array([[[0, 0]], [[width, 0]], [[width, height]], [[0, height]]], np.float32)
    moved = (cv2.perspectiveTransform(corners, found) - corners)[:, 0] / [width, height]
    zoom = np.sqrt(abs(np.linalg.det(found[:2, :2])))
    return bool(
        np.abs(moved).max() > _MAX_PLATE_SHIFT or not 1 / _MAX_PLATE_ZOOM < zoom < _MAX_PLATE_ZOOM
    )


def _normalise_homography(matrix: np.ndarray) -> np.ndarray:
    return np.asarray(matrix / matrix[2, 2])


_PLATE_MARGIN_SHARE = (
    0.25  # of the sides: how far a plate of a camera that moves reaches out of its first
)
_MAX_SAME_SHADES = 20  # shades by which two sights of one place differ at most
_MAX_PIXEL_FRAMES = 100  # frames that a pixel remembers
_MIN_FREE_FRAMES, _FRAMES_PER_FREE_FRAME = (
    3,
    5,
)  # frames that must show nobody: so many, or one in so many of a short plate


@dataclass(kw_only=True, eq=False)
class BackgroundPlate:
    """One place.

    Args:
        colour: (H, W, 3) uint8.
        weight: (H, W) uint8, how many more frames agreed than did not; 0 was never seen.
        corner: (2,) pixels that it reaches out to the left and above its first frame.
        link: (3, 3) to the plate before, in pixels of first frames; None after a cut.
        free: (H, W) uint8, how many frames show nobody there, up to 255; None before masks are
            known.
        frames: how many frames said so, or did not.
    """

    colour: np.ndarray
    weight: np.ndarray
    corner: tuple[int, int] = (0, 0)
    link: np.ndarray | None = None
    free: np.ndarray | None = None
    frames: int = 0

    @classmethod
    def make_blank(cls, height: int, width: int, link: np.ndarray | None) -> BackgroundPlate:
        """Before any frame."""
        colour = np.zeros((height, width, 3), np.uint8)
        return cls(colour=colour, weight=np.zeros((height, width), np.uint8), link=link)

    def add_view(self, frame: np.ndarray, people: np.ndarray, to_plate: np.ndarray) -> None:
        """What a frame shows outside of ``people`` (H, W) bool."""
        seen = (~people).view(np.uint8) * 255
        if not np.array_equal(to_plate, np.eye(3)):
            self._widen_plate(*people.shape)
        if self.corner != (0, 0):
            size = self.weight.shape[::-1]
            moved = self._plate_shift @ to_plate
            frame = cv2.warpPerspective(frame, moved, size, flags=cv2.INTER_LINEAR)
            seen = cv2.warpPerspective(seen, moved, size, flags=cv2.INTER_LINEAR)
            seen = cv2.compare(seen, 255, cv2.CMP_EQ)
        self._vote_colours(frame, seen)

    def add_hidden(self, people: np.ndarray, to_plate: np.ndarray) -> None:
        """A frame's ``people`` (H, W) bool, as the whole film tells them."""
        if self.free is None:
            self.free = np.zeros(self.weight.shape, np.uint8)
        seen = ~people
        if self.corner != (0, 0) or not np.array_equal(to_plate, np.eye(3)):
            size, linear = self.weight.shape[::-1], cv2.INTER_LINEAR
            moved = self._plate_shift @ to_plate
            seen = cv2.warpPerspective(seen.astype(np.uint8) * 255, moved, size, flags=linear) > 254
        cv2.add(self.free, seen.astype(np.uint8), dst=self.free)
        self.frames += 1

    def drop_rare_hiding(self) -> None:
        """Forget what all frames hide but for a few, in which somebody may have been missed."""
        if self.free is not None:
            self.weight[
                self.free < min(_MIN_FREE_FRAMES, -(-self.frames // _FRAMES_PER_FREE_FRAME))
            ] = 0

    def warp_view(
        self, to_plate: np.ndarray, size: tuple[int, ...]
    ) -> tuple[np.ndarray, np.ndarray]:
        """(H, W, 3) and (H, W): colour and weight as a frame of that size sees them."""
        if self.corner == (0, 0) and np.array_equal(to_plate, np.eye(3)):
            return self.colour, self.weight
        back = self._plate_shift @ to_plate
        across = size[1::-1]
        colour = cv2.warpPerspective(
            self.colour,
            back,
            across,
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_REPLICATE,
        )
        weight = cv2.warpPerspective(
            self.weight, back, across, flags=cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP
        )
        return np.asarray(colour), np.asarray(weight)

    def learn_from(self, other: BackgroundPlate, to_other: np.ndarray) -> None:
        """Take over what only ``other`` saw; ``to_other`` is in pixels of first frames."""
        way = other._plate_shift @ to_other @ np.linalg.inv(self._plate_shift)
        size, nearest = self.weight.shape[::-1], cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP
        weight = cv2.warpPerspective(other.weight, way, size, flags=nearest)
        new = (self.weight == 0) & (weight > 0)
        if new.any():
            linear = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
            self.colour[new] = cv2.warpPerspective(other.colour, way, size, flags=linear)[new]
            self.weight[new] = 1

    def paint_unseen(self) -> None:
        """Paint in what nobody saw."""
        unseen = self.weight == 0
        if unseen.any():
            self.colour = fill_holes(self.colour, unseen)

    @property
    def _plate_shift(self) -> np.ndarray:
        left, above = self.corner
        return np.array([[1.0, 0, left], [0, 1, above], [0, 0, 1]])

    def _widen_plate(self, height: int, width: int) -> None:
        """Make room around, once the camera moves."""
        if self.corner != (0, 0):
            return
        above, left = (
            max(1, round(_PLATE_MARGIN_SHARE * height)),
            max(1, round(_PLATE_MARGIN_SHARE * width)),
        )
        around = ((above, above), (left, left))
        self.colour = np.pad(self.colour, (*around, (0, 0)))
        self.weight = np.pad(self.weight, around)
        self.corner = (left, above)

    def _vote_colours(self, frame: np.ndarray, seen: np.ndarray) -> None:
        """With what a frame shows where ``seen`` (H, W) is 255, else 0."""
        red, green, blue = cv2.split(cv2.absdiff(frame, self.colour))
        far = cv2.compare(cv2.max(cv2.max(red, green), blue), _MAX_SAME_SHADES, cv2.CMP_GT)
        differs, agrees = cv2.bitwise_and(seen, far), cv2.bitwise_and(seen, cv2.bitwise_not(far))
        weight = cv2.min(cv2.add(self.weight, cv2.bitwise_and(agrees, 1)), _MAX_PIXEL_FRAMES)
        weight = cv2.subtract(weight, cv2.bitwise_and(differs, 1))  # and not below 0
        new = cv2.bitwise_and(differs, cv2.compare(weight, 0, cv2.CMP_EQ))
        self.weight = cv2.max(weight, cv2.bitwise_and(new, 1))
        cv2.copyTo(frame, new, self.colour)


class BackgroundPlates:
    """All plates of a film: first made frame by frame, then finished, then seen."""

    def __init__(self, height: int, width: int) -> None:
        self._size = (height, width)
        self._spool, self._heads = Spool(), list[tuple[tuple[int, ...], tuple[int, int]]]()
        self._links: list[np.ndarray | None] = []
        self._where: list[int] = []  # the piece of each plate; a plate that changed has a new one
        self._now: BackgroundPlate | None = None
        self._open = (-1, BackgroundPlate.make_blank(1, 1, None))

    def add_view(self, frame: np.ndarray, people: np.ndarray, placed: FramePlacement) -> None:
        """The next frame, without ``people`` (H, W) bool."""
        if placed.begins:
            self._store_plate()
            self._now = BackgroundPlate.make_blank(*self._size, placed.link)
            self._links.append(placed.link)
        assert self._now is not None  # the first frame begins a plate
        self._now.add_view(frame, people, placed.to_plate)

    def finish_plates(self, people: Iterable[tuple[np.ndarray, FramePlacement]] = ()) -> None:
        """All frames were there: share what was seen, and paint in the rest.

        Args:
            people: (H, W) bool of frames in order, by all that is known now, and where these are.
        """
        self._store_plate()
        self._now = None
        self._drop_rare_hiding(people)
        count = len(self._where)
        for number in range(1, count):
            if (link := self._links[number]) is not None:
                self._share_views(number, number - 1, link)
        for number in range(count - 2, -1, -1):
            if (link := self._links[number + 1]) is not None:
                self._share_views(number, number + 1, np.linalg.inv(link))
        for number in range(count):
            plate = self._load_plate(number)
            plate.paint_unseen()
            self._replace_plate(number, plate)

    def view_place(self, placed: FramePlacement) -> tuple[np.ndarray, np.ndarray]:
        """Colour (H, W, 3) and weight (H, W) of the place behind a frame; not to be written to."""
        if self._open[0] != placed.plate:
            self._open = (placed.plate, self._load_plate(placed.plate))
        return self._open[1].warp_view(placed.to_plate, self._size)

    def close(self) -> None:
        """Forget all of them."""
        self._spool.close()

    def _drop_rare_hiding(self, people: Iterable[tuple[np.ndarray, FramePlacement]]) -> None:
        for number, some in groupby(people, key=lambda each: each[1].plate):
            plate = self._load_plate(number)
            for mask, placed in some:
                plate.add_hidden(mask, placed.to_plate)
            plate.drop_rare_hiding()
            self._replace_plate(number, plate)

    def _share_views(self, number: int, other: int, link: np.ndarray) -> None:
        plate = self._load_plate(number)
        plate.learn_from(self._load_plate(other), link)
        self._replace_plate(number, plate)

    def _store_plate(self) -> None:
        if self._now is not None:
            self._where.append(self._write_plate(self._now))
            self._heads.append((self._now.weight.shape, self._now.corner))

    def _replace_plate(self, number: int, plate: BackgroundPlate) -> None:
        self._where[number] = self._write_plate(plate)

    def _write_plate(self, plate: BackgroundPlate) -> int:
        return self._spool.add_piece(plate.colour.tobytes() + plate.weight.tobytes())

    def _load_plate(self, number: int) -> BackgroundPlate:
        held = np.frombuffer(self._spool[self._where[number]], np.uint8)
        (height, width), corner = self._heads[number]
        colour = held[: 3 * height * width].reshape(height, width, 3).copy()
        weight = held[3 * height * width :].reshape(height, width).copy()
        return BackgroundPlate(
            colour=colour, weight=weight, corner=corner, link=self._links[number]
        )
