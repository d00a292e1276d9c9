"""A figure that does what somebody in a film does, and is somebody else.

Who the figure is (stature, build, face, skin, hair, clothes) is drawn at random and owes nothing to
the person; only how the bones are turned and where the feet stand comes from the film. The figure
has its own stature: it stands where the person stood and is as large there as it would be, so its
height in the picture is not the person's.

Convention: metres, z up, the floor at z = 0; y away from the camera.

Walk as nobody walks: a public way of walking in place of the person's own.

Kept are when each foot goes ahead, the path and the speed, so that the film still shows the same
walk; how far each joint swings, its asymmetry, the sway of the trunk and the arms are of a walk
that is the same for everybody, and of the head only where it looks is kept. How fast steps follow
each other tells people apart as well: a uniform gait has a public rate too, and keeps path and
speed alone. Only stretches in which somebody walks are replaced.

Convention: metres, z up, the floor at z = 0; points as in ``inverse.POINTS``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache

import numpy as np

from masquerade import _check
from masquerade._optional import ndimage, scipy, spatial
from masquerade.avatars import lift
from masquerade.joints import JOINTS
from masquerade.stage import act, bodies, figure, look, skeleton
from masquerade.stage.bodies import BONES, Body, BodyModel, BodyShape
from masquerade.stage.raster import Camera
from masquerade.stage.skeleton import POINTS, BodyMotion, compute_bone_heads, normalise_vectors
from masquerade.vision.tracks import PersonTrack

_AT = {name: place for place, name in enumerate(POINTS)}
_APART_M = 0.12  # between feet, ahead and behind, by which a step is told
_STEP_S = (0.28, 1.0)  # how long a step takes
_PATH_S = 0.4  # seconds over which heading and steps are smoothed,
_SWAY_S = 2.2  # and the path: two strides, so that no sway of one's own is left
_FADE_S_GAIT = 0.12  # in which one's own way goes over into the public one
_REACH_GAIT = (0.12, 0.6)  # radians by which a thigh swings
_STRIDE_HZ = 0.95  # the public rate of strides
_SLOW = 0.3  # m/s: slower than this, steps say how far, as on a treadmill
_HEAD = [_AT[name] for name in ("nose", "left_ear", "right_ear")]
_WHICH = {"shoulder": "upperarm01", "elbow": "lowerarm01", "wrist": "wrist", "hip": "upperleg01"}
_WHICH |= {"knee": "lowerleg01", "ankle": "foot"}


class GaitSource(StrEnum):
    """Whose way of walking a figure has."""

    OWN = "own"
    PUBLIC = "public"
    UNIFORM = "uniform"


def make_gait_public(
    world: np.ndarray, stands: np.ndarray, *, rate_hz: float, is_uniform: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Points (T, P, 3) and which feet stand (T, 2), with walking made public; others as they are.

    Args:
        world: points (T, P, 3) over the floor.
        stands: (T, 2) which foot stands.
        rate_hz: frames a second.
        is_uniform: whether steps come at a public rate too, and only the first is kept.
    """
    heading = _estimate_heading(world, rate_hz)
    found = _estimate_stride_phase(world, heading, rate_hz)
    if found is None:
        return world, stands
    phase, is_walk = found
    if is_uniform:
        phase = _pace_phase(phase, is_walk, rate_hz)
    part = ndimage.gaussian_filter1d(is_walk.astype(float), _FADE_S_GAIT * rate_hz, mode="nearest")[
        :, None, None
    ]
    other = _walked_gait(world, heading, phase, rate_hz)
    steps = _find_public_stance(phase)
    return (
        np.asarray(world + part * (other - world)),
        np.where(is_walk[:, None], steps, stands),
    )


def _estimate_heading(world: np.ndarray, rate_hz: float) -> np.ndarray:
    """(T, 2) where hips and shoulders face, smoothed."""
    across = sum(
        world[:, _AT[f"left_{part}"], :2] - world[:, _AT[f"right_{part}"], :2]
        for part in ("hip", "shoulder")
    )
    ahead = np.stack([across[:, 1], -across[:, 0]], axis=1)  # left turned right by a quarter
    return _normalise_planar(
        ndimage.gaussian_filter1d(ahead, _PATH_S * rate_hz, axis=0, mode="nearest")
    )


