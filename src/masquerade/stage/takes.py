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
from masquerade.stage.plan import TakePlan, WorldPlan
from masquerade.stage.raster import Camera, SceneLight
from masquerade.stage.skeleton import RATE_HZ, BodyMotion

GRAVITY = 9.81
SITES = {"wrist": "lowerarm01.{}", "ankle": "lowerleg01.{}", "chest": "spine01"}
AXES = ("x", "y", "z")
_MOUNT_SHARE = 0.85  # of the way to the next joint
_MAX_ACCELERATION = 16 * GRAVITY
_EDGE_S = 0.4  # at either end, cut off: smoothing knows nothing beyond


@dataclass(frozen=True, kw_only=True)
class SensorMount:
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


def sample_sensor_mount(*, is_left: bool, rng: np.random.Generator) -> SensorMount:
    """A way of wearing them, for someone whose left hand does things or whose right hand does.

    The strap slips round the limb, and one in ten uses the other hand.
    """
    count = len(SITES)
    slipped = rng.normal(0, 0.25, (count, 3)) + rng.uniform(-1, 1, (count, 1)) * [0.0, 0.0, 0.8]
    bias = rng.normal(0, 1, (count, 6)) * np.repeat([0.25, 0.05], 3)
    return SensorMount(
        is_left=is_left == bool(rng.random() < 0.9),
        askew=tuple(tuple(row) for row in slipped.tolist()),
        bias=tuple(tuple(row) for row in bias.tolist()),
    )


def list_channels() -> tuple[str, ...]:
    """Names, in order."""
    kinds = ("accelerometer", "gyroscope")
    return tuple(f"{site}_{kind}_{axis}" for site in SITES for kind in kinds for axis in AXES)


def simulate_sensors(
    posed: BodyMotion, body: Body, mount: SensorMount, *, rate_hz: float, rng: np.random.Generator
) -> np.ndarray:
    """(T, channels) float32 at ``rate_hz``: m/s2 and rad/s in each sensor's own axes.

    The first and last 0.4 seconds of the motion are not read.
    """
    _check.positive(rate_hz=rate_hz)
    if rate_hz > RATE_HZ:
        raise ValueError(f"Expected rate_hz up to {RATE_HZ:g}, got rate_hz={rate_hz:g}.")
    parts = []
    for site, askew, bias in zip(SITES, mount.askew, mount.bias, strict=True):
        clean = _simulate_sensor(
            posed, body, site, mount.is_left, spatial.transform.Rotation.from_rotvec(askew)
        )
        smooth = ndimage.gaussian_filter1d(clean, 0.35 * RATE_HZ / rate_hz, axis=0)
        sampled = smooth[list_sample_rows(len(smooth), rate_hz=rate_hz)]
        scale = np.repeat(mount.jitter, 3)
        parts.append(sampled + np.array(bias) + rng.normal(0, 1, sampled.shape) * scale)
    values = np.concatenate(parts, axis=1)
    found: np.ndarray = np.clip(values, -_MAX_ACCELERATION, _MAX_ACCELERATION).astype(np.float32)
    return found


def list_sample_rows(count: int, *, rate_hz: float) -> np.ndarray:
    """For a motion of ``count`` rows, the row that each sample of `simulate_sensors` comes from."""
    edge = round(_EDGE_S * RATE_HZ)
    found: np.ndarray = np.rint(np.arange(edge, count - edge, RATE_HZ / rate_hz)).astype(int)
    return found


def _simulate_sensor(
    posed: BodyMotion, body: Body, site: str, is_left: bool, askew: spatial.transform.Rotation
) -> np.ndarray:
    side = "L" if is_left else "R"
    bone = BONES.index(SITES[site].format(side))
    if site == "chest":
        rest = body.heads[bone] + [0.0, -0.11, 0.0]
    else:
        end = BONES.index({"wrist": "wrist.{}", "ankle": "foot.{}"}[site].format(side))
        rest = body.heads[bone] + _MOUNT_SHARE * (body.heads[end] - body.heads[bone])
    place = posed.carry_points(rest[None], body.heads, np.array([bone]))[:, 0]
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
    posed: tuple[BodyMotion, ...]
    rows: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class UndrawnTake:
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
    cast: tuple[tuple[int, BodyMotion], ...]
    rows: np.ndarray
    place: int
    camera: Camera
    light: SceneLight

    @property
    def stage_place(self) -> places.StagedPlace:
        """The place itself."""
        return _make_place(self.place, self.seed)

    @property
    def list_dressed_people(self) -> list[tuple[figure.Person, BodyMotion]]:
        """Who is in it, dressed, and where they are in the frames."""
        return [
            (_make_subject_figure(number, self.seed), posed.select_times(self.rows))
            for number, posed in self.cast
        ]

    def keep_shown_rows(self) -> UndrawnTake:
        """The same with no more of the motion than the frames show."""
        cast = tuple((number, posed.select_times(self.rows)) for number, posed in self.cast)
        return replace(self, cast=cast, rows=np.arange(len(self.rows)))


