"""One film on its way from people to avatars: what was learned of all of it, then frame by frame.

First pass: who is where (`pose`), which pixels are people's (`segment`), how the camera moves
(`align`), what the place looks like without people (`plates`), and who was missed (`watch`). Then
bodies are fitted to what people did (`body`). Second pass: each frame is emptied (`inpaint`),
figures are drawn over it (`render`), refined if networks for it are given (`refine`), and merged
(`merge`).

Masks, places and joints wait on disk or are small, so that memory does not grow with the length.
"""

from __future__ import annotations

import json
import zipfile
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, NamedTuple

import numpy as np

from masquerade.compute import ahead
from masquerade.errors import BadInput
from masquerade.files.atomic import write_whole
from masquerade.files.spool import MaskSpool
from masquerade.mechanism import Frames, Shape
from masquerade.noise import Noise
from masquerade.people.bodies import Model
from masquerade.people.camera import Light
from masquerade.release.avatar import body, floor, inpaint, pose, refine, render
from masquerade.release.avatar.align import Aligner, Placed
from masquerade.release.avatar.diffusion import Diffusion
from masquerade.release.avatar.merge import merged
from masquerade.release.avatar.plates import Plates
from masquerade.release.avatar.segment import (
    Edged,
    PersonMasks,
    edged,
    grown,
    in_track,
    steady,
    touching,
)
from masquerade.release.avatar.watch import Watchman, blurred
from masquerade.sight.person_tracks import Track
from masquerade.sight.pose_landmarks import PoseLandmarks
from masquerade.sight.poses import Pose

MASKS = ".masks.npz"
BLURRED = "frames_blurred"
_SHORT = 200  # frames up to which a place is put together from every frame
_SOME = 3  # and from every third of more
_COMES_S = 0.3  # in which somebody comes into the picture, or leaves it


@dataclass(frozen=True, kw_only=True)
class AvatarPlan:
    """How a film is worked on, in pixels and frames.

    Args:
        grow_px: by which person masks grow.
        blend_px: half of the width of a mask's soft rim, and all of an avatar's.
        steady: frames before and after that fill a gap in a mask.
        is_strict: whether somebody who was missed ends the work.
        gait: own or public.
        fov_deg: the camera's angle between the upper and the lower edge, in degrees.
        eye_m: height of the camera above the floor, if known.
        shadow: whether figures cast a shadow at their feet.
        pose_module: a user's estimator of poses.
        inpaint_module: a user's function that removes people.
        export: the private file that tracks are written to.
    """

    grow_px: int
    blend_px: int
    steady: int
    is_strict: bool = False
    gait: str = "own"
    fov_deg: float = 50.0
    eye_m: float | None = None
    shadow: bool = False
    pose_module: Path | None = None
    inpaint_module: Path | None = None
    export: Path | None = None


class _Shown(NamedTuple):
    """A frame, who was found in it, and what the detector found if it searched it."""

    number: int
    frame: np.ndarray
    poses: tuple[Pose, ...]
    found: np.ndarray | None


