"""Pictures: exact masks, faces on the front of heads, and the same pixels with numba or without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import binary_dilation, binary_erosion

from masquerade.joints import JOINTS
from masquerade.stage import backdrop, bodies, figure, look, plan, raster, store, takes
from masquerade.stage.bodies import BodyModel
from masquerade.stage.figure import DrawnFilm, Person
from masquerade.stage.motion import perform_activity
from masquerade.stage.plan import TakePlan, WorldPlan
from masquerade.stage.raster import Camera, SceneLight
from masquerade.stage.skeleton import BodyMotion, solve_motion

pytestmark = pytest.mark.usefixtures("in_world")
LIGHT = SceneLight(towards=(0.0, -0.6, 0.8), colour=(1.0, 1.0, 1.0), ambient=0.7)
GREEN = np.array([0, 255, 0], np.uint8)  # nobody wears it
FAR_M = 50.0
SMALL = WorldPlan(subjects=6, places=4, frames=3, height=48, width=64, videos=24, photos=24)


@pytest.fixture(scope="module", autouse=True)
def own_cache(world_cache: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MASQUERADE_CACHE", str(world_cache))
        yield


@pytest.fixture(scope="module")
def model(own_cache: None) -> BodyModel:
    return bodies.load_body_model()


@pytest.fixture(scope="module")
def person(model: BodyModel) -> tuple[Person, BodyMotion]:
    """Somebody pale with long black hair who looks along -y."""
    subject = plan.make_subject(4, seed=0)
    worn = replace(subject.look, skin=0, hair=0, hair_style="long", has_beard=False)
    body = model.make_body(subject.shape)
    pose = perform_activity("stand", subject.style, 1.0, rng=np.random.default_rng(0))
    return figure.make_person(model, body, worn), solve_motion(pose, body)


def whole(*, eye: tuple[float, float, float] = (0.0, -3.0, 1.2), size: int = 48) -> Camera:
    return Camera(eye=eye, target=(0.0, 0.0, 0.9), fov_deg=42, height=size, width=size)


def shot(
    model: BodyModel,
    people: list[tuple[Person, BodyMotion]],
    camera: Camera,
    depth: np.ndarray | float = FAR_M,
) -> DrawnFilm:
    shape = (camera.height, camera.width)
    empty = np.broadcast_to(GREEN, (*shape, 3)).copy()
    behind = empty, np.broadcast_to(np.float32(depth), shape).copy()
    cast = [(who, posed.select_times(np.array([50]))) for who, posed in people]
    drawn = figure.draw_people(model, cast, behind, camera=camera, light=LIGHT)
    assert (empty == GREEN).all(), "it drew on what it was given"
    of_people = {
        name: getattr(drawn, name)[:, 0] for name in ("joints", "visible", "head_box", "box")
    }
    return DrawnFilm(image=drawn.image[0], owner=drawn.owner[0], **of_people)


def skin_of(model: BodyModel, person: Person, posed: BodyMotion, time: int) -> np.ndarray:
    """Vertices that follow their bones, written out the long way."""
    out = np.zeros(person.body.vertices.shape)
    for bone, weights in enumerate(model.weights.T):
        moved = (person.body.vertices - person.body.heads[bone]) @ posed.turns[time, bone].T
        out += weights[:, None] * (moved + posed.heads[time, bone])
    return out


def covered(model: BodyModel, vertices: np.ndarray, camera: Camera) -> np.ndarray:
    """(H, W) how many of the four samples of a pixel lie on a triangle that faces the camera."""
    seen = camera.project_points(vertices)[model.faces][..., :2]
    a, b, c = seen[:, 0], seen[:, 1], seen[:, 2]
    y, x = np.mgrid[0.25 : camera.height : 0.5, 0.25 : camera.width : 0.5]
    hit = np.zeros(x.shape, bool)
    for p, q, r in zip(a, b, c, strict=True):
        sides = [
            (q[0] - p[0]) * (y - p[1]) - (q[1] - p[1]) * (x - p[0]) <= 1e-9
            for p, q in ((p, q), (q, r), (r, p))
        ]
        hit |= sides[0] & sides[1] & sides[2]
    return hit[::2, ::2] + 1 * hit[1::2, ::2] + hit[::2, 1::2] + hit[1::2, 1::2]


@pytest.mark.parametrize("eye", [(0.0, -3.0, 1.2), (2.2, 2.0, 2.0)])
def test_the_mask_is_exact(
    model: BodyModel, person: tuple[Person, BodyMotion], eye: tuple[float, float, float]
) -> None:
    camera = whole(eye=eye, size=40)
    drawn = shot(model, [person], camera)
    mask = drawn.owner == 0
    samples = covered(model, skin_of(model, *person, 50), camera)
    assert (mask != (samples > 0)).sum() <= 1  # a tie on an edge
    for wrong in (binary_dilation(mask), binary_erosion(mask)):
        assert (wrong != (samples > 0)).sum() > 50  # the test can fail
    # What the samples leave of a pixel shows the place behind, which is the only green.
    share = (4 - samples[mask]) / 4
    green = drawn.image[mask].astype(float)
    assert np.corrcoef(share, green[:, 1] - green[:, 0])[0, 1] > 0.95
    assert (drawn.image[samples == 4] != GREEN).any(axis=-1).all()


@pytest.mark.parametrize("number", [0, 7, 9, 14])
def test_outside_the_mask_a_frame_is_the_empty_place_bit_for_bit(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    empty: list[np.ndarray] = []
    draw = backdrop.draw_backdrop

    def noted(*given: object) -> tuple[np.ndarray, np.ndarray]:
        image, depth = draw(*given)  # type: ignore[arg-type]
        empty.append(image.copy())
        return image, depth

    monkeypatch.setattr(backdrop, "draw_backdrop", noted)
    world = replace(SMALL, bystanders=1.0)
    film = takes.shoot_take(world, plan.plan_take(world, number, kind="videos"), kind="videos")
    (place,) = empty
    assert np.array_equal(
        takes.render_empty_place(world, plan.plan_take(world, number, kind="videos")), place
    )
    for frame, owner in zip(film.frames, film.owner, strict=True):
        nobody = owner < 0
        assert 0.2 < nobody.mean() < 1
        assert np.array_equal(frame[nobody], place[nobody])
        assert (frame[~nobody] != place[~nobody]).any(axis=-1).mean() > 0.9


def test_a_person_behind_a_wall_is_not_drawn(
    model: BodyModel, person: tuple[Person, BodyMotion]
) -> None:
    free = shot(model, [person], whole())
    hidden = shot(model, [person], whole(), depth=2.0)
    assert (hidden.owner == -1).all() and (hidden.image == GREEN).all()
    assert not hidden.visible.any() and free.visible.any()
    wall = np.full((48, 48), FAR_M, np.float32)
    wall[:, :24] = 2.0
    half = shot(model, [person], whole(), depth=wall)
    assert (half.owner[:, :24] == -1).all() and (half.image[:, :24] == GREEN).all()
    assert np.array_equal(half.image[:, 24:], free.image[:, 24:])
    assert np.array_equal(half.joints, free.joints)
    sides = free.joints[0, :, 0] < 24
    assert not half.visible[0, sides].any()
    assert np.array_equal(half.visible[0, ~sides], free.visible[0, ~sides])


def test_the_nearer_of_two_people_is_seen(
    model: BodyModel, person: tuple[Person, BodyMotion]
) -> None:
    figure_, posed = person
    back = BodyMotion(turns=posed.turns, heads=posed.heads + np.array([0.15, 1.0, 0.0]))
    samples = covered(model, skin_of(model, *person, 50), whole())
    for people, front in (([person, (figure_, back)], 0), ([(figure_, back), person], 1)):
        drawn = shot(model, people, whole())
        alone = shot(model, [person], whole())
        mine = samples == 4  # no pixel of them is shared
        assert (drawn.owner[mine] == front).all()
        assert np.array_equal(drawn.image[mine], alone.image[mine])
        assert (drawn.owner == 1 - front).any()
        hip = JOINTS.index("pelvis")
        assert drawn.visible[front, hip] and not drawn.visible[1 - front, hip]


def portrait(person: tuple[Person, BodyMotion], model: BodyModel, y: float) -> Camera:
    head = figure.compute_world_joints(model, *person)[50, JOINTS.index("nose")]
    target = (float(head[0]), float(head[1]), float(head[2]))
    return Camera(
        eye=(target[0], y, target[2] + 0.02), target=target, fov_deg=12, height=96, width=96
    )


def around(drawn: DrawnFilm, joint: str, reach: int) -> np.ndarray:
    """Pixels around a joint, as shares of full light."""
    x, y = np.floor(drawn.joints[0, JOINTS.index(joint)]).astype(int)
    square = drawn.image[y - reach : y + reach + 1, x - reach : x + reach + 1]
    return square.reshape(-1, 3) / 255


def tint(colours: np.ndarray) -> np.ndarray:
    """Colour without brightness."""
    return np.asarray(colours / np.linalg.norm(colours, axis=-1, keepdims=True))


def face_label(drawn: DrawnFilm) -> str:
    take = plan.plan_take(SMALL, 0, kind="videos")
    return str(store.make_take_labels(SMALL, take, drawn.visible[0][None])["attributes"]["face"])


def test_a_face_is_seen_from_in_front(model: BodyModel, person: tuple[Person, BodyMotion]) -> None:
    drawn = shot(model, [person], portrait(person, model, -3.0))
    skin, hair = tint(np.array(look.SKIN[0])), np.array(look.HAIR[0])
    nose = around(drawn, "nose", 1)
    assert np.abs(tint(nose) - skin).max() < 0.08 and nose.max(axis=1).min() > 0.4
    for eye in ("left_eye", "right_eye"):
        spot = around(drawn, eye, 2)
        white = spot[(np.ptp(spot, axis=1) < 0.1) & (spot.min(axis=1) > 0.45)]
        dark = spot[spot.max(axis=1) < 0.35]
        assert len(white) and len(dark), eye
    top = around(drawn, "head_top", 0) if drawn.joints[0, JOINTS.index("head_top"), 1] > 1 else hair
    assert np.max(top) < 0.5  # hair is on top
    names = ("nose", "left_eye", "right_eye")
    assert all(drawn.visible[0, JOINTS.index(name)] for name in names)
    assert face_label(drawn) == "visible"


def test_a_face_is_not_seen_from_behind(
    model: BodyModel, person: tuple[Person, BodyMotion]
) -> None:
    drawn = shot(model, [person], portrait(person, model, 3.0))
    for joint in ("nose", "left_eye", "right_eye"):
        assert around(drawn, joint, 2).max() < 0.2, joint  # black hair
        assert not drawn.visible[0, JOINTS.index(joint)]
    assert face_label(drawn) == "hidden"


def test_left_is_the_left_of_the_person(
    model: BodyModel, person: tuple[Person, BodyMotion]
) -> None:
    front, back = (shot(model, [person], whole(eye=(0.0, y, 1.2))) for y in (-3.0, 3.0))
    for part in ("eye", "ear", "shoulder", "elbow", "wrist", "hip", "knee", "ankle"):
        left, right = JOINTS.index(f"left_{part}"), JOINTS.index(f"right_{part}")
        assert front.joints[0, left, 0] > front.joints[0, right, 0], part  # facing us
        assert back.joints[0, left, 0] < back.joints[0, right, 0], part
    heights = front.joints[
        0, [JOINTS.index(f"left_{p}") for p in ("eye", "hip", "knee", "ankle")], 1
    ]
    assert (np.diff(heights) > 0).all()  # y grows down


def test_what_the_body_hides_is_not_visible(
    model: BodyModel, person: tuple[Person, BodyMotion]
) -> None:
    drawn = shot(model, [person], whole(eye=(3.0, 0.0, 1.2)))  # from the person's left
    for part in ("ear", "shoulder", "hip"):
        assert drawn.visible[0, JOINTS.index(f"left_{part}")], part
        assert not drawn.visible[0, JOINTS.index(f"right_{part}")], part


def test_what_is_outside_the_picture_is_not_visible(
    model: BodyModel, person: tuple[Person, BodyMotion]
) -> None:
    low = Camera(eye=(0.0, -3.0, 1.2), target=(0.0, 0.0, 0.2), fov_deg=20, height=48, width=48)
    drawn = shot(model, [person], low)
    inside = ((drawn.joints[0] >= 0) & (drawn.joints[0] < 48)).all(axis=1)
    assert 2 <= inside.sum() <= 8 and not drawn.visible[0, ~inside].any()
    assert drawn.visible[0, JOINTS.index("left_ankle")]
    away = Camera(eye=(0.0, -3.0, 1.2), target=(0.0, -9.0, 1.0), fov_deg=40, height=48, width=48)
    nothing = shot(model, [person], away)  # the person is behind the camera
    assert (nothing.owner == -1).all() and not nothing.visible.any()
    assert (nothing.image == GREEN).all()


def test_joints_are_where_the_camera_sees_them() -> None:
    world = replace(SMALL, bystanders=1.0)
    film = takes.shoot_take(world, plan.plan_take(world, 5, kind="videos"), kind="videos")
    assert np.allclose(film.joints, film.camera.project_points(film.joints_3d)[..., :2])
    for frame in range(world.frames):
        for who in range(2):
            seen = film.joints[who, frame][film.visible[who, frame]]
            mask = binary_dilation(film.owner[frame] == who, iterations=2)
            x, y = np.floor(seen).astype(int).T
            assert mask[y, x].mean() > 0.9


def filmed(kind: str, number: int, world: WorldPlan, *, has_numba: bool) -> takes.StagedFilm:
    take: TakePlan = plan.plan_take(world, number, kind=kind)
    with pytest.MonkeyPatch.context() as patch:
        if not has_numba:
            patch.setattr(raster, "HAS_NUMBA", False)
            patch.setattr(backdrop, "HAS_NUMBA", False)
        return takes.shoot_take(world, take, kind=kind)


@pytest.mark.skipif(not raster.HAS_NUMBA, reason="needs numba beside numpy")
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("kind", ["videos", "photos"])
def test_numba_and_numpy_draw_the_same(kind: str, number: int) -> None:
    world = replace(SMALL, bystanders=0.5, frames=2, photo_px=64)
    fast, plain = (filmed(kind, number, world, has_numba=has) for has in (True, False))
    first, second = fast.owner >= 0, plain.owner >= 0
    assert first.any() and (first & second).sum() >= 0.999 * (first | second).sum()
    apart = np.abs(fast.frames.astype(int) - plain.frames)
    assert (apart.max(axis=-1) <= 1).mean() >= 0.999
    assert np.array_equal(fast.visible, plain.visible)


@pytest.mark.skipif(not raster.HAS_NUMBA, reason="needs numba beside numpy")
@pytest.mark.parametrize("seed", range(6))
def test_any_triangles_are_drawn_the_same(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.uniform([-60, -60, -1], [100, 90, 6], (120, 3))  # also outside, also behind
    faces = rng.integers(0, 120, (400, 3))
    behind = rng.uniform(1, 8, (30, 40)).astype(np.float32)
    buffers = []
    for has in (True, False):
        monkeypatch.setattr(raster, "HAS_NUMBA", has)
        buffer = raster.make_depth_buffer(behind)
        raster.rasterise_mesh(points, faces[:200], buffer)
        raster.rasterise_mesh(points, faces[200:], buffer, first=200)
        buffers.append(buffer)
    fast, plain = buffers
    assert (fast.face >= 0).sum() > 100
    assert (fast.face == plain.face).mean() >= 0.999
    assert np.abs(fast.nearness - plain.nearness).max() < 1e-9
    assert (fast.nearness >= 1 / behind.astype(float)).all()
    drawn = faces[fast.face[fast.face >= 0]]
    assert points[drawn, 2].min() > raster.NEAR  # nothing that reaches behind the camera


def test_the_back_of_a_triangle_is_not_drawn() -> None:
    points = np.array([[2.0, 2.0, 1.0], [18.0, 2.0, 1.0], [2.0, 18.0, 1.0]])
    for corners, is_drawn in (([0, 2, 1], True), ([0, 1, 2], False)):
        buffer = raster.make_depth_buffer(np.full((20, 20), 5.0))
        raster.rasterise_mesh(points, np.array([corners]), buffer)
        assert (buffer.face >= 0).any() == is_drawn


def test_a_camera_has_its_target_in_the_middle_and_up_is_up() -> None:
    camera = Camera(eye=(1.0, -4.0, 1.5), target=(0.2, 0.1, 0.9), fov_deg=45, height=60, width=80)
    x, y, depth = camera.project_points(np.array(camera.target))
    assert (x, y) == pytest.approx((40, 30)) and depth == pytest.approx(
        np.hypot(4.18, 0.6), abs=0.01
    )
    assert (
        camera.project_points(np.array([0.2, 0.1, 1.2]))[1] < 30
        and camera.project_points(np.zeros(3))[1] > 30
    )
    assert (
        camera.project_points(np.array([0.9, 0.3, 0.9]))[0] > 40
    )  # what is to the right of the view
    corner = camera.enlarge_view(2).project_points(np.array([0.5, 0.5, 0.5]))
    assert corner[:2] == pytest.approx(2 * camera.project_points(np.array([0.5, 0.5, 0.5]))[:2])


@pytest.mark.parametrize(
    "changed",
    [{"fov_deg": 0.0}, {"fov_deg": 175.0}, {"height": 0}, {"eye": (0.0, 0.0, 5.0)}],
    ids=str,
)
def test_a_camera_that_cannot_be_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        replace(whole(), target=(0.0, 0.0, 0.9), **changed)  # type: ignore[arg-type]
