"""A figure that does what somebody in a film does, and is somebody else.

Who the figure is (stature, build, face, skin, hair, clothes) is drawn at random and owes nothing to
the person; only how the bones are turned and where the feet stand comes from the film. The figure
has its own stature: it stands where the person stood and is as large there as it would be, so its
height in the picture is not the person's.

Convention: metres, z up, the floor at z = 0; y away from the camera.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade import _check
from masquerade._optional import ndimage
from masquerade.avatars import lift
from masquerade.avatars.gait import Gait, public
from masquerade.stage import bodies, figure, inverse, look
from masquerade.stage.bodies import BONES, Body, Model, Shape
from masquerade.stage.inverse import POINTS, unit
from masquerade.stage.raster import Camera
from masquerade.stage.skeleton import Posed, chain
from masquerade.vision.person_tracks import Track

_AT = {name: place for place, name in enumerate(POINTS)}
_SIDES = (("left", "L"), ("right", "R"))
_SCALES = (0.7, 1.4)  # of usual stature; who were smaller or larger stands on something else
_SITS, _STANDS = 0.55, 0.85  # how high hips are over the floor, in legs
_LIES = 0.33  # the same of somebody who lies, whose feet hold nothing
_STEP_M = 0.15  # whose feet are higher than this does not stand on the floor but on something
_EASE_S = 0.12  # seconds in which a foot comes to stand
_FADE_S = 0.5  # seconds after which a foot in the air goes its own way
_SMOOTH_S = 0.03  # seconds over which turns and feet are smoothed,
_HEAD_S = 0.08  # and a head, whose points lie near each other
_REACH = 0.998  # of a leg's length: farther away, the hips come down
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
    shape: Shape
    look: look.Look
    person: figure.Person
    posed: Posed
    trust: np.ndarray
    hidden: np.ndarray | None = None

    def hidden_at(self, number: int) -> np.ndarray:
        """(2,) bool: whether the left and the right leg are hidden in a frame of the film."""
        if self.hidden is None or not self.start <= number < self.stop:
            return np.zeros(2, bool)
        return np.asarray(self.hidden[number - self.start])


def fitted(
    track: Track,
    camera: Camera,
    rng: np.random.Generator,
    *,
    rate_hz: float,
    gait: str = "own",
    model: Model | None = None,
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
    _check.choice(Gait, gait=gait)
    model = model or bodies.model()
    shape = bodies.any_shape(rng, num_betas=model.num_betas)
    worn = look.any_look(is_feminine=bodies.is_feminine(shape), age=shape.age, rng=rng)
    body = model.body(shape)
    posed = moved(track, camera, (model, body), rate_hz=rate_hz, gait=Gait(gait))
    return StandIn(
        start=track.start,
        stop=track.stop,
        shape=shape,
        look=worn,
        person=figure.figure(model, body, worn),
        posed=Posed(turns=posed.turns.astype(np.float32), heads=posed.heads.astype(np.float32)),
        trust=track.joints[..., 2].mean(axis=1).astype(np.float32),
    )


def moved(
    track: Track, camera: Camera, of: tuple[Model, Body], *, rate_hz: float, gait: Gait = Gait.OWN
) -> Posed:
    """How a body of a model moves that does what the person does, or walks as everybody."""
    model, body = of
    points = lift.lifted(track, camera, rate_hz=rate_hz)
    stands = lift.standing(track, points, rate_hz=rate_hz)
    world = on_floor(points, stands, camera)
    if gait is not Gait.OWN:
        is_uniform = gait is Gait.UNIFORM
        world, stands = public(world, stands, rate_hz=rate_hz, is_uniform=is_uniform)
    turns = inverse.upper_body(world, model, body)
    turns = inverse.steadied(turns, _SMOOTH_S * rate_hz)
    head = [BONES.index("neck01"), BONES.index("head")]
    turns[:, head] = inverse.steadied(turns[:, head], _HEAD_S * rate_hz)
    return _walked(world, stands, turns, body, rate_hz)


def on_floor(points: np.ndarray, stands: np.ndarray, camera: Camera) -> np.ndarray:
    """(T, P, 3): what the camera sees (T, P, 3), so far away that feet that stand are at z = 0."""
    below = (points @ camera.axes)[..., 2]  # under the eye, so mostly negative
    soles = np.stack([below[:, _feet(side)].min(axis=1) for side, _ in _SIDES], axis=1)
    eye, scale = camera.eye[2], 1.0
    if stands.any():
        scale = eye / max(-float(np.median(soles[stands])), 1e-3)
        scale = scale if _SCALES[0] <= scale <= _SCALES[1] else 1.0
    return np.asarray(scale * points @ camera.axes + np.asarray(camera.eye))


def _feet(side: str) -> list[int]:
    return [_AT[f"{side}_heel"], _AT[f"{side}_toe"]]


def _walked(
    world: np.ndarray, stands: np.ndarray, turns: np.ndarray, body: Body, rate_hz: float
) -> Posed:
    """Hips, legs and feet of the body's own size, standing where the person stands."""
    at = {name: world[:, place] for place, name in enumerate(POINTS)}
    ankle_m = body.heads[BONES.index("foot.L"), 2] - body.vertices[:, 2].min()
    legs = {letter: _lengths(body, letter) for _, letter in _SIDES}
    own_leg = float(np.mean([sum(each) for each in legs.values()])) + ankle_m
    hips = (at["left_hip"] + at["right_hip"]) / 2
    leg, ground = _leg(at), _ground(at, stands)
    stands = stands & ((hips[:, 2] - ground) > _LIES * leg)[:, None]
    share = np.clip(((hips[:, 2] - ground) / leg - _SITS) / (_STANDS - _SITS), 0, 1)
    share = share * share * (3 - 2 * share)
    hips[:, 2] += (hips[:, 2] - ground) * (own_leg / leg - 1) * share
    offsets = _hip_offsets(turns, body)
    ways = {letter: _way(at, side, legs[letter]) for side, letter in _SIDES}
    below = np.stack([(offsets[letter] + ways[letter])[:, 2] for _, letter in _SIDES], axis=1)
    hips[:, 2] += share * _rise(hips[:, 2:] + below - ground - ankle_m, stands)
    goals, wanted = {}, np.zeros(len(world))
    for number, (side, letter) in enumerate(_SIDES):
        hip = hips + offsets[letter]
        thigh = unit(at[f"{side}_knee"] - at[f"{side}_hip"])
        free = hip + ways[letter]
        goal, holds = _held(free, at, side, stands[:, number], ground + ankle_m, rate_hz)
        flat = np.linalg.norm((goal - hip)[:, :2], axis=1)
        reach = np.sqrt(np.maximum((_REACH * sum(legs[letter])) ** 2 - flat**2, 0.01))
        wanted = np.maximum(wanted, holds * (hip[:, 2] - goal[:, 2] - reach))
        goals[letter] = goal, hip + legs[letter][0] * thigh, holds
    hips[:, 2] -= _eased(wanted, rate_hz)
    ahead = (turns[:, BONES.index("root")] @ np.array([0.0, -1.0, 0.0])).copy()
    for side, letter in _SIDES:
        goal, knee, holds = goals[letter]
        hip = hips + offsets[letter]
        knee = inverse.bent(hip, goal, knee, ahead, np.array(legs[letter]))
        ankle = knee + legs[letter][1] * unit(goal - knee)
        toe = at[f"{side}_toe"] - at[f"{side}_heel"]
        level = toe * [1, 1, 0]
        toe = unit(unit(toe) + holds[:, None] * (unit(level) - unit(toe)))
        inverse.put_leg(turns, body, letter, (hip, knee, ankle), toe)
    heads = chain(turns, body)
    middle = (heads[:, BONES.index("upperleg01.L")] + heads[:, BONES.index("upperleg01.R")]) / 2
    heads = heads + (hips - middle)[:, None]
    return Posed(turns=turns, heads=heads + _raised(heads, rate_hz)[:, None])


