"""MaskDP's settings: the paper's numbers, ours, and what is refused before anything is read."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from masquerade import catalog
from masquerade.recordings import Video

torch = pytest.importorskip("torch")

from experiments.mask_dp import (  # noqa: E402
    CHOSEN,
    CONTEXT,
    EPSILONS,
    MaskDpSettings,
    copy_video,
)

PUBLISHED = "MaskDP as published"
ROWS = ("public part only", "DP", "MultiClip", "MaskDP", PUBLISHED, "DP from scratch")


def noisy() -> Video:
    rng = np.random.default_rng(3)
    mask = np.zeros((20, 64, 64), bool)
    mask[:, 10:40, 20:40] = True
    frames = rng.integers(0, 256, (20, 64, 64, 3), np.uint8)
    return Video(frames=frames, rate_hz=10, activity="walk", person_mask=mask)


def test_the_private_side_and_the_view_reach_every_method_that_has_one() -> None:
    for name in ("MaskDP", PUBLISHED, "public part only"):
        sizes = {"batch": 9, "mask_batch": 9, "public_batch": 9}
        made = MaskDpSettings(private="person", **sizes).build_method(name, 1.0)  # type: ignore[arg-type]
        assert made.private == "person" and made.public_batch == 9  # type: ignore[attr-defined]
        assert MaskDpSettings().build_method(name, 1.0).private == "background"  # type: ignore[attr-defined]
    assert MaskDpSettings(view="private").build_method("MaskDP").private_side == "private"
    assert MaskDpSettings(view="private").build_method(PUBLISHED).private_side == "tokens"


def test_quick_has_every_kind_of_row_and_several_worlds_have_four() -> None:
    quick = MaskDpSettings(quick=True, from_scratch=True)
    assert tuple(quick.columns) == ("public weights alone", *ROWS)
    assert quick.columns["DP from scratch"] == (1.0,) and quick.settle().part == "head"
    every = MaskDpSettings(from_scratch=True).columns
    assert every == dict.fromkeys(("public weights alone", *ROWS), EPSILONS)
    assert tuple(MaskDpSettings().columns) == ("public weights alone", *ROWS[:-1])
    assert tuple(MaskDpSettings(correlations=(0.0, 0.9)).columns) == CONTEXT


PRINTED = {  # [schneider2024, Sec. 5.2 and 13]
    "network": "mvit_v2_s",
    "part": "last_norms",
    "batch": 128,
    "clip_norm": 1.0,
    "learning_rate": 0.01,
    "clean_learning_rate": 0.01,
    "mask_learning_rate": 0.01,
    "published_learning_rate": 0.01,
    "warmup_epochs": 20.0,
    "schedule": "cosine",
    "epsilons": (0.1, 0.25, 0.5, 0.75, 1.0, 5.0, math.inf),
    "scratch_epochs": 300.0,
}


@pytest.mark.parametrize(
    ("name", "epochs", "delta"),
    [("ucf101", 300.0, 1e-5), ("ntu_rgbd", 150.0, 1e-6), ("toyota_smarthome", 150.0, 1e-5)],
)
def test_the_papers_setting_is_what_is_printed(name: str, epochs: float, delta: float) -> None:
    plan = MaskDpSettings(setting="paper").settle(catalog.make_example("datasets", name))
    known = {field: getattr(plan, field) for field in PRINTED}
    assert known == PRINTED and (plan.epochs, plan.delta) == (epochs, delta)
    made = plan.build_method(PUBLISHED, 1.0)
    assert made.active_momentum == 0 and made.warmup == pytest.approx(20 / epochs)
    assert made.delta == delta and made.epochs == epochs and made.private_side == "tokens"
    assert any("momentum" in said for said in plan.left_open)
    other = replace(MaskDpSettings(setting="paper"), epochs=3.0, delta=1e-4).settle()
    assert (other.epochs, other.delta, other.batch) == (3.0, 1e-4, 128), "a flag is stronger"


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"epsilons": (0.0,)}, "epsilons"),
        ({"epsilons": ()}, "epsilon"),
        ({"correlations": (1.5,)}, "correlations"),
        ({"relations": ()}, "relation"),
        ({"delta": 2.0}, "delta"),
        ({"mask_learning_rate": -1.0}, "mask_learning_rate"),
        ({"seeds": 0}, "seeds"),
        ({"setting": "paper", "from_scratch": True}, "--from-scratch"),
    ],
)
def test_a_wrong_number_is_refused_before_anything_is_read(wrong: Any, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        MaskDpSettings(**wrong)


def test_what_differs_between_relations_stays_open_until_one_is_asked_for() -> None:
    both = MaskDpSettings(private="person", relations=("replace_one", "zero_out"))
    for plan in (both, both.settle()):
        for relation in both.relations:
            alone = MaskDpSettings(private="person", relations=(relation,)).settle()
            assert all(getattr(alone, name) is not None for name in CHOSEN)
            for name in ("DP", "MaskDP"):
                assert plan.build_method(name, 1.0, relation=relation) == alone.build_method(
                    name, 1.0, relation=relation
                )
    given = replace(both, mask_learning_rate=0.3, weight=2.0).settle()
    for relation in both.relations:
        made = given.build_method("MaskDP", 1.0, relation=relation)
        assert (made.learning_rate, made.weight) == (0.3, 2.0), "a flag is stronger"  # type: ignore[attr-defined]


def test_one_way_to_read_serves_both_relations() -> None:
    for private in ("background", "person"):
        both = MaskDpSettings(private=private, relations=("replace_one", "zero_out"))  # type: ignore[arg-type]
        plan = both.settle()
        assert plan.view is not None and plan.part is not None and plan.public_batch is not None


def test_copies_are_cut_and_mirrored_with_their_mask() -> None:
    film = noisy()
    made = [copy_video(film, rng=np.random.default_rng(seed)) for seed in range(8)]
    assert {one.frames.shape for one in made} == {(20, 58, 58, 3)}
    assert len({one.frames.tobytes() for one in made}) > 6
    for one in made:
        assert one.person_mask is not None and film.person_mask is not None
        inside = film.frames[film.person_mask].reshape(-1, 3)
        known = {tuple(pixel) for pixel in inside.tolist()}
        assert all(tuple(pixel) in known for pixel in one.frames[one.person_mask][:50].tolist())


def test_rows_are_compared_at_equal_noise() -> None:
    plan = MaskDpSettings(epochs=2.0, batch=128, mask_batch=128)
    plans = {name: plan.build_method(name, 1.0).plan_run(864) for name in ROWS}
    same = {plans[name].noise_multiplier for name in ("DP", "MultiClip", "MaskDP")}
    assert len(same) == 1
    assert plans[PUBLISHED].noise_multiplier < min(same)
    assert plans["public part only"].noise_multiplier == 0
    assert plans["DP from scratch"].steps > plans["DP"].steps
