"""What the first pass over a film learns of it: who is where, and what the place is without them.

People are found and followed (`pose`), their pixels found (`segment`), frames placed (`align`), the
place put together (`plates`), and whoever was missed noted (`watch`). The pose networks look ahead;
a thread of its own does the rest with what they found.

Masks and places wait on disk, joints are small: memory does not grow with the length.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from masquerade.avatars import pose
from masquerade.avatars.plates import Aligner, Placed, Plates
from masquerade.avatars.pose import in_frame
from masquerade.avatars.segment import (
    Edged,
    PersonMasks,
    differing,
    edged,
    grown,
    in_track,
    steady,
    touching,
)
from masquerade.avatars.watch import Watchman
from masquerade.io import streams
from masquerade.io.streams import MaskSpool
from masquerade.mechanism import Frames, Shape
from masquerade.vision.poses import Pose, PoseLandmarks
from masquerade.vision.tracks import Track

_SHORT = 200  # frames up to which a place is put together from every frame
_SOME = 3  # and from every third of more
_COMES_S = 0.3  # in which somebody comes into the picture, or leaves it


class _ShownFrame(NamedTuple):
    """A frame, who was found in it, and what the detector found if it searched it."""

    number: int
    frame: np.ndarray
    poses: tuple[Pose, ...]
    found: np.ndarray | None


@dataclass(frozen=True, kw_only=True)
class Margins:
    """Around people, in pixels and frames.

    Args:
        grow_px: by which person masks grow.
        blend_px: half of the width of a mask's soft rim.
        steady: frames before and after that fill a gap in a mask.
    """

    grow_px: int
    blend_px: int
    steady: int


class FilmedScene:
    """People and place of one film.

    Args:
        margins: around people.
        masks: that makes person masks.
        landmarks: that poses people.
        watch: that looks for people whom the masks miss.
        shape: (T, H, W, 3).
        rate_hz: frames a second.
        module: a user's estimator of poses.
        is_empty_wanted: whether the place is put together.
        is_still_wanted: whether all that moves counts as somebody's.
    """

    def __init__(
        self,
        margins: Margins,
        *,
        masks: PersonMasks,
        landmarks: PoseLandmarks,
        watch: Watchman,
        shape: Shape,
        rate_hz: float,
        module: Path | None = None,
        is_empty_wanted: bool = True,
        is_still_wanted: bool = False,
    ) -> None:
        self._margins, self._masks, self._landmarks = margins, masks, landmarks
        self._shape, self._rate_hz, self._module = shape, rate_hz, module
        self._is_empty_wanted, self._is_still_wanted = is_empty_wanted, is_still_wanted
        height, width = self._size = shape[1], shape[2]
        self._people, self._plates = MaskSpool(height, width), Plates(height, width)
        self._aligner, self._placed = Aligner(), list[Placed]()
        self._before: tuple[Pose, ...] = ()
        self._just = deque[np.ndarray](maxlen=pose.searched_every(rate_hz))  # nobody looked there
        self._earlier: list[tuple[int, Pose]] = []
        self.watch = watch
        self.tracks: tuple[Track, ...] = ()
        self._num_posed: list[int] = []

    def look(self, frames: Frames) -> None:
        """At all frames; the place is put together by `settle`."""
        room = streams.room_for(int(np.prod(self._shape[1:])))
        with streams.handing(self._see, room=room) as hand:
            found = self._found(
                frames, lambda number, frame, *seen: hand(_ShownFrame(number, frame.copy(), *seen))
            )
        self.tracks = found()
        for number, frame in enumerate(self._just, len(self._people) - len(self._just)):
            self._learn_place(number, frame)
        self._just.clear()
        self.watch.compare(self.soft(self.people(number)).q for number in self.watch.numbers)

    def settle(self) -> None:
        """Put the place together, now that everybody is known."""
        self._plates.finish(
            (self._anybody(number), placed) for number, placed in enumerate(self._placed)
        )

    def _found(self, frames: Frames, watch: pose.Watch) -> Callable[[], tuple[Track, ...]]:
        """Look at all frames, and say how to make tracks once the watch has seen all of them."""
        if self._module is not None:
            tracks = pose.estimated(self._module, frames, rate_hz=self._rate_hz, watch=watch)
            return lambda: tracks
        poses = pose.looked(frames, rate_hz=self._rate_hz, landmarks=self._landmarks, watch=watch)

        def followed() -> tuple[Track, ...]:
            for number, one in self._earlier:
                poses[number].append(one)
            return pose.followed(poses, rate_hz=self._rate_hz)

        return followed

    def _see(self, shown: _ShownFrame) -> None:
        mask = self._mask(shown)
        self._people.add(mask)
        self._num_posed.append(max(len(in_frame(shown.poses)), int(mask.any())))
        self._look_back(shown)
        self._before = shown.poses
        self.watch.look(shown.number, shown.frame, shown.found)
        if len(self._just) == self._just.maxlen:
            self._learn_place(shown.number - len(self._just), self._just[0])
        self._just.append(shown.frame)

    def _mask(self, shown: _ShownFrame) -> np.ndarray:
        if self._module is None:
            return self._masks.next(shown.frame, shown.poses)
        return self._masks.of_anybody(shown.frame)

    def _look_back(self, shown: _ShownFrame) -> None:
        """Whoever is new in a frame may have been there before the detector looked."""
        for one in shown.poses:
            if _was_there(one, self._before):
                continue
            last = one
            for number, frame in zip(
                range(shown.number - 1, -1, -1), reversed(self._just), strict=False
            ):
                found = self._landmarks.again(frame, last)
                if found is None:
                    break
                self._people.put(number, self._people[number] | self._masks.of(frame, (found,)))
                self._earlier.append((number, pose.light(found)))
                last = found

    def _learn_place(self, number: int, frame: np.ndarray) -> None:
        """Some frames late: by then is known who was there before the detector looked."""
        if not self._is_empty_wanted:
            return
        people = steady(self._people, number, reach=self._margins.steady)
        margin = self._margins.grow_px + 2 * self._margins.blend_px
        hidden = grown(people, 2 * margin)
        placed = self._aligner.place(frame, hidden)
        self._placed.append(placed)
        is_wanted = self._shape[0] <= _SHORT or number % _SOME == 0
        if is_wanted or placed.begins or not placed.is_still:
            self._plates.add(frame, hidden, placed)

    # What is known afterwards.

    def place(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """(H, W, 3) the place behind a frame, and (H, W) how many frames say so; read-only."""
        return self._plates.view(self._placed[number])

    def num_found(self, number: int) -> int:
        """How many people were found in a frame, by itself or by all that is known of the film."""
        tracks = sum(track.start <= number < track.stop for track in self.tracks)
        return max(self._num_posed[number], tracks)

    def posed(self, number: int) -> np.ndarray:
        """(H, W) bool: everybody in a frame, by what the networks saw in that frame alone."""
        return self._people[number]

    def people(self, number: int) -> np.ndarray:
        """(H, W) bool: everybody in a frame, by all that is known of the film."""
        mask = steady(self._people, number, reach=self._margins.steady)
        for track in self.tracks:
            if track.start <= number < track.stop:
                mask |= in_track(self._people, number, track)
        return mask

    def people_and_theirs(self, number: int, frame: np.ndarray) -> np.ndarray:
        """(H, W) bool: the same, and what differs from the place and touches them."""
        mask, (place, weight) = self.people(number), self.place(number)
        if self._is_still_wanted:
            theirs = differing(frame, place, weight, by_px=self._margins.grow_px)
            return np.asarray(mask | theirs)
        near = mask | self._just_there(number)
        theirs = touching(near, frame, place, weight, by_px=self._margins.grow_px)
        return np.asarray(mask | theirs)

    def soft(self, mask: np.ndarray) -> Edged:
        """A mask with its margins."""
        return edged(mask, grow_px=self._margins.grow_px, blend_px=self._margins.blend_px)

    def close(self) -> None:
        """Forget the film."""
        self._people.close()
        self._plates.close()
        self.watch.close()

    def _just_there(self, number: int) -> np.ndarray:
        """(H, W) bool: where people were, of whom little may be left who come or go."""
        reach, found = round(_COMES_S * self._rate_hz), np.zeros(self._size, bool)
        for track in self.tracks:
            if track.stop <= number < track.stop + reach:
                between = range(track.stop - 1, number)
            elif track.start - reach <= number < track.start:
                between = range(number + 1, track.start + 1)
            else:
                continue
            for other in between:
                found |= self._people[other]
        return found

    def _anybody(self, number: int) -> np.ndarray:
        """(H, W) bool: all that is taken out of a frame, and whoever was missed in it."""
        q, missed = self.soft(self.people(number)).q, self.watch.missed(number)
        return q if missed is None else q | grown(missed, self._margins.grow_px)


def _was_there(one: Pose, before: tuple[Pose, ...]) -> bool:
    """Whether somebody was found near by in the frame before."""
    return any(
        np.linalg.norm(one.hips - other.hips) < 0.3 * max(1.0, float(np.ptp(one.box[1::2])))
        for other in before
    )