def _lengths(body: Body, letter: str) -> tuple[float, float]:
    """Of thigh and shank."""
    upper, lower, foot = (
        body.heads[BONES.index(f"{bone}.{letter}")] for bone in ("upperleg01", "lowerleg01", "foot")
    )
    return float(np.linalg.norm(lower - upper)), float(np.linalg.norm(foot - lower))


def _way(at: dict[str, np.ndarray], side: str, lengths: tuple[float, float]) -> np.ndarray:
    """(T, 3) from a hip to its ankle on legs of these lengths, the knee bent as the person's.

    What shakes makes a straight knee seem bent and none seem straighter; that much is taken off.
    """
    hip, knee, ankle = (at[f"{side}_{part}"] for part in ("hip", "knee", "ankle"))
    thigh, shank = unit(knee - hip), unit(ankle - knee)
    bend = np.arccos(np.clip((thigh * shank).sum(axis=1), -1, 1))
    bend = np.sqrt(np.maximum(bend**2 - _SHAKE**2, 0.0))
    upper, lower = lengths
    far = np.sqrt(upper**2 + lower**2 + 2 * upper * lower * np.cos(bend))
    return np.asarray(far[:, None] * unit(upper * thigh + lower * shank))


def _rise(high: np.ndarray, stands: np.ndarray) -> float:
    """By how much hips rise so that feet which stand, and are so high (T, 2), mostly do so."""
    return -float(np.median(high[stands])) if stands.any() else 0.0


