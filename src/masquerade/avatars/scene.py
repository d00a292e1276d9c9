"""What the first pass over a film learns of it: who is where, and what the place is without them.

People are found and followed (`pose`), their pixels found (`segment`), frames placed
(`align`), the place put together (`plates`), and whoever was missed noted (`watch`). The pose
networks look ahead; a thread of its own does the rest with what they found.

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
from masquerade.avatars.plates import BackgroundPlates, FrameAligner, FramePlacement
from masquerade.avatars.pose import drop_false_bodies
from masquerade.avatars.segment import (
    PersonMasks,
    SoftMask,
    find_changes,
    find_touching_changes,
    grow_mask,
    make_soft_edge,
    mask_of_track,
    steady_mask,
)
from masquerade.avatars.watch import MissedPeopleWatch
from masquerade.io import streams
from masquerade.io.streams import MaskSpool
from masquerade.mechanism import Frames, Shape
from masquerade.vision.poses import PersonPose, PoseLandmarks
from masquerade.vision.tracks import PersonTrack

_MAX_SHORT_FRAMES = 200  # frames up to which a place is put together from every frame
_FRAMES_PER_SAMPLE = 3  # and from every third of more
_COMES_S = 0.3  # in which somebody comes into the picture, or leaves it


class _ShownFrame(NamedTuple):
    """A frame, who was found in it, and what the detector found if it searched it."""

    number: int
    frame: np.ndarray
    poses: tuple[PersonPose, ...]
    found: np.ndarray | None


@dataclass(frozen=True, kw_only=True)
class PeopleMargins:
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
        margins: PeopleMargins,
        *,
        masks: PersonMasks,
        landmarks: PoseLandmarks,
        watch: MissedPeopleWatch,
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
        self._people, self._plates = MaskSpool(height, width), BackgroundPlates(height, width)
        self._aligner, self._placed = FrameAligner(), list[FramePlacement]()
        self._before: tuple[PersonPose, ...] = ()
        self._just = deque[np.ndarray](
            maxlen=pose.choose_search_interval(rate_hz)
        )  # nobody looked there
        self._earlier: list[tuple[int, PersonPose]] = []
        self.watch = watch
        self.tracks: tuple[PersonTrack, ...] = ()
        self._num_posed: list[int] = []

    def look_at_film(self, frames: Frames) -> None:
        """At all frames; the place is put together by `finish_place`."""
        room = streams.count_waiting(int(np.prod(self._shape[1:])))
        with streams.hand_over(self._add_shown_frame, max_waiting=room) as hand:
            found = self._find_people(
                frames, lambda number, frame, *seen: hand(_ShownFrame(number, frame.copy(), *seen))
            )
        self.tracks = found()
        for number, frame in enumerate(self._just, len(self._people) - len(self._just)):
            self._learn_place(number, frame)
        self._just.clear()
        self.watch.compare_masks(
            self.soften_mask(self.find_people_mask(number)).q for number in self.watch.frame_numbers
        )

    def finish_place(self) -> None:
        """Put the place together, now that everybody is known."""
        self._plates.finish_plates(
            (self._find_anybody_mask(number), placed) for number, placed in enumerate(self._placed)
        )

    def _find_people(
        self, frames: Frames, watch: pose.Watch
    ) -> Callable[[], tuple[PersonTrack, ...]]:
        """Look at all frames, and say how to make tracks once the watch has seen all of them."""
        if self._module is not None:
            tracks = pose.track_by_module(self._module, frames, rate_hz=self._rate_hz, watch=watch)
            return lambda: tracks
        poses = pose.find_people_in_frames(
            frames, rate_hz=self._rate_hz, landmarks=self._landmarks, watch=watch
        )

        def link_found_people() -> tuple[PersonTrack, ...]:
            for number, one in self._earlier:
                poses[number].append(one)
            return pose.link_people(poses, rate_hz=self._rate_hz)

        return link_found_people

    def _add_shown_frame(self, shown: _ShownFrame) -> None:
        mask = self._find_people_mask(shown)
        self._people.add_mask(mask)
        self._num_posed.append(max(len(drop_false_bodies(shown.poses)), int(mask.any())))
        self._search_earlier_frames(shown)
        self._before = shown.poses
        self.watch.look_at_frame(shown.number, shown.frame, shown.found)
        if len(self._just) == self._just.maxlen:
            self._learn_place(shown.number - len(self._just), self._just[0])
        self._just.append(shown.frame)

    def _find_people_mask(self, shown: _ShownFrame) -> np.ndarray:
        if self._module is None:
            return self._masks.next_mask(shown.frame, shown.poses)
        return self._masks.mask_anybody(shown.frame)

    def _search_earlier_frames(self, shown: _ShownFrame) -> None:
        """Whoever is new in a frame may have been there before the detector looked."""
        for one in shown.poses:
            if _was_there(one, self._before):
                continue
            last = one
            for number, frame in zip(
                range(shown.number - 1, -1, -1), reversed(self._just), strict=False
            ):
                found = self._landmarks.find_again(frame, last)
                if found is None:
                    break
                self._people.replace_mask(
                    number, self._people[number] | self._masks.mask_poses(frame, (found,))
                )
                self._earlier.append((number, pose.without_pixels(found)))
                last = found

    def _learn_place(self, number: int, frame: np.ndarray) -> None:
        """Some frames late: by then is known who was there before the detector looked."""
        if not self._is_empty_wanted:
            return
        people = steady_mask(self._people, number, reach=self._margins.steady)
        margin = self._margins.grow_px + 2 * self._margins.blend_px
        hidden = grow_mask(people, 2 * margin)
        placed = self._aligner.place_frame(frame, hidden)
        self._placed.append(placed)
        is_wanted = self._shape[0] <= _MAX_SHORT_FRAMES or number % _FRAMES_PER_SAMPLE == 0
        if is_wanted or placed.begins or not placed.is_still:
            self._plates.add_view(frame, hidden, placed)

    # What is known afterwards.

    def find_place(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """(H, W, 3) the place behind a frame, and (H, W) how many frames say so; read-only."""
        return self._plates.view_place(self._placed[number])

    def count_found_people(self, number: int) -> int:
        """How many people were found in a frame, by itself or by all that is known of the film."""
        tracks = sum(track.start <= number < track.stop_frame for track in self.tracks)
        return max(self._num_posed[number], tracks)

    def load_posed_mask(self, number: int) -> np.ndarray:
        """(H, W) bool: everybody in a frame, by what the networks saw in that frame alone."""
        return self._people[number]

    def find_people_mask(self, number: int) -> np.ndarray:
        """(H, W) bool: everybody in a frame, by all that is known of the film."""
        mask = steady_mask(self._people, number, reach=self._margins.steady)
        for track in self.tracks:
            if track.start <= number < track.stop_frame:
                mask |= mask_of_track(self._people, number, track)
        return mask

    def find_people_and_belongings(self, number: int, frame: np.ndarray) -> np.ndarray:
        """(H, W) bool: the same, and what differs from the place and touches them."""
        mask, (place, weight) = self.find_people_mask(number), self.find_place(number)
        if self._is_still_wanted:
            theirs = find_changes(frame, place, weight, by_px=self._margins.grow_px)
            return np.asarray(mask | theirs)
        near = mask | self._find_recent_people(number)
        theirs = find_touching_changes(near, frame, place, weight, by_px=self._margins.grow_px)
        return np.asarray(mask | theirs)

    def soften_mask(self, mask: np.ndarray) -> SoftMask:
        """A mask with its margins."""
        return make_soft_edge(mask, grow_px=self._margins.grow_px, blend_px=self._margins.blend_px)

    def close(self) -> None:
        """Forget the film."""
        self._people.close()
        self._plates.close()
        self.watch.close()

    def _find_recent_people(self, number: int) -> np.ndarray:
        """(H, W) bool: where people were, of whom little may be left who come or go."""
        reach, found = round(_COMES_S * self._rate_hz), np.zeros(self._size, bool)
        for track in self.tracks:
            if track.stop_frame <= number < track.stop_frame + reach:
                between = range(track.stop_frame - 1, number)
            elif track.start - reach <= number < track.start:
                between = range(number + 1, track.start + 1)
            else:
                continue
            for other in between:
                found |= self._people[other]
        return found

    def _find_anybody_mask(self, number: int) -> np.ndarray:
        """(H, W) bool: all that is taken out of a frame, and whoever was missed in it."""
        q, missed = (
            self.soften_mask(self.find_people_mask(number)).q,
            self.watch.find_missed_mask(number),
        )
        return q if missed is None else q | grow_mask(missed, self._margins.grow_px)


def _was_there(one: PersonPose, before: tuple[PersonPose, ...]) -> bool:
    """Whether somebody was found near by in the frame before."""
    return any(
        np.linalg.norm(one.hip_centre - other.hip_centre)
        < 0.3 * max(1.0, float(np.ptp(one.joint_box[1::2])))
        for other in before
    )
