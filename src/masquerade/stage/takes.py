"""Makes one recording from its plan: a film, a photo, or what a person's sensors read.

What worn sensors read: accelerometer and gyroscope from the same motion that is filmed.

An accelerometer feels gravity's reaction: at rest it reads 9.81 upward. A sensor sits on its limb
a little askew, has a small bias, jitter and a limited range.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from masquerade import _check
from masquerade._optional import ndimage, spatial
from masquerade.stage import backdrop, bodies, figure, motion, places, plan, skeleton
from masquerade.stage.bodies import BONES, Body
from masquerade.stage.plan import Take, WorldPlan
from masquerade.stage.raster import Camera, Light
from masquerade.stage.skeleton import RATE_HZ, Posed

GRAVITY = 9.81
SITES = {"wrist": "lowerarm01.{}", "ankle": "lowerleg01.{}", "chest": "spine01"}
AXES = ("x", "y", "z")
_ALONG = 0.85  # of the way to the next joint
_RANGE = 16 * GRAVITY
_EDGE_S = 0.4  # at either end, cut off: smoothing knows nothing beyond


@dataclass(frozen=True, kw_only=True)
class Mount:
    """How a person wears the sensors.

    Args:
        is_left: on which arm and leg.
        askew: rotation vector of each site's sensor against its limb, in radians.
        bias: of each channel: m/s2 for three, rad/s for three.
        jitter: standard deviation of m/s2 and rad/s.
    """

    is_left: bool
    askew: tuple[tuple[float, float, float], ...]
    bias: tuple[tuple[float, ...], ...]
    jitter: tuple[float, float] = (0.4, 0.08)


def any_mount(*, is_left: bool, rng: np.random.Generator) -> Mount:
    """A way of wearing them, for someone whose left hand does things or whose right hand does.

    The strap slips round the limb, and one in ten uses the other hand.
    """
    count = len(SITES)
    slipped = rng.normal(0, 0.25, (count, 3)) + rng.uniform(-1, 1, (count, 1)) * [0.0, 0.0, 0.8]
    bias = rng.normal(0, 1, (count, 6)) * np.repeat([0.25, 0.05], 3)
    return Mount(
        is_left=is_left == bool(rng.random() < 0.9),
        askew=tuple(tuple(row) for row in slipped.tolist()),
        bias=tuple(tuple(row) for row in bias.tolist()),
    )


def channels() -> tuple[str, ...]:
    """Names, in order."""
    kinds = ("accelerometer", "gyroscope")
    return tuple(f"{site}_{kind}_{axis}" for site in SITES for kind in kinds for axis in AXES)


def read(
    posed: Posed, body: Body, mount: Mount, *, rate_hz: float, rng: np.random.Generator
) -> np.ndarray:
    """(T, channels) float32 at ``rate_hz``: m/s2 and rad/s in each sensor's own axes.

    The first and last 0.4 seconds of the motion are not read.
    """
    _check.positive(rate_hz=rate_hz)
    if rate_hz > RATE_HZ:
        raise ValueError(f"Expected rate_hz up to {RATE_HZ:g}, got rate_hz={rate_hz:g}.")
    parts = []
    for site, askew, bias in zip(SITES, mount.askew, mount.bias, strict=True):
        clean = _read_one(
            posed, body, site, mount.is_left, spatial.transform.Rotation.from_rotvec(askew)
        )
        smooth = ndimage.gaussian_filter1d(clean, 0.35 * RATE_HZ / rate_hz, axis=0)
        sampled = smooth[times(len(smooth), rate_hz=rate_hz)]
        scale = np.repeat(mount.jitter, 3)
        parts.append(sampled + np.array(bias) + rng.normal(0, 1, sampled.shape) * scale)
    values = np.concatenate(parts, axis=1)
    found: np.ndarray = np.clip(values, -_RANGE, _RANGE).astype(np.float32)
    return found


def times(count: int, *, rate_hz: float) -> np.ndarray:
    """For a motion of ``count`` rows, the row that each sample of `read` comes from."""
    edge = round(_EDGE_S * RATE_HZ)
    found: np.ndarray = np.rint(np.arange(edge, count - edge, RATE_HZ / rate_hz)).astype(int)
    return found


def _read_one(
    posed: Posed, body: Body, site: str, is_left: bool, askew: spatial.transform.Rotation
) -> np.ndarray:
    side = "L" if is_left else "R"
    bone = BONES.index(SITES[site].format(side))
    if site == "chest":
        rest = body.heads[bone] + [0.0, -0.11, 0.0]
    else:
        end = BONES.index({"wrist": "wrist.{}", "ankle": "foot.{}"}[site].format(side))
        rest = body.heads[bone] + _ALONG * (body.heads[end] - body.heads[bone])
    place = posed.carry(rest[None], body.heads, np.array([bone]))[:, 0]
    pull = np.gradient(np.gradient(place, 1 / RATE_HZ, axis=0), 1 / RATE_HZ, axis=0)
    turn = posed.turns[:, bone] @ askew.as_matrix()
    felt = np.einsum("tji,tj->ti", turn, pull + np.array([0.0, 0.0, GRAVITY]))
    steps = spatial.transform.Rotation.from_matrix(np.einsum("tji,tjk->tik", turn[:-1], turn[1:]))
    spin = steps.as_rotvec() * RATE_HZ
    return np.concatenate([felt, np.concatenate([spin, spin[-1:]])], axis=1)


_PAD_S = 0.5  # before and after, so that smoothing has something to go by
_ONCE = ("sit_down", "stand_up", "fall", "kneel")
_FADE_S = 0.6  # between two activities of a session


@dataclass(frozen=True, kw_only=True, eq=False)
class StagedFilm:
    """One video and all that is true about it; N people, the one who acts first.

    Args:
        frames: (T, H, W, 3) uint8.
        owner: (T, H, W) int8, whose pixel it is; -1 nobody's.
        joints: (N, T, J, 2) pixels, of ``joints.JOINTS``.
        joints_3d: (N, T, J, 3) metres.
        visible: (N, T, J) bool.
        head_box: (N, T, 4) pixels.
        box: (N, T, 4) pixels.
        camera: from where.
        posed: how each person moves, at ``RATE_HZ``.
        rows: (T,) the rows of ``posed`` that the frames show.
    """

    frames: np.ndarray
    owner: np.ndarray
    joints: np.ndarray
    joints_3d: np.ndarray
    visible: np.ndarray
    head_box: np.ndarray
    box: np.ndarray
    camera: Camera
    posed: tuple[Posed, ...]
    rows: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class Script:
    """A film before it is drawn.

    Args:
        seed: of the world.
        cast: who is in it and how they move; the one who acts first.
        rows: (T,) the rows of the motion that the frames show.
        place: its number.
        camera: from where.
        light: on people and place.
    """

    seed: int
    cast: tuple[tuple[int, Posed], ...]
    rows: np.ndarray
    place: int
    camera: Camera
    light: Light

    @property
    def staged_place(self) -> places.StagedPlace:
        """The place itself."""
        return _place(self.place, self.seed)

    @property
    def people(self) -> list[tuple[figure.Person, Posed]]:
        """Who is in it, dressed, and where they are in the frames."""
        return [(_figure(number, self.seed), posed.at(self.rows)) for number, posed in self.cast]

    def shown(self) -> Script:
        """The same with no more of the motion than the frames show."""
        cast = tuple((number, posed.at(self.rows)) for number, posed in self.cast)
        return replace(self, cast=cast, rows=np.arange(len(self.rows)))


def shoot(world: WorldPlan, take: Take, *, kind: str) -> StagedFilm:
    """Play and draw a video or a photo."""
    return drawn(script(world, take, kind=kind))


def script(world: WorldPlan, take: Take, *, kind: str) -> Script:
    """Play a video or a photo."""
    return _film(world, take) if kind == "videos" else _photo(world, take)


def _film(world: WorldPlan, take: Take) -> Script:
    rng = world.rng(3, take.number)
    camera, light = _set_up(world, take, rng=rng)
    seconds = (world.frames - 1) / world.rate_hz
    cast = [(take.subject, _played(world, take, seconds, rng=rng))]
    if take.bystander is not None:
        cast.append((take.bystander, _standing_by(world, take.bystander, seconds, rng=rng)))
    return Script(
        seed=world.seed,
        cast=tuple(cast),
        rows=_rows(world),
        place=take.place,
        camera=camera,
        light=light,
    )


def empty(world: WorldPlan, take: Take) -> np.ndarray:
    """(H, W, 3): the place of a video as it is without people."""
    rng = world.rng(3, take.number)
    camera, light = _set_up(world, take, rng=rng)
    return backdrop.draw_backdrop(_place(take.place, world.seed), camera, light)[0]


def _set_up(world: WorldPlan, take: Take, *, rng: np.random.Generator) -> tuple[Camera, Light]:
    place = _place(take.place, world.seed)
    size = {"height": world.height, "width": world.width}
    wide = places.camera(place, take.view, rng=rng, **size)
    camera = replace(wide, fov_deg=wide.fov_deg * world.angle_share)
    return camera, places.lit(place, rng=rng)


def _photo(world: WorldPlan, take: Take) -> Script:
    """One frame of a take, framed around the person."""
    rng = world.rng(4, take.number)
    place = _place(take.place, world.seed)
    posed = _played(world, take, 1.5, rng=rng)
    rows = np.array([round(rng.uniform(_PAD_S, _PAD_S + 1.5) * RATE_HZ)])
    side = world.photo_px
    camera = places.camera(place, take.view, height=side, width=side, rng=rng)
    light = places.lit(place, rng=rng)
    person = _figure(take.subject, world.seed)
    body = figure.joints_3d(bodies.model(), person, posed.at(rows))[0]
    camera = _around(body, camera, rng=rng)
    if world.photo_roll_deg:
        roll = float(rng.uniform(-world.photo_roll_deg, world.photo_roll_deg))
        camera = replace(camera, roll_deg=roll)
    return Script(
        seed=world.seed,
        cast=((take.subject, posed),),
        rows=rows,
        place=take.place,
        camera=camera,
        light=light,
    )


def portrait(world: WorldPlan, number: int) -> StagedFilm:
    """Somebody's head from near by, looking about."""
    rng = world.rng(7, number)
    where = int(rng.integers(world.places))
    place = _place(where, world.seed)
    wide = places.camera(place, 2, height=world.height, width=world.width, rng=rng)
    light = places.lit(place, rng=rng)
    away = np.subtract(wide.eye[:2], wide.target[:2])
    heading = float(np.arctan2(away[0], -away[1]))  # towards the camera
    seconds = (world.frames - 1) / world.rate_hz
    subject, body = plan.make(number, seed=world.seed), _body(number, world.seed)
    pose = motion.perform("stand", subject.style, seconds + 2 * _PAD_S, rng=rng)
    time = np.arange(len(pose)) / RATE_HZ
    skeleton.column(pose, "head_yaw")[:] += 0.45 * np.sin(2 * np.pi * 0.4 * time)
    posed = skeleton.solve(pose, body, heading=heading)
    posed = _moved(posed, -posed.heads[:, 0, :2].mean(axis=0))
    head = posed.heads[:, bodies.BONES.index("head")].mean(axis=0)
    spot = np.append(head[:2] + 1.6 * away / np.linalg.norm(away), head[2] + 0.05)
    near = replace(wide, eye=tuple(spot.tolist()), target=tuple(head.tolist()), fov_deg=20.0)
    cast = ((number, posed),)
    return drawn(
        Script(seed=world.seed, cast=cast, rows=_rows(world), place=where, camera=near, light=light)
    )


