"""Places are the same for the same seed, leave the stage free, and are drawn where they are."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest

from conftest import python
from masquerade.stage import backdrop, places, prints, solids
from masquerade.stage.places import PLACE_KINDS, StagedPlace
from masquerade.stage.raster import Camera, SceneLight
from masquerade.stage.solids import (
    NUM_VIEWS,
    STAGE_M,
    Quad,
    compute_extent,
    is_clear,
    make_box,
    make_card,
    make_ground,
    place_piece,
    stack_quads,
)

COUNT = 2 * len(PLACE_KINDS)
LAMP = SceneLight(towards=(0.0, -0.6, 0.8), colour=(1.0, 1.0, 1.0), ambient=0.5)


@pytest.fixture(scope="module")
def world() -> list[StagedPlace]:
    return [places.make_staged_place(index, seed=3) for index in range(COUNT)]


def nominal(place: StagedPlace, view: int, *, seed: int = 0, size: int = 48) -> Camera:
    rng = np.random.default_rng([seed, view])
    return places.place_camera(place, view, height=size, width=size, rng=rng)


def test_the_same_seed_gives_the_same_bytes_in_another_process(world: list[StagedPlace]) -> None:
    code = (
        "import hashlib, numpy as np; from masquerade.stage import backdrop, places;"
        "place = places.make_staged_place(2, seed=3); rng = np.random.default_rng([0, 1]);"
        "camera = places.place_camera(place, 1, height=48, width=48, rng=rng);"
        "image, depth = backdrop.draw_backdrop(place, camera, place.light);"
        "print(hashlib.sha256(image.tobytes() + depth.tobytes()).hexdigest())"
    )
    image, depth = backdrop.draw_backdrop(world[2], nominal(world[2], 1), world[2].light)
    here = hashlib.sha256(image.tobytes() + depth.tobytes()).hexdigest()
    assert python(code).strip() == here


def test_another_seed_gives_another_place(world: list[StagedPlace]) -> None:
    other = places.make_staged_place(0, seed=4)
    assert other.name == world[0].name
    camera = nominal(other, 2)
    first, _ = backdrop.draw_backdrop(world[0], camera, LAMP)
    second, _ = backdrop.draw_backdrop(other, camera, LAMP)
    assert np.abs(first.astype(int) - second).mean() > 5


def test_names_are_unique_and_begin_with_the_kind(world: list[StagedPlace]) -> None:
    assert len({place.name for place in world}) == COUNT
    assert all(place.name.startswith(place.kind + "_") for place in world)
    assert {place.kind for place in world} == set(PLACE_KINDS)
    assert sum(place.is_indoor for place in world) == 16


def from_origin(quad: np.ndarray) -> float:
    """Distance of (0, 0) to a quad's outline in the plan, (4, 3) corners; 0 inside."""
    flat_quad = quad[:, :2]
    ends = np.roll(flat_quad, -1, axis=0)
    along = ends - flat_quad
    length = np.maximum((along**2).sum(axis=1), 1e-12)
    part = np.clip(-(flat_quad * along).sum(axis=1) / length, 0, 1)
    nearest = np.hypot(*(flat_quad + along * part[:, None]).T).min()
    side = flat_quad[:, 0] * ends[:, 1] - flat_quad[:, 1] * ends[:, 0]
    is_inside = length.min() > 1e-6 and ((side > 1e-9).all() or (side < -1e-9).all())
    return 0.0 if is_inside else float(nearest)


def test_nothing_stands_on_the_stage(world: list[StagedPlace]) -> None:
    for place in world:
        for quad in place.quads.compute_corners:
            if quad[:, 2].max() > 0.05 and quad[:, 2].min() < 2.2:
                assert from_origin(quad) >= STAGE_M, place.name


def test_the_test_of_the_stage_can_fail() -> None:
    stool = place_piece(make_box((0.4, 0.4, 0.5), (0, 0, 0), "plaster"), (1.5, 0.5, 0))
    quads = stack_quads([stool], textures=prints.pool().index)
    assert min(from_origin(quad) for quad in quads.compute_corners) < STAGE_M
    assert not is_clear(stool)
    assert is_clear(place_piece(stool, (1.5, 1.5, 0)))
    assert not is_clear(place_piece(stool, (-1.5, -4.0, 0)))  # before a camera
    low, high = compute_extent(
        make_ground((9, 9), (0, 0, 0.006), "plaster")
    )  # paint on the floor is no obstacle
    assert (low > high).all()


def test_cameras_see_a_person_unobstructed(world: list[StagedPlace]) -> None:
    steps = np.linspace(-0.3, 0.3, 3)
    chest = np.array([(x, y, z) for x in steps for y in steps for z in (0.3, 1.2, 1.7)])
    for place in world:
        for view in range(NUM_VIEWS):
            for seed in range(2):
                camera = nominal(place, view, seed=seed)
                _, depth = backdrop.draw_backdrop(place, camera, place.light)
                x, y, away = camera.project_points(chest).T
                row, column = y.astype(int), x.astype(int)
                inside = (row >= 0) & (row < 48) & (column >= 0) & (column < 48)
                assert inside.sum() > 15
                assert (depth[row[inside], column[inside]] > away[inside]).all(), (place.name, view)


