"""Replace people by avatars who do the same, and say which pixels are drawn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from masquerade import _check, progress
from masquerade._optional import require_extra
from masquerade.avatars import MASKS
from masquerade.io.downloads import fetch_asset
from masquerade.io.streams import Spool
from masquerade.mechanism import Frames, Heuristic, Plan, Shape, Shapes, as_video
from masquerade.noise import Noise
from masquerade.wording import count_people

if TYPE_CHECKING:
    from masquerade.avatars.study import AvatarPlan, AvatarStudy
    from masquerade.vision.face_detector import FaceDetector


_RATE_HZ = 25.0  # of frames that come without one
_HOLD_S = 2.0  # for which somebody is followed whom the pose network has lost
_FACE_LINES = 540  # of the picture in which faces are sought
_MIN_SQUARE_PX = 128  # of a square in which people are sought: they fill a fifth of it or more
_GAITS = ("own", "public")
_USER_FILE_FIELDS = (
    "pose_module",
    "inpaint_module",
    "refine",
    "body_model",
)  # what lies with the user


@dataclass(frozen=True, kw_only=True)
class Avatar(Heuristic):
    """Everybody is removed from the film, and a drawn figure moves in their place as they did.

    After [schneider2024, Alg. 1]: people are posed and tracked, their pixels found
    and replaced by what other frames saw behind them, and a body of random shape, stature, skin,
    hair and clothes, the same over the film, is drawn in every pose. Beside the film stand the
    masks: q, all that was taken out; r, all that was drawn; and eroded r, what is drawn for
    certain, which `train --masks` takes as public.

    Guarantee:
        none: networks miss people and pixels; pose, gait, timing and place are kept on purpose, and
            somebody may be known by them.

    Args:
        strict: publish nothing if a detector finds somebody whom the masks do not cover; otherwise
            they are blurred, and the receipt says in how many frames.
        gait: own (as the person walks) or public (another's way of walking, at the same pace).
        grow: by which person masks grow, in shares of the frame's shorter side.
        blend: how wide rims are soft, likewise.
        steady: frames before and after that fill a gap in a person's mask.
        watch_every: of so many frames one is searched whole for people whom the masks miss.
        face_thresh: the least score of a face that must be covered, 0 to 1; lower covers more.
        field_of_view: the camera's angle between the upper and the lower edge, in degrees.
        eye_height: of the camera above the floor, in metres; guessed if not given.
        shadow: draw a shadow at the figures' feet.
        remove_moving: take out whatever differs from the place behind, not only what touches
            somebody: legs alone, a hand at the border, somebody very small; also cars, doors and
            leaves in the wind. What never moves stays.
        pose_module: a Python file of yours that poses people instead: ``people(frames, rate_hz)``.
        inpaint_module: one that removes them: ``inpaint(frames, people)``.
        refine: a folder of yours with networks that make figures look like people: Stable
            Diffusion, AnimateDiff and ControlNets, in the parts base, motion, depth, pose, face.
        body_model: an SMPL or SMPL-H file of yours (.npz) whose bodies are drawn; otherwise Anny's.
        export: write the tracks to this file as JSON. It is computed from the private video: do not
            publish it. It must be a new file; no receipt names it.
    """

    ALONG: ClassVar[tuple[str, ...]] = (MASKS,)

    strict: bool = False
    gait: str = "own"
    grow: float = 0.008
    blend: float = 0.004
    steady: int = 3
    watch_every: int = 10
    face_thresh: float = 0.4
    field_of_view: float = 50.0
    eye_height: float | None = None
    shadow: bool = False
    remove_moving: bool = False
    pose_module: str | None = None
    inpaint_module: str | None = None
    refine: str | None = None
    body_model: str | None = None
    export: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _check.not_negative(grow=self.grow, blend=self.blend, steady=self.steady)
        _check.at_most(0.1, grow=self.grow, blend=self.blend)
        _check.count(watch_every=self.watch_every)
        _check.at_most(100, watch_every=self.watch_every, steady=self.steady)
        _check.probability(face_thresh=self.face_thresh)
        _check.at_least(10.0, "Narrower lenses are not known.", field_of_view=self.field_of_view)
        _check.at_most(150, field_of_view=self.field_of_view)
        if self.eye_height is not None:
            _check.positive(eye_height=self.eye_height)
        if not isinstance(self.steady, int) or isinstance(self.steady, bool):
            raise ValueError(f"Expected steady to be a whole number, got steady={self.steady!r}.")
        if self.remove_moving and self.inpaint_module is not None:
            raise ValueError(
                "Expected remove_moving or inpaint_module, got both: what moves is known by the "
                "place that other frames saw, and your module puts none together."
            )
        if self.gait not in _GAITS:
            raise ValueError(_check.describe_unknown("gait", self.gait, _GAITS))

    @property
    def hides(self) -> str:
        """Who it is, by face, body and clothes."""
        return "who people are, by drawing others in their place"

    @property
    def is_partial(self) -> bool:
        """People alone are replaced."""
        return True

    def plan(self, shape: Shape | Shapes) -> Plan:
        """No guarantee, and what is kept is named."""
        plan, gait = super().plan(shape), "gait"
        if self.gait != "own":
            gait = "pace and phase of the gait"
        guarantee = replace(
            plan.guarantee,
            not_protected=(
                f"pose, {gait}, timing, and when people come and go: avatars repeat them",
                "the place: everything outside of the masks is as it was, bit by bit before it is "
                "encoded, and so are shadows, mirrors and what people hold",
                "the outline of people: the mask q, published beside the film, follows it",
                "how many people were found and replaced at most in a frame, in how many frames "
                "fewer were replaced than found, and in how many somebody outside of the masks was "
                "blurred: all of it is counted in the private video and stands in the receipt",
                "anything else: nothing is proved about what can be recovered",
            ),
        )
        return replace(plan, guarantee=guarantee)

    def encode_fields(self) -> dict[str, Any]:
        """The public fields: where a private file goes is none, nor where your own files lie."""
        found = super().encode_fields()
        own = [name for name in _USER_FILE_FIELDS if found[name]]
        return {**found, **{name: Path(found[name]).name for name in own}, "export": None}

    def first_pass(
        self, frames: Frames, shape: Shape, *, rate_hz: float, noise: Noise
    ) -> AvatarStudy:
        """Look at the whole film; all networks are loaded before the first frame is taken."""
        from masquerade.avatars.diffusion import FigureDiffusion
        from masquerade.avatars.segment import PersonMasks
        from masquerade.avatars.study import AvatarStudy
        from masquerade.avatars.watch import MissedPeopleWatch
        from masquerade.stage import smpl
        from masquerade.vision.person_detector import PersonSegmenter
        from masquerade.vision.poses import PoseLandmarks

        shape = as_video(shape)
        require_extra("cv2", extra="avatar")
        require_extra("onnxruntime", extra="avatar")
        require_extra("ai_edge_litert", extra="avatar")
        if self.export is not None:
            _check_new_path(Path(self.export))
        model = None if self.body_model is None else smpl.load_smpl(Path(self.body_model))
        diffusion = None if self.refine is None else FigureDiffusion(Path(self.refine))
        segmenter = PersonSegmenter(private="person")
        landmarks = PoseLandmarks(parts=_list_search_parts(min(shape[1:3])))
        segmenter.load_networks()
        landmarks.load_networks()
        size = (shape[1], shape[2])
        study = AvatarStudy(
            self._make_avatar_plan(min(size)),
            masks=PersonMasks(segmenter=segmenter, hold=round(_HOLD_S * rate_hz)),
            landmarks=landmarks,
            watch=MissedPeopleWatch(
                segmenter, self._load_face_detector(), every=self.watch_every, size=size
            ),
            shape=shape,
            rate_hz=rate_hz,
            diffusion=diffusion,
            model=model,
        )
        try:
            study.look_and_fit(frames, noise)
        except BaseException:
            study.close()
            raise
        return study

    def stream(self, frames: Frames, shape: Shape, noise: Noise) -> Frames:
        """The frames with avatars; they wait on disk, in a file without a name, to come twice."""
        shape = as_video(shape)
        with Spool() as held:
            kept = _hold_frames(frames, held)
            with closing(self.first_pass(kept, shape, rate_hz=_RATE_HZ, noise=noise)) as study:
                again = (
                    np.frombuffer(held[at], np.uint8).reshape(shape[1:]) for at in range(len(held))
                )
                yield from study.stream(again, shape, noise)
                for said in count_people(study.receipt_counts, shape[0]):
                    progress.tell_owner(said)

    def _make_avatar_plan(self, side: int) -> AvatarPlan:
        from masquerade.avatars.scene import PeopleMargins
        from masquerade.avatars.study import AvatarPlan

        return AvatarPlan(
            margins=PeopleMargins(
                grow_px=round(self.grow * side),
                blend_px=round(self.blend * side),
                steady=self.steady,
            ),
            is_strict=self.strict,
            gait=self.gait,
            fov_deg=self.field_of_view,
            eye_m=self.eye_height,
            shadow=self.shadow,
            pose_module=_make_optional_path(self.pose_module),
            inpaint_module=_make_optional_path(self.inpaint_module),
            is_still_wanted=self.remove_moving,
            export=_make_optional_path(self.export),
        )

    def _load_face_detector(self) -> FaceDetector:
        from masquerade.vision.face_detector import OutputLayout, load_detector

        return load_detector(
            fetch_asset("centerface"),
            layout=OutputLayout.CENTERFACE,
            thresh=self.face_thresh,
            height=_FACE_LINES,
        )


def _list_search_parts(side: int) -> tuple[int, ...]:
    """In squares of which sizes people are sought; in small ones only where these show something.

    Example:
        >>> _list_search_parts(480), _list_search_parts(576)
        ((1, 2), (1, 2, 4))
    """
    return (1, 2, 4) if side // 4 >= _MIN_SQUARE_PX else (1, 2)


def _hold_frames(frames: Frames, held: Spool) -> Iterator[np.ndarray]:
    """The same frames, which are held, too."""
    for frame in frames:
        held.add_piece(np.ascontiguousarray(frame).tobytes())
        yield frame


def _make_optional_path(name: str | None) -> Path | None:
    return None if name is None else Path(name)


def _check_new_path(path: Path) -> None:
    """Refuse a path at which no new file can stand."""
    if not path.parent.is_dir():
        raise ValueError(f"Expected the folder {path.parent} to exist; make it first.")
    if path.exists():
        raise FileExistsError(f"{path} stands there already; choose another name for export.")