def session(world: WorldPlan, wearer: int) -> tuple[np.ndarray, np.ndarray]:
    """What a person's sensors read in a session of all activities, in an order of their own.

    Returns:
        (T, channels) float32 and the activity of each sample, -1 between two of them.
    """
    rng = world.rng(5, wearer)
    who = world.people("all", world.wearers)[wearer]
    subject, body = plan.make(who, seed=world.seed), _body(who, world.seed)
    poses, labels = [], []
    names = [name for name in world.activities if name != "stand_up"]
    for name in (names[place] for place in rng.permutation(len(names))):
        repeats, seconds = (3, 3.0) if name in _ONCE else (1, 7.0)
        for _ in range(repeats):
            poses.append(motion.perform(name, subject.style, seconds, rng=rng))
            labels.append(world.activities.index(name))
            if name == "sit_down":  # nobody sits down twice
                poses.append(motion.perform("stand_up", subject.style, seconds, rng=rng))
                labels.append(world.activities.index("stand_up"))
    pose, label = _joined(poses, labels)
    posed = skeleton.solve(pose, body, heading=float(rng.uniform(0, 2 * np.pi)))
    mount = any_mount(is_left=subject.style.is_left_handed, rng=rng)
    values = read(posed, body, mount, rate_hz=world.signal_hz, rng=rng)
    return values, label[times(len(pose), rate_hz=world.signal_hz)]


