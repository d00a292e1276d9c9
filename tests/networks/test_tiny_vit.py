"""TinyViT and its head: folding, cutting and decoding are exact, and weights find their joints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade import joints
from masquerade.errors import BadInput
from masquerade.networks import picture_crops, tiny_vit_layers, tiny_vit_pose
from masquerade.networks.network import TinyVit5M, TinyVitSmall

torch = pytest.importorskip("torch")
files = pytest.importorskip("safetensors.torch")
torch.set_num_threads(1)
NAME = "tiny_vit_small"


def shuffled(net: Any) -> Any:
    """The network with batch norms that do something."""
    for layer in net.modules():
        if isinstance(layer, torch.nn.Conv2d):
            torch.nn.init.kaiming_normal_(layer.weight)
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.running_mean.uniform_(-0.3, 0.3)
            layer.running_var.uniform_(0.5, 1.5)
            torch.nn.init.uniform_(layer.weight, 0.5, 1.5)
            torch.nn.init.uniform_(layer.bias, -0.3, 0.3)
    return net.eval()


@pytest.fixture(scope="module")
def plain() -> Any:
    torch.manual_seed(0)
    return shuffled(tiny_vit_pose.JointFinder(NAME, 17, is_folded=False))


@pytest.fixture(scope="module")
def crops() -> Any:
    return torch.randn(2, 3, 256, 192, generator=torch.Generator().manual_seed(1))


def near(one: Any, other: Any, share: float = 1e-4) -> bool:
    return float((one - other).abs().max()) <= share * float(other.abs().max())


def test_folding_batch_norms_leaves_the_function_as_it_is(plain: Any, crops: Any) -> None:
    folded = tiny_vit_pose.fold_joint_finder(plain).eval()
    assert not any(isinstance(layer, torch.nn.BatchNorm2d) for layer in folded.modules())
    with torch.no_grad():
        assert near(folded(crops), plain(crops))
        torch.nn.init.uniform_(folded.backbone.patch_embed.conv1.conv.bias, -1, 1)
        assert not near(folded(crops), plain(crops)), "the test can fail"


@pytest.mark.parametrize("part", tiny_vit_pose.PARTS)
def test_a_network_can_be_cut_before_what_is_trained(part: str, plain: Any, crops: Any) -> None:
    net = tiny_vit_pose.fold_joint_finder(plain)
    with torch.no_grad():
        whole = net(crops)
        trunk, tail = tiny_vit_pose.split_joint_finder(net, part)
        assert torch.equal(tail(trunk(crops)), whole)
    trained = {name for name, held in net.named_parameters() if held.requires_grad}
    assert trained == set(tiny_vit_pose.list_trainable_parameters(net, part))
    assert not any(held.requires_grad for held in trunk.parameters())


def test_the_papers_fine_tuning_trains_the_last_stage_and_every_norm(plain: Any) -> None:
    net = tiny_vit_pose.fold_joint_finder(plain)
    frozen = set(dict(net.named_parameters())) - set(
        tiny_vit_pose.list_trainable_parameters(net, "last_stage")
    )
    assert not any("stages.3." in name or ".norm." in name or "head." in name for name in frozen)
    assert any("stages.2." in name for name in frozen)
    with pytest.raises(ValueError, match="Unknown part 'tail'"):
        tiny_vit_pose.list_trainable_parameters(net, "tail")


def test_the_published_head_is_ours_in_another_basis() -> None:
    head = tiny_vit_pose.SimccHead(8, 3)
    features, weight = torch.randn(2, 8, 8, 6), torch.randn(tiny_vit_pose.BINS[0], 768)
    with torch.no_grad():
        maps = head.joints(features)
        large = torch.nn.functional.interpolate(
            maps, size=tiny_vit_pose.ENLARGED_MAP_SIZE, mode="bilinear"
        )
        head.x.weight.copy_(tiny_vit_pose.reduce_classifier(weight))
        head.x.bias.zero_()
        ours = head(features)[..., : tiny_vit_pose.BINS[0]]
    assert near(ours, large.flatten(2) @ weight.T)


def test_gradients_in_the_smaller_basis_are_as_long_as_in_the_published_one() -> None:
    head = tiny_vit_pose.SimccHead(8, 3)
    features, upstream = torch.randn(1, 8, 8, 6), torch.randn(1, 3, tiny_vit_pose.BINS[0])
    weight = torch.randn(tiny_vit_pose.BINS[0], 768, requires_grad=True)
    maps = head.joints(features).detach()
    large = torch.nn.functional.interpolate(
        maps, size=tiny_vit_pose.ENLARGED_MAP_SIZE, mode="bilinear"
    )
    (large.flatten(2) @ weight.T * upstream).sum().backward()
    (head(features)[..., : tiny_vit_pose.BINS[0]] * upstream).sum().backward()
    assert float(head.x.weight.grad.norm()) == pytest.approx(float(weight.grad.norm()), rel=1e-4)


def test_decoding_gives_back_what_was_encoded_to_the_last_digit() -> None:
    places = torch.rand(5, 16, 2, dtype=torch.float64) * torch.tensor([192.0, 256.0])
    places[0, :3] = torch.tensor([[0.0, 0.0], [191.9, 255.9], [96.0, 128.25]])
    logits = torch.cat(
        [
            tiny_vit_pose._smooth_targets(places[..., axis], tiny_vit_pose.BINS[axis], 3.0)
            for axis in (0, 1)
        ],
        dim=-1,
    )
    found = tiny_vit_pose.decode_joints(logits, smoothing=3.0)
    assert float((found.joints - places).abs().max()) < 1e-6
    inside = found.scores[1:]
    assert float(inside.min()) > 0.9 and float(inside.max()) <= 1.0
    flat = tiny_vit_pose.decode_joints(torch.zeros(1, 1, sum(tiny_vit_pose.BINS)), smoothing=3.0)
    assert torch.isfinite(flat.joints).all() and float(flat.scores) < 0.1


def test_the_mirror_of_a_mirrored_answer_is_the_answer() -> None:
    pairs = joints.find_mirror_order(joints.COCO)
    places = torch.rand(1, 17, 2, dtype=torch.float64) * 100 + 40
    turned = torch.stack([192 - places[..., 0], places[..., 1]], dim=-1)[:, pairs]
    logits, mirrored = (
        torch.cat(
            [
                tiny_vit_pose._smooth_targets(each[..., axis], tiny_vit_pose.BINS[axis], 3.0)
                for axis in (0, 1)
            ],
            dim=-1,
        )
        for each in (places, turned)
    )
    assert torch.allclose(tiny_vit_pose.unmirror_logits(mirrored, pairs), logits)
    both = tiny_vit_pose.decode_joints(
        tiny_vit_pose.average_answers(logits, tiny_vit_pose.unmirror_logits(mirrored, pairs)),
        smoothing=3.0,
    )
    assert float((both.joints - places).abs().max()) < 1e-6
    assert pairs[joints.COCO.index("left_eye")] == joints.COCO.index("right_eye")


def test_weights_of_coco_are_taken_joint_by_joint(plain: Any, crops: Any, tmp_path: Path) -> None:
    source = tmp_path / "coco.safetensors"
    source.write_bytes(files.save(tiny_vit_pose.fold_joint_finder(plain).state_dict()))
    net = TinyVitSmall(weights=source).make(16, seed=0).eval()
    with torch.no_grad():
        ours, theirs = net(crops), plain(crops)
    knee = joints.MPII.index("left_knee"), joints.COCO.index("left_knee")
    assert near(ours[:, knee[0]], theirs[:, knee[1]])
    hips = [joints.COCO.index(name) for name in ("left_hip", "right_hip")]
    pelvis = ours[:, joints.MPII.index("pelvis")]
    assert near(pelvis, theirs[:, hips].mean(dim=1))


def test_weights_are_read_under_timms_and_under_published_names(
    plain: Any, crops: Any, tmp_path: Path
) -> None:
    state = plain.state_dict()
    backbone = {key.removeprefix("backbone."): value for key, value in state.items()}
    timm = {key: value for key, value in backbone.items() if not key.startswith("head.")}
    torch.save(timm | {"head.fc.weight": torch.zeros(10, 160)}, tmp_path / "timm.pth")
    net = tiny_vit_pose.JointFinder(NAME, 17).eval()
    tiny_vit_pose.load_finder_weights(net, tmp_path / "timm.pth")
    with torch.no_grad():
        assert near(net.backbone(crops), plain.backbone(crops))
    basis, _ = torch.linalg.qr(tiny_vit_pose.make_enlarging_matrix())
    published = {key: value for key, value in state.items() if not key.startswith("head.")}
    for ours, theirs in (("x", "mlp_head_x"), ("y", "mlp_head_y")):
        published[f"head.{theirs}.weight"] = (
            state[f"head.{ours}.weight"].double() @ basis.T
        ).float()
        published[f"head.{theirs}.bias"] = state[f"head.{ours}.bias"]
    published |= {f"head.final_layer.{of}": state[f"head.joints.{of}"] for of in ("weight", "bias")}
    torch.save(published, tmp_path / "published.pth")
    tiny_vit_pose.load_finder_weights(net, tmp_path / "published.pth")
    with torch.no_grad():
        assert near(net(crops), plain(crops))


def test_weights_that_do_not_fit_are_refused(plain: Any, tmp_path: Path) -> None:
    net = tiny_vit_pose.JointFinder("tiny_vit_small", 16)
    state = {key: value for key, value in plain.state_dict().items() if "stages.3" not in key}
    torch.save(state, tmp_path / "part.pth")
    with pytest.raises(BadInput, match=r"Expected the weights of tiny_vit_small, got .*missing"):
        tiny_vit_pose.load_finder_weights(net, tmp_path / "part.pth")
    other = tiny_vit_pose.fold_joint_finder(plain).state_dict()
    other["head.joints.weight"] = torch.zeros(5, 160, 1, 1)
    torch.save(other, tmp_path / "five.pth")
    with pytest.raises(BadInput, match=r"Expected weights for 16, 17, 21 joints, got .* with 5"):
        tiny_vit_pose.load_finder_weights(net, tmp_path / "five.pth")
    with pytest.raises(ValueError, match=r"Expected --weights FILE .* of tiny_vit_5m .*neither"):
        TinyVit5M().make(16, seed=0)
    with pytest.raises(ValueError, match="Expected weights or from_scratch, got both"):
        TinyVitSmall(weights=Path("w"), from_scratch=True)


def test_the_published_sizes_are_the_published_sizes() -> None:
    with torch.device("meta"):
        sizes = {
            name: sum(held.numel() for held in tiny_vit_layers.TinyVit(shape).parameters())
            for name, shape in tiny_vit_layers.SHAPES.items()
        }
    assert sizes["tiny_vit_5m"] == 5_066_196  # timm's, folded, without the classifier
    assert sizes["tiny_vit_11m"] == 10_540_644 and sizes["tiny_vit_21m"] == 20_611_248


def test_a_crop_shows_what_is_in_its_region_and_grey_beyond() -> None:
    picture = np.zeros((80, 60, 3), np.uint8)
    picture[20:40, 15:30] = 250
    region = picture_crops.CropRegion(left=0, top=0, width=60, height=80)
    crop = picture_crops.crop_pose(picture, region)
    assert crop.shape == (256, 192, 3) and crop[70:120, 55:90].min() == 250
    corners = region.map_into_crop(np.array([[15.0, 20.0], [30.0, 40.0]]))
    assert np.allclose(corners, [[48, 64], [96, 128]])
    assert np.allclose(region.map_back(corners), [[15, 20], [30, 40]])
    away = picture_crops.crop_pose(picture, picture_crops.find_pose_square((200, 200, 10, 10)))
    assert (away == away[0, 0]).all() and 100 < away.mean() < 130, "grey"
    smaller = picture_crops.crop_pose(
        np.full((2000, 1500, 3), 9, np.uint8), picture_crops.find_pose_square((400, 400, 600, 800))
    )
    assert (smaller == 9).all()


@pytest.mark.parametrize("box", [None, (0, 0, 1, 1), (-1e6, -1e6, 3e6, 3e6), (5, 5, 1e-3, 1e-3)])
def test_a_picture_of_one_pixel_and_any_box_give_a_crop(box: Any) -> None:
    crop = picture_crops.crop_pose(
        np.full((1, 1, 3), 7, np.uint8), picture_crops.find_crop_region(np.zeros((1, 1, 3)), box)
    )
    assert crop.shape == (256, 192, 3)