def test_views_are_twenty_degrees_apart_after_jitter(world: list[StagedPlace]) -> None:
    for place in world[:4]:
        for seed in range(20):
            eyes = [nominal(place, view, seed=seed).eye for view in range(NUM_VIEWS)]
            angles = np.degrees([math.atan2(eye[1], eye[0]) for eye in eyes])
            assert np.diff(np.sort(angles)).min() >= 20
            away = [math.hypot(*eye[:2]) for eye in eyes]
            assert min(away) >= 3.5 and max(away) <= (5 if place.is_indoor else 7)
            assert all(1.0 <= eye[2] <= 2.2 for eye in eyes)


def test_a_view_that_is_not_there_is_refused(world: list[StagedPlace]) -> None:
    with pytest.raises(ValueError, match=r"view to be in 0\.\.5, got view=6"):
        nominal(world[0], NUM_VIEWS)


def test_the_light_is_a_unit_vector_and_varies(world: list[StagedPlace]) -> None:
    rng = np.random.default_rng(0)
    lights = [places.sample_take_light(world[0], rng=rng) for _ in range(50)]
    assert all(abs(math.hypot(*light.towards) - 1) < 1e-12 for light in lights)
    assert all(light.towards[2] > 0 for light in lights)
    warmth = [light.colour[0] / light.colour[2] for light in lights]
    assert max(warmth) / min(warmth) > 1.2


def alone(*pieces: list[Quad]) -> StagedPlace:
    quads = stack_quads(pieces, textures=prints.pool().index)
    return StagedPlace(name="bare_00", kind="bare", is_indoor=False, quads=quads, light=LAMP)


def test_the_depth_of_the_floor_is_the_analytic_one() -> None:
    place = alone(make_ground((400, 400), (0, 0, 0), "tiles", tile=1.0))
    camera = Camera(eye=(1.0, -4.0, 1.6), target=(0, 0, 0.9), fov_deg=50, height=60, width=80)
    _, depth = backdrop.draw_backdrop(place, camera, LAMP)
    rows = np.arange(40, 60) + 0.75  # the lower sub-samples are the nearer ones
    slope = (rows - 30) / camera.focal_px
    _, down, forward = camera.view_axes
    expected = -1.6 / (forward[2] + slope * down[2])
    assert depth.dtype == np.float32
    np.testing.assert_allclose(depth[40:], np.tile(expected[:, None], (1, 80)), rtol=1e-5)


def test_the_nearer_wall_hides_the_farther_and_its_back_is_not_seen() -> None:
    near, far = make_card((2, 2), (0, 1, 0), "dark"), make_card((8, 8), (0, 3, 0), "lamp")
    camera = Camera(eye=(0, -4, 1), target=(0, 0, 1), fov_deg=50, height=40, width=40)
    image, depth = backdrop.draw_backdrop(alone(far, near), camera, LAMP)
    assert depth[20, 20] == 5 and depth[20, 2] == 7
    assert image[20, 20].max() < 40 < image[20, 2].min()
    behind = Camera(eye=(0, 9, 1), target=(0, 0, 1), fov_deg=50, height=40, width=40)
    image, depth = backdrop.draw_backdrop(alone(far, near), behind, LAMP)
    assert not image.any() and depth.min() > 1000


def test_shade_follows_the_light() -> None:
    camera = Camera(eye=(0, -4, 1), target=(0, 0, 1), fov_deg=50, height=40, width=40)
    image, _ = backdrop.draw_backdrop(alone(make_card((8, 8), (0, 3, -3), "lamp")), camera, LAMP)
    pool = prints.pool()
    level = 0.5 + 0.5 * 0.6  # the wall faces -y
    np.testing.assert_allclose(image[20, 20], pool.read_texture("lamp")[64, 64, :3] * level, atol=1)


def test_numpy_and_numba_draw_the_same(
    world: list[StagedPlace], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    fast = [backdrop.draw_backdrop(place, nominal(place, 3), place.light) for place in world]
    monkeypatch.setattr(backdrop, "HAS_NUMBA", False)
    for place, (image, depth) in zip(world, fast, strict=True):
        plain_image, plain_depth = backdrop.draw_backdrop(place, nominal(place, 3), place.light)
        np.testing.assert_array_equal(depth, plain_depth)
        assert np.abs(image.astype(int) - plain_image).max() <= 1


def test_everything_is_covered_and_neither_black_nor_white(world: list[StagedPlace]) -> None:
    rng = np.random.default_rng(1)
    for place in world:
        image, depth = backdrop.draw_backdrop(
            place, nominal(place, 0), places.sample_take_light(place, rng=rng)
        )
        assert depth.max() < 500, place.name
        assert 45 < image.mean() < 215, place.name
        assert image.std() > 10, place.name


def test_the_pool_is_shared_and_cannot_be_written_to() -> None:
    pool = prints.pool()
    assert pool is prints.pool()
    with pytest.raises(ValueError, match="read-only"):
        pool.texels[0] = 0
    grey = [
        pool.read_texture(name)[..., :3].mean() for name in ("brick", "tiles", "carpet", "dots")
    ]
    assert max(grey) - min(grey) < 6  # patterns differ, means do not


def test_the_fan_of_views_is_symmetric_about_the_front() -> None:
    angles = [solids.compute_azimuth_deg(view) for view in range(NUM_VIEWS)]
    assert np.mean(angles) == -90 and np.diff(angles).min() >= 20