def worn(world: WorldPlan, take: Take) -> np.ndarray:
    """(T, 3) m/s2 at the acting person's wrist, at ``signal_hz``, while a video is made."""
    rng = world.rng(3, take.number)
    _set_up(world, take, rng=rng)  # draws what the film draws
    posed = _played(world, take, (world.frames - 1) / world.rate_hz, rng=rng)
    subject, body = plan.make(take.subject, seed=world.seed), _body(take.subject, world.seed)
    own = world.rng(6, take.number)
    mount = any_mount(is_left=subject.style.is_left_handed, rng=own)
    values = read(posed, body, mount, rate_hz=world.signal_hz, rng=own)
    rows, at = _rows(world), times(len(posed.heads), rate_hz=world.signal_hz)
    return values[(at >= rows[0]) & (at <= rows[-1]), :3]


def _rows(world: WorldPlan) -> np.ndarray:
    """The rows of a motion that the frames of a video show."""
    after = np.rint(np.arange(world.frames) * RATE_HZ / world.rate_hz).astype(int)
    return np.asarray(round(_PAD_S * RATE_HZ) + after)


def _joined(poses: list[np.ndarray], labels: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """One motion out of many: each goes on while it fades into the next."""
    fade = round(_FADE_S * RATE_HZ)
    s = (np.arange(fade) + 1) / (fade + 1)
    part = (s**3 * (10 - 15 * s + 6 * s * s))[:, None]
    whole, label = [poses[0][:-fade]], [np.full(len(poses[0]) - fade, labels[0])]
    for before, after, name in zip(poses, poses[1:], labels[1:], strict=False):
        whole += [before[-fade:] + part * (after[:fade] - before[-fade:]), after[fade:-fade]]
        label += [np.full(fade, -1), np.full(len(after) - 2 * fade, name)]
    return np.concatenate(whole), np.concatenate(label)


def _played(world: WorldPlan, take: Take, seconds: float, *, rng: np.random.Generator) -> Posed:
    """How the person acts, in the middle of the stage."""
    subject, body = plan.make(take.subject, seed=world.seed), _body(take.subject, world.seed)
    pose = motion.perform(take.activity, subject.style, seconds + 2 * _PAD_S, rng=rng)
    heading, turning = float(rng.uniform(0, 2 * np.pi)), float(rng.choice([-1.0, 1.0]))
    drift = turning * {"walk": 0.8, "run": 1.5}.get(take.activity, 0.0)
    posed = skeleton.solve(pose, body, heading=heading, drift=drift)
    middle = posed.heads[:, 0, :2].mean(axis=0) - rng.uniform(-0.25, 0.25, 2)
    return _moved(posed, -middle)


def _standing_by(
    world: WorldPlan, someone: int, seconds: float, *, rng: np.random.Generator
) -> Posed:
    subject, body = plan.make(someone, seed=world.seed), _body(someone, world.seed)
    pose = motion.perform("stand", subject.style, seconds + 2 * _PAD_S, rng=rng)
    posed = skeleton.solve(pose, body, heading=float(rng.uniform(0, 2 * np.pi)))
    around = rng.uniform(0, 2 * np.pi)
    spot = rng.uniform(1.2, 1.6) * np.array([np.cos(around), np.sin(around)])
    return _moved(posed, spot - posed.heads[:, 0, :2].mean(axis=0))


def _moved(posed: Posed, step: np.ndarray) -> Posed:
    return Posed(turns=posed.turns, heads=posed.heads + np.append(step, 0.0))


def drawn(played: Script) -> StagedFilm:
    """Draw what was played."""
    camera, light = played.camera, played.light
    behind = backdrop.draw_backdrop(played.staged_place, camera, light)
    made = figure.draw(bodies.model(), played.people, behind, camera=camera, light=light)
    return developed(played, made)


def developed(played: Script, made: figure.Drawn) -> StagedFilm:
    """A film out of its pictures and what was played."""
    return StagedFilm(
        frames=made.image,
        owner=made.owner,
        joints=made.joints,
        joints_3d=np.stack([figure.joints_3d(bodies.model(), *one) for one in played.people]),
        visible=made.visible,
        head_box=made.head_box,
        box=made.box,
        camera=played.camera,
        posed=tuple(posed for _, posed in played.cast),
        rows=played.rows,
    )


def _around(body: np.ndarray, camera: Camera, *, rng: np.random.Generator) -> Camera:
    """The camera turned and zoomed so that the person fills most of the picture."""
    low, high = body.min(axis=0), body.max(axis=0)
    target = (low + high) / 2 + rng.uniform(-0.12, 0.12, 3)
    aimed = replace(camera, target=tuple(target.tolist()))
    seen = aimed.see(body)[:, :2] - [camera.width / 2, camera.height / 2]
    reach = np.abs(seen).max() * rng.uniform(1.12, 1.45)
    fov = 2 * np.degrees(np.arctan(reach / aimed.focal_px))
    return replace(aimed, fov_deg=float(np.clip(fov, 5, 100)))


@lru_cache(maxsize=1024)
def _body(number: int, seed: int) -> bodies.Body:
    return bodies.model().body(plan.make(number, seed=seed).shape)


@lru_cache(maxsize=1024)
def _figure(number: int, seed: int) -> figure.Person:
    look = plan.make(number, seed=seed).look
    return figure.figure(bodies.model(), _body(number, seed), look)


@lru_cache(maxsize=64)
def _place(number: int, seed: int) -> places.StagedPlace:
    return places.make(number, seed=seed)