def _normalise_planar(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9))


def _estimate_stride_phase(
    world: np.ndarray, heading: np.ndarray, rate_hz: float
) -> tuple[np.ndarray, np.ndarray] | None:
    """The phase of the stride (T,), and in which frames somebody walks; None if nowhere."""
    from scipy.signal import find_peaks  # half a second, which those who walk as they do can spare

    apart = world[:, _AT["left_ankle"], :2] - world[:, _AT["right_ankle"], :2]
    ahead = ndimage.gaussian_filter1d((apart * heading).sum(axis=1), 0.05 * rate_hz, mode="nearest")
    least = max(1, round(_STEP_S[0] * rate_hz))
    tops, _ = find_peaks(ahead, prominence=_APART_M, distance=least)
    lows, _ = find_peaks(-ahead, prominence=_APART_M, distance=least)
    turns = sorted([(int(t), 1) for t in tops] + [(int(t), 0) for t in lows])
    turns = [each for k, each in enumerate(turns) if k == 0 or each[1] != turns[k - 1][1]]
    if len(turns) < 3:
        return None
    times = np.array([at for at, _ in turns], float)
    marks = np.pi * (np.arange(len(turns)) + turns[0][1])  # the left foot is ahead at odd ones
    gaps = np.diff(times)
    is_step = (gaps >= _STEP_S[0] * rate_hz) & (gaps <= _STEP_S[1] * rate_hz)
    is_walk = np.zeros(len(world), bool)
    for number, good in enumerate(is_step):
        if good:
            is_walk[int(times[number]) : int(times[number + 1]) + 1] = True
    if not is_walk.any():
        return None
    usual = float(np.median(gaps[is_step]))
    for edge, way in ((times[0], -1), (times[-1], 1)):  # a step more at both ends
        if is_step[0 if way < 0 else -1]:
            end = edge + way * 1.5 * usual
            is_cut = not 0 <= end < len(world)  # they walk out of the film
            rows = np.clip([edge, end if is_cut else edge + way * usual], 0, len(world) - 1)
            is_walk[int(rows.min()) : int(rows.max()) + 1] = True
    times = np.concatenate([times[:1] - 2 * usual, times, times[-1:] + 2 * usual])
    marks = np.concatenate([marks[:1] - 2 * np.pi, marks, marks[-1:] + 2 * np.pi])
    at = np.clip(np.arange(len(world)), times[0], times[-1])
    return np.asarray(scipy.interpolate.PchipInterpolator(times, marks)(at)), is_walk