def shoot_take(world: WorldPlan, take: TakePlan, *, kind: str) -> StagedFilm:
    """Play and draw a video or a photo."""
    return draw_take(play_take(world, take, kind=kind))


def play_take(world: WorldPlan, take: TakePlan, *, kind: str) -> UndrawnTake:
    """Play a video or a photo."""
    return _play_film(world, take) if kind == "videos" else _play_photo(world, take)


def _play_film(world: WorldPlan, take: TakePlan) -> UndrawnTake:
    rng = world.make_rng(3, take.number)
    camera, light = _set_up_camera(world, take, rng=rng)
    seconds = (world.frames - 1) / world.rate_hz
    cast = [(take.subject, _play_person(world, take, seconds, rng=rng))]
    if take.bystander is not None:
        cast.append((take.bystander, _place_bystander(world, take.bystander, seconds, rng=rng)))
    return UndrawnTake(
        seed=world.seed,
        cast=tuple(cast),
        rows=_list_frame_rows(world),
        place=take.place,
        camera=camera,
        light=light,
    )


def render_empty_place(world: WorldPlan, take: TakePlan) -> np.ndarray:
    """(H, W, 3): the place of a video as it is without people."""
    rng = world.make_rng(3, take.number)
    camera, light = _set_up_camera(world, take, rng=rng)
    return backdrop.draw_backdrop(_make_place(take.place, world.seed), camera, light)[0]


def _set_up_camera(
    world: WorldPlan, take: TakePlan, *, rng: np.random.Generator
) -> tuple[Camera, SceneLight]:
    place = _make_place(take.place, world.seed)
    size = {"height": world.height, "width": world.width}
    wide = places.place_camera(place, take.view, rng=rng, **size)
    camera = replace(wide, fov_deg=wide.fov_deg * world.angle_share)
    return camera, places.sample_take_light(place, rng=rng)


def _play_photo(world: WorldPlan, take: TakePlan) -> UndrawnTake:
    """One frame of a take, framed around the person."""
    rng = world.make_rng(4, take.number)
    place = _make_place(take.place, world.seed)
    posed = _play_person(world, take, 1.5, rng=rng)
    rows = np.array([round(rng.uniform(_PAD_S, _PAD_S + 1.5) * RATE_HZ)])
    side = world.photo_px
    camera = places.place_camera(place, take.view, height=side, width=side, rng=rng)
    light = places.sample_take_light(place, rng=rng)
    person = _make_subject_figure(take.subject, world.seed)
    body = figure.compute_world_joints(bodies.load_body_model(), person, posed.select_times(rows))[
        0
    ]
    camera = _frame_person(body, camera, rng=rng)
    if world.photo_roll_deg:
        roll = float(rng.uniform(-world.photo_roll_deg, world.photo_roll_deg))
        camera = replace(camera, roll_deg=roll)
    return UndrawnTake(
        seed=world.seed,
        cast=((take.subject, posed),),
        rows=rows,
        place=take.place,
        camera=camera,
        light=light,
    )


