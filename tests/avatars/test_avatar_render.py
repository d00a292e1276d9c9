"""Figures are drawn over a background that stays as it is, with exact coverage and depth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")
pytest.importorskip("cv2")

import few_tracks as few
from masquerade.avatars import render
from masquerade.avatars.body import StandIn
from masquerade.stage import bodies, figure, raster
from masquerade.stage.bodies import BodyShape
from masquerade.stage.look import sample_appearance
from masquerade.stage.raster import SceneLight

CAMERA = replace(few.CAMERA, height=120, width=160)
PLACE = np.random.default_rng(0).integers(0, 256, (120, 160, 3), np.uint8)


def made(*, at: tuple[float, float] = (0.0, 0.0), start: int = 2) -> StandIn:
    person = few.someone(1)
    posed = few.played("walk", person, seconds=0.3, at=at)
    worn = sample_appearance(is_feminine=True, age=0.2, rng=np.random.default_rng(1))
    return StandIn(
        start=start,
        stop=start + len(posed.heads),
        shape=BodyShape(),
        look=worn,
        person=person,
        posed=posed,
        trust=np.ones(len(posed.heads)),
    )


def drawn(*figures: StandIn, number: int = 3, shadow: bool = False) -> render.RenderedFrame:
    return render.render_figures(
        figures, number, PLACE, camera=CAMERA, light=few.LIGHT, shadow=shadow
    )


def test_only_what_a_figure_covers_changes() -> None:
    before = PLACE.copy()
    found = drawn(made())
    assert np.array_equal(PLACE, before)
    assert np.array_equal(found.image[found.alpha == 0], PLACE[found.alpha == 0])
    assert set(np.unique(found.alpha).tolist()) <= {0.0, 0.25, 0.5, 0.75, 1.0}
    assert 200 < (found.alpha == 1).sum() < 4000
    assert np.array_equal(found.owner >= 0, found.alpha > 0)
    assert np.array_equal(np.isfinite(found.depth), found.alpha > 0)
    assert np.abs(np.median(found.depth[found.alpha == 1]) - 5.0) < 0.5


def test_what_is_wholly_covered_owes_nothing_to_the_background() -> None:
    one = made()
    first = drawn(one)
    other = render.render_figures([one], 3, 255 - PLACE, camera=CAMERA, light=few.LIGHT)
    assert np.array_equal(first.alpha, other.alpha)
    assert np.array_equal(first.image[first.alpha == 1], other.image[first.alpha == 1])


def test_it_is_the_picture_that_stage_draws() -> None:
    one = made()
    behind = PLACE, np.full(PLACE.shape[:2], 50.0)
    whole = figure.draw_people(
        bodies.load_body_model(), [(one.person, one.posed)], behind, camera=CAMERA, light=few.LIGHT
    )
    apart = np.abs(drawn(one).image.astype(int) - whole.image[1])
    assert apart.max() <= 1


def test_before_and_after_a_figure_there_is_none() -> None:
    one = made()
    for number in (one.start - 1, one.stop):
        found = drawn(one, number=number)
        assert np.array_equal(found.image, PLACE) and not found.alpha.any()
    assert np.array_equal(drawn().image, PLACE)


def test_the_nearer_of_two_hides_the_other_in_whatever_order() -> None:
    near, far = made(at=(0.1, -1.0)), made(at=(0.0, 1.0))
    one, other = drawn(near, far), drawn(far, near)
    assert np.array_equal(one.image, other.image) and np.array_equal(one.alpha, other.alpha)
    assert (one.owner == 0).sum() > (one.owner == 1).sum() > 0
    alone = drawn(near)
    assert np.array_equal(one.owner == 0, alone.alpha > 0)


def test_a_shadow_is_part_of_what_is_drawn_and_never_all_of_it() -> None:
    plain, shaded = drawn(made()), drawn(made(), shadow=True)
    only = (shaded.alpha > 0) & (plain.alpha == 0)
    assert only.sum() > 20 and shaded.alpha[only].max() < 1
    assert (shaded.owner[only] == -1).all() and np.isinf(shaded.depth[only]).all()
    assert (shaded.image[only] <= PLACE[only]).all()
    assert np.array_equal(shaded.image[shaded.alpha == 0], PLACE[shaded.alpha == 0])


def test_out_of_sight_is_out_of_the_picture() -> None:
    for at in ((40.0, 0.0), (0.0, -9.0)):
        found = drawn(made(at=at), shadow=True)
        assert np.array_equal(found.image, PLACE) and not found.alpha.any()


def test_light_follows_the_place() -> None:
    bright, dark = (np.full((60, 80, 3), level, np.uint8) for level in (220, 30))
    assert (
        render.estimate_light(bright, CAMERA).colour[0]
        > 1.5 * render.estimate_light(dark, CAMERA).colour[0]
    )
    red = np.zeros((60, 80, 3), np.uint8)
    red[..., 0] = 200
    light = render.estimate_light(red, CAMERA)
    assert light.colour[0] > 1.3 * light.colour[2]
    side = np.full((60, 80, 3), 60, np.uint8)
    side[:, 40:] = 200
    assert render.estimate_light(side, CAMERA).towards[0] > 0.2
    assert abs(np.linalg.norm(render.estimate_light(side, CAMERA).towards) - 1) < 1e-9


def test_numba_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    one = made()
    quick = drawn(one)
    monkeypatch.setattr(raster, "HAS_NUMBA", False)
    slow = drawn(one)
    assert np.array_equal(quick.alpha, slow.alpha)
    assert np.abs(quick.image.astype(int) - slow.image).max() <= 1
    assert not raster.HAS_NUMBA


def test_a_background_of_another_size_is_refused() -> None:
    light = SceneLight(towards=(0.0, 0.0, 1.0), colour=(1.0, 1.0, 1.0), ambient=0.5)
    with pytest.raises(ValueError, match="120 x 160"):
        render.render_figures([], 0, PLACE[:50], camera=CAMERA, light=light)