def _pace_phase(phase: np.ndarray, is_walk: np.ndarray, rate_hz: float) -> np.ndarray:
    """The phase (T,) as it goes on from the beginning of each walk at a public rate."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], is_walk.astype(int), [0]])))
    found = phase.copy()
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        found[start:stop] = (
            phase[start] + _STRIDE_HZ * 2 * np.pi * np.arange(stop - start) / rate_hz
        )
    return found


def _find_public_stance(phase: np.ndarray) -> np.ndarray:
    """(T, 2) which foot stands in the public walk: while its thigh goes back."""
    turns = np.stack([phase, phase + np.pi], axis=1) % (2 * np.pi)
    return np.asarray((turns > np.pi - 0.1) & (turns < 2 * np.pi - 0.1))


@cache
def _make_public_walker() -> tuple[Body, float]:
    """The body whose walk is the public one, and the length of its legs."""
    body = bodies.load_body_model().make_body(BodyShape())
    hip, foot = (body.heads[BONES.index(f"{bone}.L")] for bone in ("upperleg01", "foot"))
    return body, float(np.linalg.norm(hip - foot))


def _walked_gait(
    world: np.ndarray, heading: np.ndarray, phase: np.ndarray, rate_hz: float
) -> np.ndarray:
    """Points of the public walk on the path of a person, at the person's scale."""
    body, leg = _make_public_walker()
    at = {name: world[:, place] for place, name in enumerate(POINTS)}
    own = np.median(
        np.linalg.norm(at["left_hip"] - at["left_knee"], axis=1)
        + np.linalg.norm(at["left_knee"] - at["left_ankle"], axis=1)
    )
    scale = float(own) / leg
    hips = (at["left_hip"] + at["right_hip"]) / 2
    path = _smooth_path(hips[:, :2], rate_hz)
    reach = _compute_thigh_reach(at, path, heading, phase, float(own), rate_hz)
    along = np.unwrap(np.arctan2(heading[:, 0], -heading[:, 1]))
    turns = skeleton.compute_bone_turns(act.compute_usual_walk(phase, reach), body, along)
    heads = skeleton.compute_bone_heads(turns, body)
    feet, _ = skeleton.compute_contacts(turns, heads, body)
    height = ndimage.gaussian_filter1d(
        -feet[..., 2].min(axis=(1, 2)), 0.05 * rate_hz, mode="nearest"
    )
    middle = heads[:, [BONES.index("upperleg01.L"), BONES.index("upperleg01.R")]].mean(axis=1)
    root = np.column_stack([path / scale - middle[:, :2], height])[:, None]
    found = np.empty_like(world)
    for number, (side, letter) in enumerate((("left", "L"), ("right", "R"))):
        for part, bone in _WHICH.items():
            found[:, _AT[f"{side}_{part}"]] = heads[:, BONES.index(f"{bone}.{letter}")]
        found[:, _AT[f"{side}_heel"]] = feet[:, number, 0]
        found[:, _AT[f"{side}_toe"]] = feet[:, number, 2]
        elbow, wrist = (found[:, _AT[f"{side}_{part}"]] for part in ("elbow", "wrist"))
        found[:, _AT[f"{side}_hand"]] = wrist + 0.09 * normalise_vectors(wrist - elbow)
    found = (found + root) * scale
    found[:, _HEAD] = (
        _turn_public_head(world, heading, BodyMotion(turns=turns, heads=heads + root), rate_hz)
        * scale
    )
    return np.asarray(found)


def _turn_public_head(
    world: np.ndarray, heading: np.ndarray, posed: BodyMotion, rate_hz: float
) -> np.ndarray:
    """(T, 3, 3) the public head, turned to where the person looks: that is not gait."""
    model, (body, _) = bodies.load_body_model(), _make_public_walker()
    names = [JOINTS.index(POINTS[place]) for place in _HEAD]
    bones = np.array([bone for bone, _ in model.joint_places])
    put = posed.carry_points(model.compute_rest_joints(body), body.heads, bones)[:, names]
    nose, left, right = (world[:, place, :2] for place in _HEAD)
    look = nose - (left + right) / 2
    aside = np.arctan2(look[:, 1], look[:, 0]) - np.arctan2(heading[:, 1], heading[:, 0])
    aside = ndimage.gaussian_filter1d(np.unwrap(aside), _PATH_S * rate_hz, mode="nearest")
    middle = put[:, 1:].mean(axis=1, keepdims=True)
    turn = spatial.transform.Rotation.from_rotvec(np.outer(aside, [0.0, 0.0, 1.0])).as_matrix()
    return np.asarray(middle + (put - middle) @ np.swapaxes(turn, 1, 2))