def shoot_portrait(world: WorldPlan, number: int) -> StagedFilm:
    """Somebody's head from near by, looking about."""
    rng = world.make_rng(7, number)
    where = int(rng.integers(world.places))
    place = _make_place(where, world.seed)
    wide = places.place_camera(place, 2, height=world.height, width=world.width, rng=rng)
    light = places.sample_take_light(place, rng=rng)
    away = np.subtract(wide.eye[:2], wide.target[:2])
    heading = float(np.arctan2(away[0], -away[1]))  # towards the camera
    seconds = (world.frames - 1) / world.rate_hz
    subject, body = (
        plan.make_subject(number, seed=world.seed),
        _make_subject_body(number, world.seed),
    )
    pose = motion.perform_activity("stand", subject.style, seconds + 2 * _PAD_S, rng=rng)
    time = np.arange(len(pose)) / RATE_HZ
    skeleton.select_angle(pose, "head_yaw")[:] += 0.45 * np.sin(2 * np.pi * 0.4 * time)
    posed = skeleton.solve_motion(pose, body, heading=heading)
    posed = _move_motion(posed, -posed.heads[:, 0, :2].mean(axis=0))
    head = posed.heads[:, bodies.BONES.index("head")].mean(axis=0)
    spot = np.append(head[:2] + 1.6 * away / np.linalg.norm(away), head[2] + 0.05)
    near = replace(wide, eye=tuple(spot.tolist()), target=tuple(head.tolist()), fov_deg=20.0)
    cast = ((number, posed),)
    return draw_take(
        UndrawnTake(
            seed=world.seed,
            cast=cast,
            rows=_list_frame_rows(world),
            place=where,
            camera=near,
            light=light,
        )
    )


def simulate_session(world: WorldPlan, wearer: int) -> tuple[np.ndarray, np.ndarray]:
    """What a person's sensors read in a session of all activities, in an order of their own.

    Returns:
        (T, channels) float32 and the activity of each sample, -1 between two of them.
    """
    rng = world.make_rng(5, wearer)
    who = world.list_people("all", world.wearers)[wearer]
    subject, body = plan.make_subject(who, seed=world.seed), _make_subject_body(who, world.seed)
    poses, labels = [], []
    names = [name for name in world.activities if name != "stand_up"]
    for name in (names[place] for place in rng.permutation(len(names))):
        repeats, seconds = (3, 3.0) if name in _ONCE else (1, 7.0)
        for _ in range(repeats):
            poses.append(motion.perform_activity(name, subject.style, seconds, rng=rng))
            labels.append(world.activities.index(name))
            if name == "sit_down":  # nobody sits down twice
                poses.append(motion.perform_activity("stand_up", subject.style, seconds, rng=rng))
                labels.append(world.activities.index("stand_up"))
    pose, label = _join_motions(poses, labels)
    posed = skeleton.solve_motion(pose, body, heading=float(rng.uniform(0, 2 * np.pi)))
    mount = sample_sensor_mount(is_left=subject.style.is_left_handed, rng=rng)
    values = simulate_sensors(posed, body, mount, rate_hz=world.signal_hz, rng=rng)
    return values, label[list_sample_rows(len(pose), rate_hz=world.signal_hz)]


def simulate_wrist_sensor(world: WorldPlan, take: TakePlan) -> np.ndarray:
    """(T, 3) m/s2 at the acting person's wrist, at ``signal_hz``, while a video is made."""
    rng = world.make_rng(3, take.number)
    _set_up_camera(world, take, rng=rng)  # draws what the film draws
    posed = _play_person(world, take, (world.frames - 1) / world.rate_hz, rng=rng)
    subject, body = (
        plan.make_subject(take.subject, seed=world.seed),
        _make_subject_body(take.subject, world.seed),
    )
    own = world.make_rng(6, take.number)
    mount = sample_sensor_mount(is_left=subject.style.is_left_handed, rng=own)
    values = simulate_sensors(posed, body, mount, rate_hz=world.signal_hz, rng=own)
    rows, at = _list_frame_rows(world), list_sample_rows(len(posed.heads), rate_hz=world.signal_hz)
    return values[(at >= rows[0]) & (at <= rows[-1]), :3]


def _list_frame_rows(world: WorldPlan) -> np.ndarray:
    """The rows of a motion that the frames of a video show."""
    after = np.rint(np.arange(world.frames) * RATE_HZ / world.rate_hz).astype(int)
    return np.asarray(round(_PAD_S * RATE_HZ) + after)


