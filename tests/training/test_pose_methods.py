"""Photos with public pictures and a public subspace: what is public, what moves, what is said."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from few_photos import FewPhotos
from masquerade import joints
from masquerade.errors import BadInput
from masquerade.io.video import read as reader
from masquerade.networks.network import TinyVitSmall
from masquerade.noise import Noise
from masquerade.publish.models import SHEET_SUFFIX, make_method, train_file
from masquerade.publish.receipts import check_receipt
from masquerade.receipt import sidecar_path
from masquerade.recordings import Photo
from masquerade.training import learner
from masquerade.training.method import Method
from masquerade.training.methods import FeatureDp, PublicFeatures
from masquerade.training.rows import PoseReader

torch = pytest.importorskip("torch")
torch.set_num_threads(1)
SHORT = {"unit": "record", "epsilon": 8.0, "batch": 4, "epochs": 1.0}
GUIDED = {"public_records": 5, "directions": 3}


@dataclass(frozen=True, kw_only=True)
class OtherPhotos(FewPhotos):
    """Other photos of other people."""

    def _load(self, index: int) -> Photo:
        found = super()._load(index)
        return replace(found, image=255 - found.image, subject=f"o{index % 3}")


def method_of(name: str, **fields: Any) -> Method:
    guided = GUIDED if "proj" in name else {}
    method: Method = make_method(name, **(SHORT | guided | fields))
    return method


def rows_of(image: np.ndarray, box: Any = None, name: str = "feature_dp", **fields: Any) -> Any:
    body = np.full((16, 2), 50.0)
    photo = Photo(image=image, joints=body, visible=np.ones(16, bool), box=box)
    return PoseReader(method_of(name, **fields), joints.MPII).make_training_rows(photo)[0]


@pytest.mark.parametrize("box", [None, (30.0, 40.0, 12.0, 16.0)])
def test_psi_is_of_the_photos_own_pixels_and_of_nothing_else(box: Any) -> None:
    """Two photos that differ within blocks alone, whoever is cut out of them."""
    one = np.random.default_rng(0).integers(0, 256, (256, 192, 3), np.uint8)
    other = one.reshape(16, 16, 12, 16, 3)[:, ::-1, :, ::-1].reshape(one.shape)
    rows = [rows_of(image, box) for image in (one, other)]
    assert torch.equal(rows[0]["public"], rows[1]["public"])
    assert not torch.equal(rows[0]["private"], rows[1]["private"])
    alone = rows_of(one, box, "public_features")
    assert torch.equal(alone["private"], rows[0]["public"])


def test_many_small_boxes_rebuild_no_more_of_a_photo_than_its_blocks() -> None:
    """Thirty-six boxes of 16 x 12 pixels, each of which was a picture of its own once."""
    photo = np.random.default_rng(0).integers(0, 256, (24, 18, 3), np.uint8)
    photo = photo.repeat(4, axis=0).repeat(4, axis=1)
    grid = np.mgrid[0:96:16, 0:72:12].reshape(2, -1).T
    seen = [rows_of(photo, (x, y, 12, 16), block=16, bits=8)["public"] for y, x in grid]
    scale = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
    rebuilt = np.zeros(photo.shape)
    for (y, x), crop in zip(grid, seen, strict=True):
        shown = ((crop[0] * scale + mean) * 255)[:, 26:230, 19:173]  # the box within its crop
        small = torch.nn.functional.adaptive_avg_pool2d(shown, (16, 12))
        rebuilt[y : y + 16, x : x + 12] = small.permute(1, 2, 0).numpy()
    assert np.abs(rebuilt - photo).mean() > 50, "64 is all that there is; 21 where crops had blocks"


def test_a_model_of_poses_says_that_joints_are_public(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    how = method_of("feature_projective", part="head")
    train_file(FewPhotos(), path, how, TinyVitSmall(), public=OtherPhotos())
    receipt = check_receipt(path)
    assert {"psi_sha256", "guide_sha256"} <= set(receipt.fields)
    said = " ".join(receipt.guarantee.assumed_public)
    assert "joints" in said and "5 recordings beside the private ones" in said
    (sheet,) = reader.read_frames(sidecar_path(path, SHEET_SUFFIX))
    assert sheet.shape == (3 * 80, 3 * 90, 3), "whole photos"


def test_a_photo_that_shows_a_public_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not among the private ones"):
        train_file(
            FewPhotos(),
            tmp_path / "m.safetensors",
            method_of("projected"),
            TinyVitSmall(),
            public=FewPhotos(),
        )


@pytest.mark.parametrize("part", ["last_stage", "all"])
def test_what_is_frozen_stays_and_the_rest_moves(part: str) -> None:
    how = method_of("feature_projective", part=part, recordings=2, unit="subject", batch=3)
    network = TinyVitSmall(from_scratch=part == "all")
    with learner.read_recordings(FewPhotos(), how, network, public=OtherPhotos()) as reading:
        before = {name: value.clone() for name, value in reading.net.state_dict().items()}
        net = reading.learn(Noise())
    moved = {n for n, v in net.state_dict().items() if not torch.equal(v, before[n])}
    frozen = {n for n in before if n.startswith("backbone.patch_embed")}
    assert any(name.startswith("head.") for name in moved)
    assert any(name.startswith("backbone.stages.3") for name in moved)
    assert bool(frozen & moved) is (part == "all")


def taught_by_public_pictures(seed: int, *, public_batch: int) -> tuple[Any, Any]:
    """Trained weights before and after, all in a row."""
    how = method_of(
        "public_features",
        part="last_stage",
        public_seed=seed,
        public_batch=public_batch,
        optimiser="sgd",
        learning_rate=0.01,
    )
    with learner.read_recordings(FewPhotos(), how, TinyVitSmall()) as reading:
        kept = [held for held in reading.tail.parameters() if held.requires_grad]
        before = torch.cat([held.detach().flatten().clone() for held in kept])
        reading.learn(Noise())
        return before, torch.cat([held.detach().flatten() for held in kept])


def test_public_pictures_move_the_weights_by_batches_of_the_seed() -> None:
    before, one = taught_by_public_pictures(0, public_batch=4)
    _, again = taught_by_public_pictures(0, public_batch=4)
    start, other = taught_by_public_pictures(1, public_batch=4)
    assert torch.equal(before, start)  # public weights: the seed decides nothing there
    moved = (one - before).norm()
    assert moved > 0 and (one - again).norm() < 1e-3 * moved
    assert (one - other).norm() > 0.05 * moved


def test_a_public_batch_of_everyone_makes_all_seeds_agree() -> None:
    before, one = taught_by_public_pictures(0, public_batch=8)
    _, other = taught_by_public_pictures(1, public_batch=8)
    moved = (one - before).norm()
    assert moved > 0 and (one - other).norm() < 1e-3 * moved


def test_lambda_fades_by_the_step_alone() -> None:
    stays = FeatureDp(epsilon=1.0, unit="record", weight=0.5)
    fades = FeatureDp(epsilon=1.0, unit="record", weight=0.5, fade="cosine")
    alone = PublicFeatures(epsilon=1.0, unit="record", weight=0.5, fade="cosine")
    assert [stays.public_weight(step, 10) for step in (0, 9)] == [0.5, 0.5]
    assert fades.public_weight(0, 10) == 0.5 and fades.public_weight(5, 10) == pytest.approx(0.25)
    assert fades.public_weight(9, 10) < 0.02
    assert alone.public_weight(9, 10) == 0.5  # nothing would be left of it
    assert fades.plan_run(1000).noise_multiplier == stays.plan_run(1000).noise_multiplier