def _smooth_path(path: np.ndarray, rate_hz: float) -> np.ndarray:
    """A path (T, 2) without the sway of steps; neither late nor short at its ends."""
    from scipy.signal import savgol_filter  # late, as above

    width = min(round(_SWAY_S * rate_hz) // 2 * 2 + 1, (len(path) - 1) // 2 * 2 + 1)
    return np.asarray(savgol_filter(path, width, 2, axis=0)) if width > 3 else path


def _compute_thigh_reach(
    at: dict[str, np.ndarray],
    path: np.ndarray,
    heading: np.ndarray,
    phase: np.ndarray,
    leg: float,
    rate_hz: float,
) -> np.ndarray:
    """(T,) how far thighs swing so that the feet go as far as the hips do."""
    speed = np.linalg.norm(np.gradient(path, axis=0), axis=1) * rate_hz
    stride_s = 2 * np.pi / np.maximum(np.gradient(phase) * rate_hz, 1.0)
    stride_s = ndimage.gaussian_filter1d(stride_s, _PATH_S * rate_hz, mode="nearest")
    apart = ((at["left_ankle"] - at["right_ankle"])[:, :2] * heading).sum(axis=1)
    step = np.sqrt(2 * ndimage.gaussian_filter1d(apart**2, 2 * _PATH_S * rate_hz, mode="nearest"))
    way = np.where(speed > _SLOW, speed * stride_s / 2, step)
    found = np.arcsin(np.clip(way / (2 * leg), 0, 0.9))
    smooth = ndimage.gaussian_filter1d(found, _PATH_S * rate_hz, mode="nearest")
    return np.asarray(np.clip(smooth, *_REACH_GAIT))


_SIDES = (("left", "L"), ("right", "R"))
_SCALES = (0.7, 1.4)  # of usual stature; who were smaller or larger stands on something else
_MAX_SITTING_HEIGHT, _MIN_STANDING_HEIGHT = 0.55, 0.85  # how high hips are over the floor, in legs
_MAX_LYING_HEIGHT = 0.33  # the same of somebody who lies, whose feet hold nothing
_STEP_M = 0.15  # whose feet are higher than this does not stand on the floor but on something
_EASE_S = 0.12  # seconds in which a foot comes to stand
_FADE_S_BODY = 0.5  # seconds after which a foot in the air goes its own way
_SMOOTH_S = 0.03  # seconds over which turns and feet are smoothed,
_HEAD_S = 0.08  # and a head, whose points lie near each other
_REACH_BODY = 0.998  # of a leg's length: farther away, the hips come down
_SHAKE = 0.25  # radians by which a straight knee seems bent, as what is seen of it shakes
_THICK = {"root": 0.10, "spine02": 0.11, "spine01": 0.11, "head": 0.10, "lowerleg01": 0.05}


@dataclass(frozen=True, kw_only=True, eq=False)
class StandIn:
    """Somebody made up who moves as a person in the film.

    Args:
        start: the first frame.
        stop: the frame after the last.
        shape: of the body.
        look: of skin, hair and clothes.
        person: both, ready to be drawn.
        posed: (T rows, float32) where the bones are.
        trust: (T,) how well the person was seen, from 0 to 1.
        hidden: (T, 2) bool, whether something hides the left and the right leg; None if nothing.
    """

    start: int
    stop: int
    shape: BodyShape
    look: look.PersonAppearance
    person: figure.Person
    posed: BodyMotion
    trust: np.ndarray
    hidden: np.ndarray | None = None

    def find_hidden_legs(self, number: int) -> np.ndarray:
        """(2,) bool: whether the left and the right leg are hidden in a frame of the film."""
        if self.hidden is None or not self.start <= number < self.stop:
            return np.zeros(2, bool)
        return np.asarray(self.hidden[number - self.start])


def fit_figure(
    track: PersonTrack,
    camera: Camera,
    rng: np.random.Generator,
    *,
    rate_hz: float,
    gait: str = "own",
    model: BodyModel | None = None,
) -> StandIn:
    """Somebody drawn at random who does what the person of the track does.

    Args:
        track: whose movement.
        camera: of the film, see ``floor.camera_of``.
        rng: who the figure is; from the operating system, so that nobody can draw it again.
        rate_hz: frames a second.
        gait: own, the person's way of walking; public, the same for everybody but for when steps
            are taken; or uniform, steps at a public rate too.
        model: of bodies; Anny if not given.
    """
    _check.parse_choice(GaitSource, gait=gait)
    model = model or bodies.load_body_model()
    shape = bodies.sample_body_shape(rng, num_betas=model.num_betas)
    worn = look.sample_appearance(is_feminine=bodies.is_feminine(shape), age=shape.age, rng=rng)
    body = model.make_body(shape)
    posed = move_body(track, camera, (model, body), rate_hz=rate_hz, gait=GaitSource(gait))
    return StandIn(
        start=track.start,
        stop=track.stop_frame,
        shape=shape,
        look=worn,
        person=figure.make_person(model, body, worn),
        posed=BodyMotion(
            turns=posed.turns.astype(np.float32), heads=posed.heads.astype(np.float32)
        ),
        trust=track.joints[..., 2].mean(axis=1).astype(np.float32),
    )


def move_body(
    track: PersonTrack,
    camera: Camera,
    of: tuple[BodyModel, Body],
    *,
    rate_hz: float,
    gait: GaitSource = GaitSource.OWN,
) -> BodyMotion:
    """How a body of a model moves that does what the person does, or walks as everybody."""
    model, body = of
    points = lift.lift_track(track, camera, rate_hz=rate_hz)
    stands = lift.find_standing_feet(track, points, rate_hz=rate_hz)
    world = move_to_floor(points, stands, camera)
    if gait is not GaitSource.OWN:
        is_uniform = gait is GaitSource.UNIFORM
        world, stands = make_gait_public(world, stands, rate_hz=rate_hz, is_uniform=is_uniform)
    turns = skeleton.compute_upper_body_turns(world, model, body)
    turns = skeleton.steady_turns(turns, _SMOOTH_S * rate_hz)
    head = [BONES.index("neck01"), BONES.index("head")]
    turns[:, head] = skeleton.steady_turns(turns[:, head], _HEAD_S * rate_hz)
    return _walked_body(world, stands, turns, body, rate_hz)


def move_to_floor(points: np.ndarray, stands: np.ndarray, camera: Camera) -> np.ndarray:
    """(T, P, 3): what the camera sees (T, P, 3), so far away that feet that stand are at z = 0."""
    below = (points @ camera.view_axes)[..., 2]  # under the eye, so mostly negative
    soles = np.stack([below[:, _list_foot_points(side)].min(axis=1) for side, _ in _SIDES], axis=1)
    eye, scale = camera.eye[2], 1.0
    if stands.any():
        scale = eye / max(-float(np.median(soles[stands])), 1e-3)
        scale = scale if _SCALES[0] <= scale <= _SCALES[1] else 1.0
    return np.asarray(scale * points @ camera.view_axes + np.asarray(camera.eye))


def _list_foot_points(side: str) -> list[int]:
    return [_AT[f"{side}_heel"], _AT[f"{side}_toe"]]


def _walked_body(
    world: np.ndarray, stands: np.ndarray, turns: np.ndarray, body: Body, rate_hz: float
) -> BodyMotion:
    """Hips, legs and feet of the body's own size, standing where the person stands."""
    at = {name: world[:, place] for place, name in enumerate(POINTS)}
    ankle_m = body.heads[BONES.index("foot.L"), 2] - body.vertices[:, 2].min()
    legs = {letter: _measure_leg_lengths(body, letter) for _, letter in _SIDES}
    own_leg = float(np.mean([sum(each) for each in legs.values()])) + ankle_m
    hips = (at["left_hip"] + at["right_hip"]) / 2
    leg, ground = _estimate_leg_length(at), _estimate_ground_height(at, stands)
    stands = stands & ((hips[:, 2] - ground) > _MAX_LYING_HEIGHT * leg)[:, None]
    share = np.clip(
        ((hips[:, 2] - ground) / leg - _MAX_SITTING_HEIGHT)
        / (_MIN_STANDING_HEIGHT - _MAX_SITTING_HEIGHT),
        0,
        1,
    )
    share = share * share * (3 - 2 * share)
    hips[:, 2] += (hips[:, 2] - ground) * (own_leg / leg - 1) * share
    offsets = _hip_offsets(turns, body)
    ways = {letter: _compute_ankle_way(at, side, legs[letter]) for side, letter in _SIDES}
    below = np.stack([(offsets[letter] + ways[letter])[:, 2] for _, letter in _SIDES], axis=1)
    hips[:, 2] += share * _compute_hip_rise(hips[:, 2:] + below - ground - ankle_m, stands)
    goals, wanted = {}, np.zeros(len(world))
    for number, (side, letter) in enumerate(_SIDES):
        hip = hips + offsets[letter]
        thigh = normalise_vectors(at[f"{side}_knee"] - at[f"{side}_hip"])
        free = hip + ways[letter]
        goal, holds = _hold_ankle(free, at, side, stands[:, number], ground + ankle_m, rate_hz)
        flat = np.linalg.norm((goal - hip)[:, :2], axis=1)
        reach = np.sqrt(np.maximum((_REACH_BODY * sum(legs[letter])) ** 2 - flat**2, 0.01))
        wanted = np.maximum(wanted, holds * (hip[:, 2] - goal[:, 2] - reach))
        goals[letter] = goal, hip + legs[letter][0] * thigh, holds
    hips[:, 2] -= _ease_drop(wanted, rate_hz)
    ahead = (turns[:, BONES.index("root")] @ np.array([0.0, -1.0, 0.0])).copy()
    for side, letter in _SIDES:
        goal, knee, holds = goals[letter]
        hip = hips + offsets[letter]
        knee = skeleton.bend_knee(hip, goal, knee, ahead, np.array(legs[letter]))
        ankle = knee + legs[letter][1] * normalise_vectors(goal - knee)
        toe = at[f"{side}_toe"] - at[f"{side}_heel"]
        level = toe * [1, 1, 0]
        toe = normalise_vectors(
            normalise_vectors(toe)
            + holds[:, None] * (normalise_vectors(level) - normalise_vectors(toe))
        )
        skeleton.put_leg(turns, body, letter, (hip, knee, ankle), toe)
    heads = compute_bone_heads(turns, body)
    middle = (heads[:, BONES.index("upperleg01.L")] + heads[:, BONES.index("upperleg01.R")]) / 2
    heads = heads + (hips - middle)[:, None]
    return BodyMotion(turns=turns, heads=heads + _compute_lift(heads, rate_hz)[:, None])


def _measure_leg_lengths(body: Body, letter: str) -> tuple[float, float]:
    """Of thigh and shank."""
    upper, lower, foot = (
        body.heads[BONES.index(f"{bone}.{letter}")] for bone in ("upperleg01", "lowerleg01", "foot")
    )
    return float(np.linalg.norm(lower - upper)), float(np.linalg.norm(foot - lower))


def _compute_ankle_way(
    at: dict[str, np.ndarray], side: str, lengths: tuple[float, float]
) -> np.ndarray:
    """(T, 3) from a hip to its ankle on legs of these lengths, the knee bent as the person's.

    What shakes makes a straight knee seem bent and none seem straighter; that much is taken off.
    """
    hip, knee, ankle = (at[f"{side}_{part}"] for part in ("hip", "knee", "ankle"))
    thigh, shank = normalise_vectors(knee - hip), normalise_vectors(ankle - knee)
    bend = np.arccos(np.clip((thigh * shank).sum(axis=1), -1, 1))
    bend = np.sqrt(np.maximum(bend**2 - _SHAKE**2, 0.0))
    upper, lower = lengths
    far = np.sqrt(upper**2 + lower**2 + 2 * upper * lower * np.cos(bend))
    return np.asarray(far[:, None] * normalise_vectors(upper * thigh + lower * shank))


def _compute_hip_rise(high: np.ndarray, stands: np.ndarray) -> float:
    """By how much hips rise so that feet which stand, and are so high (T, 2), mostly do so."""
    return -float(np.median(high[stands])) if stands.any() else 0.0


def _hip_offsets(turns: np.ndarray, body: Body) -> dict[str, np.ndarray]:
    """(T, 3) from the middle of the hips to each."""
    left, right = (body.heads[BONES.index(f"upperleg01.{letter}")] for letter in "LR")
    half = turns[:, BONES.index("root")] @ ((left - right) / 2)
    return {"L": half, "R": -half}


def _estimate_leg_length(at: dict[str, np.ndarray]) -> float:
    """How long the person's legs are, to the sole, at the scale of the film."""
    parts = [
        np.linalg.norm(at[f"{side}_{a}"] - at[f"{side}_{b}"], axis=1)
        for side, _ in _SIDES
        for a, b in (("hip", "knee"), ("knee", "ankle"))
    ]
    return float(np.median(sum(parts)) / 2 * 1.09)


def _estimate_ground_height(at: dict[str, np.ndarray], stands: np.ndarray) -> float:
    """The height on which this person stands: 0, unless it is clearly something else."""
    soles = np.stack(
        [np.minimum(at[f"{s}_heel"][:, 2], at[f"{s}_toe"][:, 2]) for s, _ in _SIDES], axis=1
    )
    height = float(np.median(soles[stands])) if stands.any() else float(np.percentile(soles, 10))
    return height if abs(height) > _STEP_M else 0.0


def _hold_ankle(
    free: np.ndarray,
    at: dict[str, np.ndarray],
    side: str,
    stands: np.ndarray,
    ground: float,
    rate_hz: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Where an ankle goes (T, 3): fixed while the foot stands, its own way in between.

    Also (T,) how much it is held, from 0 to 1.
    """
    times = np.arange(len(free))
    edges = np.flatnonzero(np.diff(np.concatenate([[0], stands.astype(int), [0]])))
    if not len(edges):
        return free, np.zeros(len(free))
    ankle = at[f"{side}_ankle"]
    shift, known = np.zeros_like(free), np.zeros(len(free), bool)
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        rows = slice(start, stop)
        stood = np.median(ankle[rows], axis=0)
        # Whoever shuffles or is followed by a camera slides slowly; that much is kept.
        slow = ndimage.gaussian_filter1d(ankle[rows], 0.5 * rate_hz, axis=0, mode="nearest")
        spot = slow if stop - start > rate_hz else np.broadcast_to(stood, slow.shape)
        low = ground if abs(stood[2] - ground) < _STEP_M else stood[2]
        shift[rows] = np.column_stack([spot[:, :2], np.full(stop - start, low)]) - free[rows]
        known[rows] = True
    have = np.flatnonzero(known)
    bridged = np.stack([np.interp(times, have, column[have]) for column in shift.T], axis=1)
    before = np.maximum.accumulate(np.where(known, times, -(10**9)))
    after = np.minimum.accumulate(np.where(known, times, 10**9)[::-1])[::-1]
    between = (before > -(10**8)) & (after < 10**8) & (after - before < 1.2 * rate_hz)
    away = np.minimum(times - before, after - times) / rate_hz
    part = np.where(between, 1.0, np.exp(-np.clip(away, 0, 50) / _FADE_S_BODY * 3))
    holds = ndimage.gaussian_filter1d(known.astype(float), _EASE_S * rate_hz / 2, mode="nearest")
    goal = free + part[:, None] * bridged
    goal = ndimage.gaussian_filter1d(goal, _SMOOTH_S * rate_hz, axis=0, mode="nearest")
    return goal, np.clip(holds, 0, 1)


def _ease_drop(drop: np.ndarray, rate_hz: float) -> np.ndarray:
    """A drop of at least so much, that comes and goes gently."""
    width = max(1, round(_EASE_S * rate_hz))
    most = ndimage.maximum_filter1d(np.maximum(drop, 0), 2 * width + 1, mode="nearest")
    return np.asarray(ndimage.gaussian_filter1d(most, width / 2, mode="nearest"))


def _compute_lift(heads: np.ndarray, rate_hz: float) -> np.ndarray:
    """(T, 3) by how much a body that lies has to be lifted so as not to sink into the floor."""
    names = [name for name in BONES if name.partition(".")[0] in _THICK]
    low = np.min([heads[:, BONES.index(n), 2] - _THICK[n.partition(".")[0]] for n in names], axis=0)
    return np.outer(_ease_drop(-low - 0.02, rate_hz), [0.0, 0.0, 1.0])
