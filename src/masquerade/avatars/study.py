"""One film on its way from people to avatars: what was learned of all of it, then frame by frame.

First pass: who is where, and the place without them (`scene`). Then bodies are fitted to what
people did (`body`). Second pass: each frame is emptied (`inpaint`), figures are drawn over it
(`render`), refined if networks for it are given (`refine`), and merged (`merge`).
"""

from __future__ import annotations

import json
import zipfile
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np

from masquerade.avatars import MASKS, body, inpaint, lift, render
from masquerade.avatars.diffusion import FigureDiffusion
from masquerade.avatars.scene import FilmedScene, PeopleMargins
from masquerade.avatars.segment import (
    PersonMasks,
    SoftMask,
    find_legs_behind,
    grow_mask,
    merge_avatars,
)
from masquerade.avatars.watch import MissedPeopleWatch, blur_region
from masquerade.errors import NotHidden
from masquerade.io import streams
from masquerade.io.atomic import write_whole
from masquerade.io.streams import MaskSpool
from masquerade.mechanism import Frames, Shape
from masquerade.noise import Noise
from masquerade.stage.bodies import BodyModel
from masquerade.stage.raster import SceneLight
from masquerade.vision.poses import PoseLandmarks
from masquerade.vision.tracks import PersonTrack
from masquerade.wording import BLURRED_KEY, FOUND_KEY, NOT_REPLACED_KEY, REPLACED_KEY

_STEADY = 2  # frames before and after in which somebody is where a hidden leg is drawn