class AvatarStudy:
    """What is known of one film, and its frames as they are released.

    Args:
        plan: how.
        masks: that makes person masks.
        landmarks: that poses people.
        watch: that looks for people whom the masks miss.
        shape: (T, H, W, 3).
        rate_hz: frames a second.
        diffusion: that refines figures, if any.
        model: of the figures' bodies; Anny if not given.
    """

    def __init__(
        self,
        plan: AvatarPlan,
        *,
        masks: PersonMasks,
        landmarks: PoseLandmarks,
        watch: Watchman,
        shape: Shape,
        rate_hz: float,
        diffusion: Diffusion | None = None,
        model: Model | None = None,
    ) -> None:
        self._plan, self._masks, self._landmarks, self._watch = plan, masks, landmarks, watch
        self._shape, self._rate_hz, self._diffusion = shape, rate_hz, diffusion
        self._model = model
        self._refined: refine.Refined | None = None
        height, width = self._size = shape[1], shape[2]
        self._people, self._plates = MaskSpool(height, width), Plates(height, width)
        self._placed: list[Placed] = []
        self._tracks: tuple[Track, ...] = ()
        self._figures: list[body.StandIn] = []
        self._made = {name: MaskSpool(height, width) for name in ("r", "q", "eroded_r")}
        self._num_blurred = 0

    # The first pass.

    def look(self, frames: Frames, noise: Noise) -> None:
        """At all frames; then fit the figures.

        Raises:
            BadInput: if somebody was missed and the plan is strict.
        """
        make, aligner = self._own_inpaint(), Aligner()
        just = deque[np.ndarray](maxlen=pose.searched_every(self._rate_hz))  # nobody looked there
        before: tuple[Pose, ...] = ()

        def see(shown: _Shown) -> None:
            nonlocal before
            self._people.add(self._mask(shown.frame, shown.poses))
            new = [one for one in shown.poses if not _was_there(one, before)]
            self._look_back(shown.number, just, new)
            before = shown.poses
            self._watch.look(shown.number, shown.frame, shown.found)
            if make is None and len(just) == just.maxlen:
                self._learn_place(shown.number - len(just), just[0], aligner)
            just.append(shown.frame)

        room = ahead.room_for(int(np.prod(self._shape[1:])))
        with ahead.handing(see, room=room) as hand:
            self._tracks = pose.people(
                frames,
                rate_hz=self._rate_hz,
                landmarks=self._landmarks,
                watch=lambda number, frame, *seen: hand(_Shown(number, frame.copy(), *seen)),
                module=self._plan.pose_module,
            )
        for number, frame in enumerate(just, len(self._people) - len(just)):
            if make is None:
                self._learn_place(number, frame, aligner)
        self._make = make
        for at, number in enumerate(self._watch.numbers):
            self._watch.compare(at, self._soft(self._whole(number)).q)
        if self._plan.is_strict and self._watch.num_missed:
            raise BadInput(
                "Expected masks that cover everybody, as --strict asks; somebody outside of them "
                f"was found in {self._watch.num_missed} of {len(self._watch.numbers)} frames that "
                "were looked at. Nothing was published. Without --strict such people are blurred."
            )
        self._plates.finish(
            (self._anybody(number), placed) for number, placed in enumerate(self._placed)
        )
        self._fit(noise)
        self._export()

    def _mask(self, frame: np.ndarray, poses: tuple[Pose, ...]) -> np.ndarray:
        if self._plan.pose_module is None:
            return self._masks.next(frame, poses)
        return self._masks.of_anybody(frame)

    def _look_back(self, number: int, just: deque[np.ndarray], new: list[Pose]) -> None:
        """Whoever is new in a frame may have been there before the detector looked."""
        for one in new:
            last = one
            for away, frame in enumerate(reversed(just), 1):
                found = self._landmarks.again(frame, last)
                if found is None:
                    break
                held = self._people[number - away]
                self._people.put(number - away, held | self._masks.of(frame, (found,)))
                last = found

    def _learn_place(self, number: int, frame: np.ndarray, aligner: Aligner) -> None:
        """Some frames late: by then is known who was there before the detector looked."""
        people = steady(self._people, number, reach=self._plan.steady)
        margin = self._plan.grow_px + 2 * self._plan.blend_px
        hidden = grown(people, 2 * margin)
        placed = aligner.place(frame, hidden)
        self._placed.append(placed)
        is_wanted = self._shape[0] <= _SHORT or number % _SOME == 0
        if is_wanted or placed.begins or not placed.is_still:
            self._plates.add(frame, hidden, placed)

    def _fit(self, noise: Noise) -> None:
        plan, (height, width) = self._plan, self._size
        rng = _chance(noise)
        self._camera = floor.camera_of(
            self._tracks,
            height=height,
            width=width,
            rate_hz=self._rate_hz,
            fov_deg=plan.fov_deg,
            eye_m=plan.eye_m,
        )
        self._figures = [
            body.fitted(
                track,
                self._camera,
                rng,
                rate_hz=self._rate_hz,
                gait=plan.gait,
                model=self._model,
            )
            for track in self._tracks
        ]

    def _own_inpaint(self) -> inpaint.Inpaint | None:
        path = self._plan.inpaint_module
        return None if path is None else inpaint.from_module(path)

    def _export(self) -> None:
        if self._plan.export is not None:
            write_whole(self._plan.export, _as_json(self._tracks, self._shape), is_private=True)

    # The second pass.

    def stream(self, frames: Frames, shape: Shape, noise: Noise) -> Frames:
        """The same frames, with avatars in the place of people."""
        return (done for _, done in self.steps(frames, noise))

    def steps(self, frames: Frames, noise: Noise) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Each frame without people, and with avatars in their place."""
        light = None
        for number, (people, empty) in enumerate(self._emptied(frames)):
            q, missed = people.q, self._watch.missed(number)
            if missed is not None:
                empty, q = blurred(empty, missed & ~q), q | missed
                self._num_blurred += 1
            light = light or render.light_of(empty, self._camera)
            drawn = render.drawn(
                self._figures,
                number,
                empty,
                camera=self._camera,
                light=light,
                shadow=self._plan.shadow,
            )
            if self._diffusion is not None:
                drawn = self._refine(self._diffusion, light, noise).over(drawn, number)
            done = merged(empty, drawn.image, drawn.alpha, blend_px=self._plan.blend_px)
            for name, mask in (("r", done.r), ("q", q), ("eroded_r", done.eroded_r)):
                self._made[name].add(mask)
            yield empty, done.image

    def _refine(self, diffusion: Diffusion, light: Light, noise: Noise) -> refine.Refined:
        """All figures, refined when the first frame is drawn and their light is known."""
        if self._refined is None:
            self._refined = refine.Refined(
                diffusion, self._figures, camera=self._camera, light=light, rng=_chance(noise)
            )
        return self._refined

    def _emptied(self, frames: Frames) -> Iterator[tuple[Edged, np.ndarray]]:
        """Where people are in each frame, and what it is without them."""
        if self._make is None:
            room = ahead.room_for(4 * int(np.prod(self._shape[1:])))
            yield from ahead.ahead(self._in_place(frames), room=room)
            return
        waiting = deque[tuple[np.ndarray, Edged]]()

        def pairs() -> Iterator[tuple[np.ndarray, np.ndarray]]:
            for number, frame in enumerate(frames):
                waiting.append((frame, self._soft(self._whole(number))))
                yield frame, waiting[-1][1].q

        for place in inpaint.in_windows(self._make, pairs()):
            frame, people = waiting.popleft()
            yield people, inpaint.emptied(frame, place, people, is_same_light=True)

    def _in_place(self, frames: Frames) -> Generator[tuple[Edged, np.ndarray], None, None]:
        """The same by what other frames saw; a thread of its own asks for it."""
        for number, frame in enumerate(frames):
            place, weight = self._plates.view(self._placed[number])
            mask, by_px = self._whole(number), self._plan.grow_px
            near = mask | self._just_there(number)
            mask |= touching(near, frame, place, weight, by_px=by_px)
            people = self._soft(mask)
            yield people, inpaint.emptied(frame, place, people)

    def _whole(self, number: int) -> np.ndarray:
        """(H, W) bool: everybody in a frame, by all that is known of the film."""
        mask = steady(self._people, number, reach=self._plan.steady)
        for track in self._tracks:
            if track.start <= number < track.stop:
                mask |= in_track(self._people, number, track)
        return mask

    def _just_there(self, number: int) -> np.ndarray:
        """(H, W) bool: where people were, of whom little may be left who come or go."""
        reach, found = round(_COMES_S * self._rate_hz), np.zeros(self._size, bool)
        for track in self._tracks:
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
        q, missed = self._soft(self._whole(number)).q, self._watch.missed(number)
        return q if missed is None else q | grown(missed, self._plan.grow_px)

    def _soft(self, mask: np.ndarray) -> Edged:
        return edged(mask, grow_px=self._plan.grow_px, blend_px=self._plan.blend_px)

    # What goes out.

    @property
    def counted(self) -> Mapping[str, int]:
        """In how many frames somebody was blurred whom the masks missed."""
        return {BLURRED: self._num_blurred}

    def masks(self, name: str) -> np.ndarray:
        """(T, H, W) bool: r, q or eroded_r of the frames that were streamed."""
        made = self._made[name]
        return np.stack([made[number] for number in range(len(made))])

    def write_along(self, suffix: str, stream: BinaryIO) -> None:
        """The masks r, q and eroded r, as `data.mask_files` reads them."""
        assert suffix == MASKS  # the only one
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, allowZip64=True) as archive:
            for name, masks in self._made.items():
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as entry:
                    _write_masks(entry, masks)

    def close(self) -> None:
        """Forget the film."""
        for masks in (self._people, *self._made.values()):
            masks.close()
        self._plates.close()
        self._watch.close()
        if self._refined is not None:
            self._refined.close()


def _chance(noise: Noise) -> np.random.Generator:
    return np.random.default_rng([int(word) for word in noise.words(4)])


def _was_there(one: Pose, before: tuple[Pose, ...]) -> bool:
    """Whether somebody was found near by in the frame before."""
    return any(
        np.linalg.norm(one.hips - other.hips) < 0.3 * max(1.0, float(np.ptp(one.box[1::2])))
        for other in before
    )


def _write_masks(stream: IO[bytes], masks: MaskSpool) -> None:
    """An array (T, H, W / 8) of bits packed by lines; (T, H, 1) is too narrow to be told apart."""
    height, width = masks.size
    is_packed = -(-width // 8) != width
    across = -(-width // 8) if is_packed else width
    header = {"descr": "|u1", "fortran_order": False, "shape": (len(masks), height, across)}
    np.lib.format.write_array_header_1_0(stream, header)
    for number in range(len(masks)):
        one = masks.packed(number) if is_packed else masks[number].astype(np.uint8)
        stream.write(one.tobytes())


def _as_json(tracks: tuple[Track, ...], shape: Shape) -> bytes:
    """The tracks as a file that says of itself that it is private."""
    content = {
        "PRIVATE": "Computed from a private video. Do not publish this file.",
        "joints": "33 of BlazePose: x, y in pixels and how far each is trusted, 0 to 1",
        "video": dict(zip(("frames", "height", "width"), shape, strict=False)),
        "people": [
            {"start": track.start, "joints": track.joints[..., :3].round(3).tolist()}
            for track in tracks
        ],
    }
    return json.dumps(content).encode()