def _join_motions(poses: list[np.ndarray], labels: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """One motion out of many: each goes on while it fades into the next."""
    fade = round(_FADE_S * RATE_HZ)
    s = (np.arange(fade) + 1) / (fade + 1)
    part = (s**3 * (10 - 15 * s + 6 * s * s))[:, None]
    whole, label = [poses[0][:-fade]], [np.full(len(poses[0]) - fade, labels[0])]
    for before, after, name in zip(poses, poses[1:], labels[1:], strict=False):
        whole += [before[-fade:] + part * (after[:fade] - before[-fade:]), after[fade:-fade]]
        label += [np.full(fade, -1), np.full(len(after) - 2 * fade, name)]
    return np.concatenate(whole), np.concatenate(label)


def _play_person(
    world: WorldPlan, take: TakePlan, seconds: float, *, rng: np.random.Generator
) -> BodyMotion:
    """How the person acts, in the middle of the stage."""
    subject, body = (
        plan.make_subject(take.subject, seed=world.seed),
        _make_subject_body(take.subject, world.seed),
    )
    pose = motion.perform_activity(take.activity, subject.style, seconds + 2 * _PAD_S, rng=rng)
    heading, turning = float(rng.uniform(0, 2 * np.pi)), float(rng.choice([-1.0, 1.0]))
    drift = turning * {"walk": 0.8, "run": 1.5}.get(take.activity, 0.0)
    posed = skeleton.solve_motion(pose, body, heading=heading, drift=drift)
    middle = posed.heads[:, 0, :2].mean(axis=0) - rng.uniform(-0.25, 0.25, 2)
    return _move_motion(posed, -middle)


def _place_bystander(
    world: WorldPlan, someone: int, seconds: float, *, rng: np.random.Generator
) -> BodyMotion:
    subject, body = (
        plan.make_subject(someone, seed=world.seed),
        _make_subject_body(someone, world.seed),
    )
    pose = motion.perform_activity("stand", subject.style, seconds + 2 * _PAD_S, rng=rng)
    posed = skeleton.solve_motion(pose, body, heading=float(rng.uniform(0, 2 * np.pi)))
    around = rng.uniform(0, 2 * np.pi)
    spot = rng.uniform(1.2, 1.6) * np.array([np.cos(around), np.sin(around)])
    return _move_motion(posed, spot - posed.heads[:, 0, :2].mean(axis=0))


def _move_motion(posed: BodyMotion, step: np.ndarray) -> BodyMotion:
    return BodyMotion(turns=posed.turns, heads=posed.heads + np.append(step, 0.0))


def draw_take(played: UndrawnTake) -> StagedFilm:
    """Draw what was played."""
    camera, light = played.camera, played.light
    behind = backdrop.draw_backdrop(played.stage_place, camera, light)
    made = figure.draw_people(
        bodies.load_body_model(), played.list_dressed_people, behind, camera=camera, light=light
    )
    return develop_film(played, made)


def develop_film(played: UndrawnTake, made: figure.DrawnFilm) -> StagedFilm:
    """A film out of its pictures and what was played."""
    return StagedFilm(
        frames=made.image,
        owner=made.owner,
        joints=made.joints,
        joints_3d=np.stack(
            [
                figure.compute_world_joints(bodies.load_body_model(), *one)
                for one in played.list_dressed_people
            ]
        ),
        visible=made.visible,
        head_box=made.head_box,
        box=made.box,
        camera=played.camera,
        posed=tuple(posed for _, posed in played.cast),
        rows=played.rows,
    )


def _frame_person(body: np.ndarray, camera: Camera, *, rng: np.random.Generator) -> Camera:
    """The camera turned and zoomed so that the person fills most of the picture."""
    low, high = body.min(axis=0), body.max(axis=0)
    target = (low + high) / 2 + rng.uniform(-0.12, 0.12, 3)
    aimed = replace(camera, target=tuple(target.tolist()))
    seen = aimed.project_points(body)[:, :2] - [camera.width / 2, camera.height / 2]
    reach = np.abs(seen).max() * rng.uniform(1.12, 1.45)
    fov = 2 * np.degrees(np.arctan(reach / aimed.focal_px))
    return replace(aimed, fov_deg=float(np.clip(fov, 5, 100)))


@lru_cache(maxsize=1024)
def _make_subject_body(number: int, seed: int) -> bodies.Body:
    return bodies.load_body_model().make_body(plan.make_subject(number, seed=seed).shape)


@lru_cache(maxsize=1024)
def _make_subject_figure(number: int, seed: int) -> figure.Person:
    look = plan.make_subject(number, seed=seed).look
    return figure.make_person(bodies.load_body_model(), _make_subject_body(number, seed), look)


@lru_cache(maxsize=64)
def _make_place(number: int, seed: int) -> places.StagedPlace:
    return places.make_staged_place(number, seed=seed)
