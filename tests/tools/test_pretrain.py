"""What a pose network is taught from: joints stay on their pixels, mirrored or not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade import joints
from masquerade.datasets.stage import Stage
from masquerade.stage.raster import Camera
from masquerade.stage.store import FIELDS

torch = pytest.importorskip("torch")
from tools import pretrain  # noqa: E402
from tools.pretrain import Pretrain  # noqa: E402

torch.set_num_threads(1)


def album(count: int = 6) -> Any:
    """Black photos with one white dot, at somebody's left wrist."""
    rng = np.random.default_rng(0)
    images = np.zeros((count, 128, 128, 3), np.uint8)
    body = rng.uniform(45, 80, (count, 17, 2))
    for image, (x, y) in zip(images, body[:, joints.COCO.index("left_wrist")], strict=True):
        image[int(y) - 1 : int(y) + 2, int(x) - 1 : int(x) + 2] = 255
    return pretrain.Album(
        images=images,
        joints=body,
        boxes=np.tile([30.0, 20.0, 60.0, 80.0], (count, 1)),
        head_px=np.full(count, 10.0),
        people=np.arange(count).astype(str),
    )


@pytest.mark.parametrize("is_jittered", [False, True])
def test_targets_lie_where_crops_show_the_joint(is_jittered: bool) -> None:
    held, rows = album(), np.arange(6)
    rng = np.random.default_rng(3) if is_jittered else None
    pictures = torch.from_numpy(held.images)
    crops, targets = pretrain.lesson(held, pictures, rows, joints.COCO, rng=rng)
    assert crops.shape == (6, 3, 256, 192) and targets[..., 2].min() == 1
    sides = [joints.COCO.index(f"{side}_wrist") for side in ("left", "right")]
    turned = 0
    for crop, target in zip(crops, targets, strict=True):
        place = int(crop.sum(dim=0).argmax())
        dot = torch.tensor([place % 192 + 0.5, place // 192 + 0.5])
        away = [float((target[one, :2] - dot).norm()) for one in sides]
        assert min(away) < 6, "left, or right where it is mirrored"
        turned += away[1] < away[0]
    assert (turned > 0) == is_jittered


def test_a_turned_camera_turns_what_it_sees() -> None:
    upright = Camera(eye=(4, 0, 1), target=(0, 0, 1), fov_deg=40, height=100, width=100)
    turned = replace(upright, roll_deg=90)
    above = np.array([[0.0, 0.0, 1.5]])
    x, y, depth = upright.project_points(above)[0]
    assert x == pytest.approx(50) and y < 40
    across, down, same = turned.project_points(above)[0]
    assert down == pytest.approx(50) and abs(across - 50) == pytest.approx(50 - y)
    assert same == pytest.approx(depth)
    assert np.allclose(turned.view_axes @ turned.view_axes.T, np.eye(3))


def test_only_photos_by_turned_cameras_are_other_photos() -> None:
    usual, turned = Stage().world, Stage(photo_roll_deg=40).world
    assert Stage(photo_roll_deg=0).world == usual
    for kind in ("videos", "photos"):
        same = usual.compute_fingerprint(kind, FIELDS[kind]) == turned.compute_fingerprint(
            kind, FIELDS[kind]
        )
        assert same == (kind == "videos")
    with pytest.raises(ValueError, match="Expected photo_roll_deg from 0 to 180"):
        Stage(photo_roll_deg=200)


def test_a_task_has_networks_of_its_own() -> None:
    assert Pretrain(task="pose").taught == "tiny_vit_small" and Pretrain().taught == "mvit_small"
    with pytest.raises(ValueError, match="Unknown network for pose 'mvit_small'"):
        Pretrain(task="pose", network="mvit_small")
    with pytest.raises(ValueError, match="Unknown network for activity 'tiny_vit_5m'"):
        Pretrain(network="tiny_vit_5m", out=Path("w"))
