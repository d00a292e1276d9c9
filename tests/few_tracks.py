"""People of Stage and what a perfect finder would say of them, to try avatars on."""

from __future__ import annotations

from functools import cache

import numpy as np

from masquerade.joints import JOINTS as OURS
from masquerade.stage import bodies, figure, motion, plan, skeleton
from masquerade.stage.act import MotionStyle
from masquerade.stage.bodies import BONES, BodyShape
from masquerade.stage.raster import Camera, SceneLight
from masquerade.stage.skeleton import BodyMotion
from masquerade.vision.poses import JOINTS
from masquerade.vision.tracks import PersonTrack

RATE_HZ = 20.0
CAMERA = Camera(eye=(0.0, -5.0, 1.6), target=(0.0, 0.0, 0.95), fov_deg=40.0, height=240, width=320)
LIGHT = SceneLight(towards=(0.3, -0.6, 0.74), colour=(1.0, 1.0, 1.0), ambient=0.6)


@cache
def someone(number: int, stature_m: float = 1.7) -> figure.Person:
    """A person of Stage, of that stature."""
    model, who = bodies.load_body_model(), plan.make_subject(number, seed=3)
    return figure.make_person(model, model.make_body(BodyShape(stature_m=stature_m)), who.look)


def played(
    activity: str,
    person: figure.Person,
    *,
    seconds: float = 2.0,
    heading: float = 0.0,
    at: tuple[float, float] = (0.0, 0.0),
    style: MotionStyle | None = None,
    rng: np.random.Generator | None = None,
) -> BodyMotion:
    """What a person does, at ``RATE_HZ``, about a place on the floor."""
    own = rng or np.random.default_rng(1)
    pose = motion.perform_activity(activity, style or MotionStyle(), seconds + 0.6, rng=own)
    whole = skeleton.solve_motion(pose, person.body, heading=heading)
    step = skeleton.RATE_HZ / RATE_HZ
    rows = 30 + np.rint(np.arange(round(seconds * RATE_HZ)) * step).astype(int)
    shown = whole.select_times(rows)
    middle = shown.heads[:, 0, :2].mean(axis=0)
    return BodyMotion(
        turns=shown.turns, heads=shown.heads + np.append(np.subtract(at, middle), 0.0)
    )


def joints_of(person: figure.Person, posed: BodyMotion) -> np.ndarray:
    """(T, 33, 3) metres: what the finder's joints are on that person."""
    ours = figure.compute_world_joints(bodies.load_body_model(), person, posed)
    feet, _ = skeleton.compute_contacts(posed.turns, posed.heads, person.body)
    named = {name: ours[:, place] for place, name in enumerate(OURS)}
    for number, (side, letter) in enumerate((("left", "L"), ("right", "R"))):
        named[f"{side}_heel"], named[f"{side}_foot_index"] = feet[:, number, 0], feet[:, number, 2]
        lower, wrist = (BONES.index(f"{bone}.{letter}") for bone in ("lowerarm01", "wrist"))
        ahead = posed.heads[:, wrist] - posed.heads[:, lower]
        tip = posed.heads[:, wrist] + 0.4 * ahead
        named |= {f"{side}_{part}": tip for part in ("pinky", "index", "thumb")}
        named |= {f"{side}_eye{end}": named[f"{side}_eye"] for end in ("_inner", "_outer")}
        named[f"mouth_{side}"] = named["nose"]
    return np.stack([named[name] for name in JOINTS], axis=1)


def track_of(
    person: figure.Person, posed: BodyMotion, *, camera: Camera = CAMERA, start: int = 0
) -> PersonTrack:
    """What a perfect finder says of a person; what is outside the picture is not seen."""
    joints = joints_of(person, posed)
    seen = camera.project_points(joints)[..., :2]
    inside = ((seen >= 0) & (seen < [camera.width, camera.height])).all(axis=2)
    hips = joints[:, [JOINTS.index("left_hip"), JOINTS.index("right_hip")]].mean(axis=1)
    trust = np.where(inside, 0.99, 0.02)
    return PersonTrack(
        start=start,
        joints=np.concatenate([seen, trust[..., None], np.ones_like(trust)[..., None]], axis=2),
        world=(joints - hips[:, None]) @ camera.view_axes.T,
        is_seen=np.ones(len(seen), bool),
    )


def filmed(
    people: list[tuple[figure.Person, BodyMotion]], *, camera: Camera = CAMERA
) -> np.ndarray:
    """(T, H, W, 3): people before a plain wall and floor."""
    place = np.full((camera.height, camera.width, 3), (150, 160, 170), np.uint8)
    place[camera.height * 2 // 3 :] = (110, 105, 95)
    behind = place, np.full(place.shape[:2], 50.0)
    return figure.draw_people(
        bodies.load_body_model(), people, behind, camera=camera, light=LIGHT
    ).image
