"""Pictures of the places of a film without the people, put together from all of its frames.

Every shot has a plate, as its first frame sees it and some way beyond. At each of its pixels that
colour is kept which most frames agree on there, as one of them showed it: who was missed for a
moment does not stay. What one plate never saw another may have: they are linked where the camera
turned from one to the other. What no frame saw is painted in once, so that it does not flicker.

Masks of single frames miss somebody now and then, and then the plate shows them. Once the masks of
the whole film are known, only what lies outside of them in some frame is a place: all else counts
as never seen.

Plates wait on disk; two are in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from masquerade._optional import Later
from masquerade.files.spool import Spool
from masquerade.release.avatar.align import Placed
from masquerade.release.avatar.patches import painted

cv2 = Later("cv2", extra="vision")

_BEYOND = 0.25  # of the sides: how far a plate of a camera that moves reaches out of its first
_LIKE = 20  # shades by which two sights of one place differ at most
_MOST = 100  # frames that a pixel remembers
_FREE, _FEW = 3, 5  # frames that must show nobody: so many, or one in so many of a short plate


@dataclass(kw_only=True, eq=False)
class Plate:
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
    def blank(cls, height: int, width: int, link: np.ndarray | None) -> Plate:
        """Before any frame."""
        colour = np.zeros((height, width, 3), np.uint8)
        return cls(colour=colour, weight=np.zeros((height, width), np.uint8), link=link)

    def add(self, frame: np.ndarray, people: np.ndarray, to_plate: np.ndarray) -> None:
        """What a frame shows outside of ``people`` (H, W) bool."""
        seen = (~people).view(np.uint8) * 255
        if not np.array_equal(to_plate, np.eye(3)):
            self._widen(*people.shape)
        if self.corner != (0, 0):
            size = self.weight.shape[::-1]
            moved = self._shift @ to_plate
            frame = cv2.warpPerspective(frame, moved, size, flags=cv2.INTER_LINEAR)
            seen = cv2.warpPerspective(seen, moved, size, flags=cv2.INTER_LINEAR)
            seen = cv2.compare(seen, 255, cv2.CMP_EQ)
        self._vote(frame, seen)

    def hides(self, people: np.ndarray, to_plate: np.ndarray) -> None:
        """A frame's ``people`` (H, W) bool, as the whole film tells them."""
        if self.free is None:
            self.free = np.zeros(self.weight.shape, np.uint8)
        seen = ~people
        if self.corner != (0, 0) or not np.array_equal(to_plate, np.eye(3)):
            size, linear = self.weight.shape[::-1], cv2.INTER_LINEAR
            moved = self._shift @ to_plate
            seen = cv2.warpPerspective(seen.astype(np.uint8) * 255, moved, size, flags=linear) > 254
        cv2.add(self.free, seen.astype(np.uint8), dst=self.free)
        self.frames += 1

    def doubt(self) -> None:
        """Forget what all frames hide but for a few, in which somebody may have been missed."""
        if self.free is not None:
            self.weight[self.free < min(_FREE, -(-self.frames // _FEW))] = 0

    def view(self, to_plate: np.ndarray, size: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """(H, W, 3) and (H, W): colour and weight as a frame of that size sees them."""
        if self.corner == (0, 0) and np.array_equal(to_plate, np.eye(3)):
            return self.colour, self.weight
        back = self._shift @ to_plate
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

    def learn(self, other: Plate, to_other: np.ndarray) -> None:
        """Take over what only ``other`` saw; ``to_other`` is in pixels of first frames."""
        way = other._shift @ to_other @ np.linalg.inv(self._shift)
        size, nearest = self.weight.shape[::-1], cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP
        weight = cv2.warpPerspective(other.weight, way, size, flags=nearest)
        new = (self.weight == 0) & (weight > 0)
        if new.any():
            linear = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
            self.colour[new] = cv2.warpPerspective(other.colour, way, size, flags=linear)[new]
            self.weight[new] = 1

    def paint(self) -> None:
        """Paint in what nobody saw."""
        unseen = self.weight == 0
        if unseen.any():
            self.colour = painted(self.colour, unseen)

    @property
    def _shift(self) -> np.ndarray:
        left, above = self.corner
        return np.array([[1.0, 0, left], [0, 1, above], [0, 0, 1]])

    def _widen(self, height: int, width: int) -> None:
        """Make room around, once the camera moves."""
        if self.corner != (0, 0):
            return
        above, left = max(1, round(_BEYOND * height)), max(1, round(_BEYOND * width))
        around = ((above, above), (left, left))
        self.colour = np.pad(self.colour, (*around, (0, 0)))
        self.weight = np.pad(self.weight, around)
        self.corner = (left, above)

    def _vote(self, frame: np.ndarray, seen: np.ndarray) -> None:
        """With what a frame shows where ``seen`` (H, W) is 255, else 0."""
        red, green, blue = cv2.split(cv2.absdiff(frame, self.colour))
        far = cv2.compare(cv2.max(cv2.max(red, green), blue), _LIKE, cv2.CMP_GT)
        differs, agrees = cv2.bitwise_and(seen, far), cv2.bitwise_and(seen, cv2.bitwise_not(far))
        weight = cv2.min(cv2.add(self.weight, cv2.bitwise_and(agrees, 1)), _MOST)
        weight = cv2.subtract(weight, cv2.bitwise_and(differs, 1))  # and not below 0
        new = cv2.bitwise_and(differs, cv2.compare(weight, 0, cv2.CMP_EQ))
        self.weight = cv2.max(weight, cv2.bitwise_and(new, 1))
        cv2.copyTo(frame, new, self.colour)


class Plates:
    """All plates of a film: first made frame by frame, then finished, then seen."""

    def __init__(self, height: int, width: int) -> None:
        self._size = (height, width)
        self._spool, self._heads = Spool(), list[tuple[tuple[int, ...], tuple[int, int]]]()
        self._links: list[np.ndarray | None] = []
        self._where: list[int] = []  # the piece of each plate; a plate that changed has a new one
        self._now: Plate | None = None
        self._open = (-1, Plate.blank(1, 1, None))

    def add(self, frame: np.ndarray, people: np.ndarray, placed: Placed) -> None:
        """The next frame, without ``people`` (H, W) bool."""
        if placed.begins:
            self._put_away()
            self._now = Plate.blank(*self._size, placed.link)
            self._links.append(placed.link)
        assert self._now is not None  # the first frame begins a plate
        self._now.add(frame, people, placed.to_plate)

    def finish(self, people: Iterable[tuple[np.ndarray, Placed]] = ()) -> None:
        """All frames were there: share what was seen, and paint in the rest.

        Args:
            people: (H, W) bool of frames in order, by all that is known now, and where these are.
        """
        self._put_away()
        self._now = None
        self._doubt(people)
        count = len(self._where)
        for number in range(1, count):
            if (link := self._links[number]) is not None:
                self._share(number, number - 1, link)
        for number in range(count - 2, -1, -1):
            if (link := self._links[number + 1]) is not None:
                self._share(number, number + 1, np.linalg.inv(link))
        for number in range(count):
            plate = self._load(number)
            plate.paint()
            self._replace(number, plate)

    def view(self, placed: Placed) -> tuple[np.ndarray, np.ndarray]:
        """Colour (H, W, 3) and weight (H, W) of the place behind a frame; not to be written to."""
        if self._open[0] != placed.plate:
            self._open = (placed.plate, self._load(placed.plate))
        return self._open[1].view(placed.to_plate, self._size)

    def close(self) -> None:
        """Forget all of them."""
        self._spool.close()

    def _doubt(self, people: Iterable[tuple[np.ndarray, Placed]]) -> None:
        for number, some in groupby(people, key=lambda each: each[1].plate):
            plate = self._load(number)
            for mask, placed in some:
                plate.hides(mask, placed.to_plate)
            plate.doubt()
            self._replace(number, plate)

    def _share(self, number: int, other: int, link: np.ndarray) -> None:
        plate = self._load(number)
        plate.learn(self._load(other), link)
        self._replace(number, plate)

    def _put_away(self) -> None:
        if self._now is not None:
            self._where.append(self._write(self._now))
            self._heads.append((self._now.weight.shape, self._now.corner))

    def _replace(self, number: int, plate: Plate) -> None:
        self._where[number] = self._write(plate)

    def _write(self, plate: Plate) -> int:
        return self._spool.add(plate.colour.tobytes() + plate.weight.tobytes())

    def _load(self, number: int) -> Plate:
        held = np.frombuffer(self._spool[self._where[number]], np.uint8)
        (height, width), corner = self._heads[number]
        colour = held[: 3 * height * width].reshape(height, width, 3).copy()
        weight = held[3 * height * width :].reshape(height, width).copy()
        return Plate(colour=colour, weight=weight, corner=corner, link=self._links[number])