@dataclass(frozen=True, kw_only=True)
class AvatarPlan:
    """How a film is worked on, in pixels and frames.

    Args:
        margins: around people; an avatar's rim is half as wide.
        is_strict: whether somebody who was missed ends the work.
        gait: own or public.
        fov_deg: the camera's angle between the upper and the lower edge, in degrees.
        eye_m: height of the camera above the floor, if known.
        shadow: whether figures cast a shadow at their feet.
        pose_module: a user's estimator of poses.
        inpaint_module: a user's function that removes people.
        is_still_wanted: whether all that moves is taken out.
        export: the private file that tracks are written to.
    """

    margins: PeopleMargins
    is_strict: bool = False
    gait: str = "own"
    fov_deg: float = 50.0
    eye_m: float | None = None
    shadow: bool = False
    pose_module: Path | None = None
    inpaint_module: Path | None = None
    is_still_wanted: bool = False
    export: Path | None = None


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
        watch: MissedPeopleWatch,
        shape: Shape,
        rate_hz: float,
        diffusion: FigureDiffusion | None = None,
        model: BodyModel | None = None,
    ) -> None:
        self._plan, self._shape, self._rate_hz = plan, shape, rate_hz
        self._diffusion, self._model = diffusion, model
        self._refined: render.RefinedFigures | None = None
        own = plan.inpaint_module
        self._make = None if own is None else inpaint.from_module(own)
        self.scene = FilmedScene(
            plan.margins,
            masks=masks,
            landmarks=landmarks,
            watch=watch,
            shape=shape,
            rate_hz=rate_hz,
            module=plan.pose_module,
            is_empty_wanted=self._make is None,
            is_still_wanted=plan.is_still_wanted,
        )
        self._figures: list[body.StandIn] = []
        self._made = {name: MaskSpool(shape[1], shape[2]) for name in ("r", "q", "eroded_r")}
        self._counted = dict.fromkeys((BLURRED_KEY, FOUND_KEY, REPLACED_KEY, NOT_REPLACED_KEY), 0)

    # The first pass.

    def look_and_fit(self, frames: Frames, noise: Noise) -> None:
        """At all frames; then fit the figures.

        Raises:
            NotHidden: if somebody was missed and the plan is strict.
        """
        self.scene.look_at_film(frames)
        watch = self.scene.watch
        if self._plan.is_strict and watch.count_missed:
            raise NotHidden(
                "Expected masks that cover everybody, as --strict asks; somebody outside of them "
                f"was found in {watch.count_missed} of {len(watch.frame_numbers)} frames that "
                "were looked at. Nothing was published. Without --strict such people are blurred."
            )
        self.scene.finish_place()
        self._fit_figures(noise)
        self._export_motion()

    def _fit_figures(self, noise: Noise) -> None:
        plan, (height, width) = self._plan, self._shape[1:3]
        rng = _make_figure_rng(noise)
        self._camera = lift.estimate_camera(
            self.scene.tracks,
            height=height,
            width=width,
            rate_hz=self._rate_hz,
            fov_deg=plan.fov_deg,
            eye_m=plan.eye_m,
        )
        made = [
            body.fit_figure(
                track,
                self._camera,
                rng,
                rate_hz=self._rate_hz,
                gait=plan.gait,
                model=self._model,
            )
            for track in self.scene.tracks
        ]
        self._figures = [
            replace(
                one,
                hidden=find_legs_behind(track, self.scene.load_posed_mask, rate_hz=self._rate_hz),
            )
            for one, track in zip(made, self.scene.tracks, strict=True)
        ]

    def _export_motion(self) -> None:
        if self._plan.export is not None:
            write_whole(
                self._plan.export, _as_json(self.scene.tracks, self._shape), is_private=True
            )

    # The second pass.

    def stream(self, frames: Frames, shape: Shape, noise: Noise) -> Frames:
        """The same frames, with avatars in the place of people."""
        return (done for _, done in self.render_steps(frames, noise))

    def render_steps(self, frames: Frames, noise: Noise) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Each frame without people, and with avatars in their place."""
        light = None
        for number, (people, empty) in enumerate(self._remove_people(frames)):
            q, missed = people.q, self.scene.watch.find_missed_mask(number)
            if missed is not None:
                empty, q = blur_region(empty, missed & ~q), q | missed
            light = light or render.estimate_light(empty, self._camera)
            drawn = render.render_figures(
                self._figures,
                number,
                empty,
                camera=self._camera,
                light=light,
                shadow=self._plan.shadow,
                people=self._find_leg_surroundings(number),
            )
            self._count_people(number, drawn.owner, is_missed=missed is not None)
            if self._diffusion is not None:
                drawn = self._refine_figures(self._diffusion, light, noise).draw_over(drawn, number)
            done = merge_avatars(
                empty, drawn.image, drawn.alpha, blend_px=self._plan.margins.blend_px
            )
            for name, mask in (("r", done.r), ("q", q), ("eroded_r", done.eroded_r)):
                self._made[name].add_mask(mask)
            yield empty, done.image

    def _count_people(self, number: int, owner: np.ndarray, *, is_missed: bool) -> None:
        """How many people were found in a frame, and how many avatars are seen (``owner``)."""
        found = max(self.scene.count_found_people(number), int(is_missed))
        replaced = np.unique(owner[owner >= 0]).size
        self._counted[BLURRED_KEY] += is_missed
        self._counted[FOUND_KEY] = max(self._counted[FOUND_KEY], found)
        self._counted[REPLACED_KEY] = max(self._counted[REPLACED_KEY], replaced)
        self._counted[NOT_REPLACED_KEY] += replaced < found

    def _find_leg_surroundings(self, number: int) -> np.ndarray | None:
        """(H, W) bool: where people are for some frames, so that a hidden leg does not flicker."""
        hidden = [one.find_hidden_legs(number) for one in self._figures]
        if not np.any(hidden):
            return None
        near = range(max(0, number - _STEADY), min(self._shape[0], number + _STEADY + 1))
        people = np.logical_and.reduce([self.scene.load_posed_mask(other) for other in near])
        return grow_mask(people, self._plan.margins.grow_px)

    def _refine_figures(
        self, diffusion: FigureDiffusion, light: SceneLight, noise: Noise
    ) -> render.RefinedFigures:
        """All figures, refined when the first frame is drawn and their light is known."""
        if self._refined is None:
            self._refined = render.RefinedFigures(
                diffusion,
                self._figures,
                camera=self._camera,
                light=light,
                rng=_make_figure_rng(noise),
            )
        return self._refined

    def _remove_people(self, frames: Frames) -> Iterator[tuple[SoftMask, np.ndarray]]:
        """Where people are in each frame, and what it is without them."""
        if self._make is None:
            room = streams.count_waiting(4 * int(np.prod(self._shape[1:])))
            yield from streams.read_ahead(self._remove_people_by_plates(frames), max_waiting=room)
            return
        waiting = deque[tuple[np.ndarray, SoftMask]]()

        def iter_pairs() -> Iterator[tuple[np.ndarray, np.ndarray]]:
            for number, frame in enumerate(frames):
                waiting.append((frame, self.scene.soften_mask(self.scene.find_people_mask(number))))
                yield frame, waiting[-1][1].q

        for place in inpaint.run_in_windows(self._make, iter_pairs()):
            frame, people = waiting.popleft()
            yield people, inpaint.remove_people(frame, place, people, is_same_light=True)

    def _remove_people_by_plates(
        self, frames: Frames
    ) -> Generator[tuple[SoftMask, np.ndarray], None, None]:
        """The same by what other frames saw; a thread of its own asks for it."""
        for number, frame in enumerate(frames):
            people = self.scene.soften_mask(self.scene.find_people_and_belongings(number, frame))
            yield people, inpaint.remove_people(frame, self.scene.find_place(number)[0], people)

    # What goes out.

    @property
    def receipt_counts(self) -> Mapping[str, int]:
        """Most people found and avatars seen in a frame; frames with fewer, and with a blur."""
        return dict(self._counted)

    def stack_masks(self, name: str) -> np.ndarray:
        """(T, H, W) bool: r, q or eroded_r of the frames that were streamed."""
        made = self._made[name]
        return np.stack([made[number] for number in range(len(made))])

    def write_sidecar(self, suffix: str, stream: BinaryIO) -> None:
        """The masks r, q and eroded r, as `data.mask_files` reads them."""
        assert suffix == MASKS  # the only one
        with zipfile.ZipFile(stream, "w", allowZip64=True) as archive:
            for name, masks in self._made.items():
                member = zipfile.ZipInfo(f"{name}.npy")  # its date is fixed: no clock in the file
                member.compress_type = zipfile.ZIP_DEFLATED
                with archive.open(member, "w", force_zip64=True) as entry:
                    _write_masks(entry, masks)

    def close(self) -> None:
        """Forget the film."""
        for masks in self._made.values():
            masks.close()
        self.scene.close()
        if self._refined is not None:
            self._refined.close()


def _make_figure_rng(noise: Noise) -> np.random.Generator:
    return np.random.default_rng([int(word) for word in noise.draw_words(4)])


def _write_masks(stream: IO[bytes], masks: MaskSpool) -> None:
    """An array (T, H, W / 8) of bits packed by lines; (T, H, 1) is too narrow to be told apart."""
    height, width = masks.size
    is_packed = -(-width // 8) != width
    across = -(-width // 8) if is_packed else width
    header = {"descr": "|u1", "fortran_order": False, "shape": (len(masks), height, across)}
    np.lib.format.write_array_header_1_0(stream, header)
    for number in range(len(masks)):
        one = masks.read_packed(number) if is_packed else masks[number].astype(np.uint8)
        stream.write(one.tobytes())


def _as_json(tracks: tuple[PersonTrack, ...], shape: Shape) -> bytes:
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
