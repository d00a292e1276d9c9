"""Films drawn together with torch: the pictures that the processor draws, whatever the order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from masquerade.datasets.stage import Stage
from masquerade.stage import backdrop, bodies, figure, figure_gpu, plan, raster, store, takes
from masquerade.stage.plan import WorldPlan
from masquerade.stage.raster import Camera

pytestmark = pytest.mark.usefixtures("in_world")
SMALL = WorldPlan(
    subjects=6,
    places=4,
    frames=3,
    height=48,
    width=64,
    videos=24,
    photos=24,
    photo_px=64,
    bystanders=0.5,
)


@pytest.fixture(scope="module", autouse=True)
def own_cache(world_cache: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MASQUERADE_CACHE", str(world_cache))
        yield


def together(kind: str, numbers: range) -> list[takes.StagedFilm]:
    some = [store.prepare_film(SMALL, number, kind=kind) for number in numbers]
    return store.draw_batch(some, device="cpu")


@pytest.fixture(scope="module")
def films(own_cache: None) -> dict[str, list[takes.StagedFilm]]:
    return {kind: together(kind, range(6)) for kind in ("videos", "photos")}


@pytest.mark.parametrize("kind", ["videos", "photos"])
def test_torch_and_the_processor_draw_the_same(
    films: dict[str, list[takes.StagedFilm]], kind: str
) -> None:
    assert {len(film.joints) for film in films["videos"]} == {1, 2}, "nobody stands by"
    for number, film in enumerate(films[kind]):
        alone = takes.shoot_take(SMALL, plan.plan_take(SMALL, number, kind=kind), kind=kind)
        other = films[kind][(number + 1) % 6]
        same = film.owner == alone.owner
        assert (film.owner >= 0).any() and same.mean() > 0.999
        apart = np.abs(film.frames.astype(int) - alone.frames).max(axis=-1)
        assert apart[same].max() <= 1
        assert np.abs(film.frames.astype(int) - other.frames).max() > 50  # the test can fail
        assert (film.visible == alone.visible).mean() > 0.99
        for name in ("joints", "joints_3d", "head_box", "box"):
            assert np.allclose(getattr(film, name), getattr(alone, name), atol=1e-6), name
            assert getattr(film, name).shape == getattr(alone, name).shape


def test_outside_the_mask_a_frame_is_the_empty_place(
    films: dict[str, list[takes.StagedFilm]],
) -> None:
    for number, film in enumerate(films["videos"]):
        place = takes.render_empty_place(SMALL, plan.plan_take(SMALL, number, kind="videos"))
        for frame, owner in zip(film.frames, film.owner, strict=True):
            assert np.array_equal(frame[owner < 0], place[owner < 0])


def test_places_are_drawn_as_they_are_alone() -> None:
    scripts = [
        takes.play_take(SMALL, plan.plan_take(SMALL, number, kind="videos"), kind="videos")
        for number in range(5)
    ]
    given = [(one.stage_place, one.camera, one.light) for one in scripts]
    views = [backdrop.find_quads_in_view(*one) for one in given]
    images, depths = backdrop.draw_backdrops(views, SMALL.height, SMALL.width, device="cpu")
    for image, depth, one in zip(images.numpy(), depths.numpy(), given, strict=True):
        picture, away = backdrop.draw_backdrop(*one)
        assert np.abs(image.astype(int) - picture).max() <= 1
        assert np.allclose(depth, away) and image.std() > 5


def test_how_many_candidates_are_looked_at_together_does_not_matter(
    monkeypatch: pytest.MonkeyPatch, films: dict[str, list[takes.StagedFilm]]
) -> None:
    monkeypatch.setattr(raster, "_CANDIDATES_PER_PART", {"cpu": 30_000})
    for film, before in zip(together("videos", range(2)), films["videos"], strict=False):
        assert np.array_equal(film.frames, before.frames)
        assert np.array_equal(film.owner, before.owner)


def test_the_nearest_is_seen_and_of_equals_the_first() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        at, number = rng.integers(0, 9, 60), rng.permutation(60)
        near, behind = rng.integers(1, 5, 60) / 4, rng.integers(1, 5, 9) / 4
        buffer = torch.tensor(behind)
        given = (torch.tensor(at), torch.tensor(near), torch.tensor(number, dtype=torch.int32))
        won = raster.find_winners(buffer, *given).numpy()
        expected = []
        for sample in range(9):
            mine = [k for k in np.flatnonzero(at == sample) if near[k] > behind[sample]]
            best = max((near[k] for k in mine), default=behind[sample])
            assert buffer[sample] == best
            expected += sorted((k for k in mine if near[k] == best), key=lambda k: number[k])[:1]
        assert sorted(won.tolist()) == sorted(expected)


def test_boxes_are_spread_into_their_samples() -> None:
    boxes = torch.tensor([[2, 4, 1, 4], [0, 1, 7, 8], [3, 3, 0, 9], [5, 8, 2, 3]])
    which, row, column = raster.list_candidates(boxes)
    expected = [
        (k, i, j)
        for k, (top, end, left, right) in enumerate(boxes.tolist())
        for i in range(top, end)
        for j in range(left, right)
    ]
    assert list(zip(which.tolist(), row.tolist(), column.tolist(), strict=True)) == expected
    assert [part.tolist() for part in raster.iter_box_parts(boxes)] == [[0, 1, 2, 3]]
    assert not list(raster.iter_box_parts(boxes[:0]))


def test_where_nobody_is_in_view_there_is_the_place_alone() -> None:
    played = takes.play_take(SMALL, plan.plan_take(SMALL, 1, kind="videos"), kind="videos")
    away = Camera(eye=(0.0, -3.0, 1.2), target=(0.0, -9.0, 1.0), fov_deg=40, height=48, width=64)
    place = torch.full((1, 48, 64, 3), 7, dtype=torch.uint8)
    scene = figure_gpu.UndrawnScene(played.list_dressed_people, away, played.light)
    (film,) = figure_gpu.draw_scenes(
        bodies.load_body_model(), [scene], (place, torch.full((1, 48, 64), 50.0))
    )
    assert (film.image == 7).all() and (film.owner == -1).all() and not film.visible.any()
    empty = place[0].numpy(), np.full((48, 64), 50.0, np.float32)
    alone = figure.draw_people(
        bodies.load_body_model(), played.list_dressed_people, empty, camera=away, light=played.light
    )
    assert (alone.image == 7).all() and not alone.visible.any()


@pytest.mark.parametrize("kind", ["videos", "photos"])
def test_a_world_is_kept_as_the_processor_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(store, "count_films_per_batch", lambda world, kind: 4)  # the last are fewer
    world, counts = replace(SMALL, videos=6, photos=6), list[int]()
    for name in ("processor", "torch"):
        (tmp_path / name).mkdir()
    store._fill_folder(world, kind, tmp_path / "processor", lambda done, total: None, 1)
    store._fill_folder_on_device(
        "cpu", world, kind, tmp_path / "torch", lambda done, total: counts.append(done), 1
    )
    assert counts == list(range(1, 7))
    first, second = (tmp_path / name for name in ("processor", "torch"))
    assert store.read_world_labels(first) == store.read_world_labels(second)
    for name, array in store.open_arrays(first, kind).items():
        other = np.asarray(store.open_arrays(second, kind)[name])
        assert other.shape == array.shape and other.dtype == array.dtype
        apart = np.abs(other.astype(float) - array.astype(float))
        assert (apart <= 1).mean() > 0.999 and array.any(), name


@pytest.mark.parametrize(("device", "said"), [("cuda", "without"), ("tpu", "cpu or cuda")])
def test_a_device_that_is_not_there_is_refused(device: str, said: str) -> None:
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(ValueError, match=said):
        Stage(videos=6).make_recordings(device=device)