def _hip_offsets(turns: np.ndarray, body: Body) -> dict[str, np.ndarray]:
    """(T, 3) from the middle of the hips to each."""
    left, right = (body.heads[BONES.index(f"upperleg01.{letter}")] for letter in "LR")
    half = turns[:, BONES.index("root")] @ ((left - right) / 2)
    return {"L": half, "R": -half}


def _leg(at: dict[str, np.ndarray]) -> float:
    """How long the person's legs are, to the sole, at the scale of the film."""
    parts = [
        np.linalg.norm(at[f"{side}_{a}"] - at[f"{side}_{b}"], axis=1)
        for side, _ in _SIDES
        for a, b in (("hip", "knee"), ("knee", "ankle"))
    ]
    return float(np.median(sum(parts)) / 2 * 1.09)


def _ground(at: dict[str, np.ndarray], stands: np.ndarray) -> float:
    """The height on which this person stands: 0, unless it is clearly something else."""
    soles = np.stack(
        [np.minimum(at[f"{s}_heel"][:, 2], at[f"{s}_toe"][:, 2]) for s, _ in _SIDES], axis=1
    )
    height = float(np.median(soles[stands])) if stands.any() else float(np.percentile(soles, 10))
    return height if abs(height) > _STEP_M else 0.0


def _held(
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
    part = np.where(between, 1.0, np.exp(-np.clip(away, 0, 50) / _FADE_S * 3))
    holds = ndimage.gaussian_filter1d(known.astype(float), _EASE_S * rate_hz / 2, mode="nearest")
    goal = free + part[:, None] * bridged
    goal = ndimage.gaussian_filter1d(goal, _SMOOTH_S * rate_hz, axis=0, mode="nearest")
    return goal, np.clip(holds, 0, 1)


def _eased(drop: np.ndarray, rate_hz: float) -> np.ndarray:
    """A drop of at least so much, that comes and goes gently."""
    width = max(1, round(_EASE_S * rate_hz))
    most = ndimage.maximum_filter1d(np.maximum(drop, 0), 2 * width + 1, mode="nearest")
    return np.asarray(ndimage.gaussian_filter1d(most, width / 2, mode="nearest"))


def _raised(heads: np.ndarray, rate_hz: float) -> np.ndarray:
    """(T, 3) by how much a body that lies has to be lifted so as not to sink into the floor."""
    names = [name for name in BONES if name.partition(".")[0] in _THICK]
    low = np.min([heads[:, BONES.index(n), 2] - _THICK[n.partition(".")[0]] for n in names], axis=0)
    return np.outer(_eased(-low - 0.02, rate_hz), [0.0, 0.0, 1.0])
