"""Photos as rows: a loss of each record alone, nothing from who has no joint, and one spine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from few_photos import FewPhotos, trains_poses
from masquerade import joints
from masquerade.errors import BadInput
from masquerade.guarantee import Unit, UnitName
from masquerade.ledger import Content, Ledger
from masquerade.ledger.filter import FilterName
from masquerade.networks import picture_crops, tiny_vit_pose
from masquerade.networks.network import MvitSmall, TinyVitSmall
from masquerade.publish.models import make_method
from masquerade.publish.receipts import check_receipt
from masquerade.training import gradients, learner, loop, rows
from masquerade.training.learner import MemorySettings, load_model
from masquerade.training.method import check_pairing
from masquerade.training.step import PrivateSum

torch = pytest.importorskip("torch")
torch.set_num_threads(1)
EXACT = {"epsilon": float("inf"), "unit": "record", "batch": 4, "epochs": 1.0}


@pytest.fixture(scope="module")
def reading() -> Any:
    """The photos, read for training the head."""
    with learner.read_recordings(
        FewPhotos(), make_method("dp_sgd", **EXACT), TinyVitSmall()
    ) as found:
        yield found


def head_and_lesson() -> tuple[Any, dict[str, Any], Any, Any]:
    torch.manual_seed(0)
    head = tiny_vit_pose.SimccHead(160, 16)
    features = torch.randn(4, 160, 8, 6)
    targets = torch.rand(4, 16, 3) * torch.tensor([192.0, 256.0, 1.0])
    targets[..., 2] = 1.0
    return head, dict(head.named_parameters()), features, targets


def test_no_record_moves_the_gradient_of_another() -> None:
    head, weights, features, targets = head_and_lesson()

    def loss(held: Any, one: Any, wanted: Any) -> Any:
        return head.losses(
            torch.func.functional_call(head, dict(held), (one[None],)), wanted[None]
        )[0]

    before = gradients.per_record(loss, weights, features, targets, chunk=4)
    other, swapped = targets.clone(), features.clone()
    other[0, :8, 2] = 0.0  # half of one person's joints are hidden, and it looks different
    swapped[0] += 1.0
    after = gradients.per_record(loss, weights, swapped, other, chunk=4)
    for name, value in before.items():
        assert torch.allclose(value[1:], after[name][1:], rtol=1e-5, atol=1e-9)
        assert not torch.allclose(value[0], after[name][0], rtol=1e-3)


def test_a_loss_weighted_by_the_batch_would_move_the_others() -> None:
    """As the published code weighs joints: the mean over a batch, times the batch's weights."""
    head, weights, features, targets = head_and_lesson()

    def share_of_one(wanted: Any) -> Any:
        said = torch.func.functional_call(head, weights, (features,))
        total = (head.losses(said, wanted) * wanted[..., 2].mean()).mean()
        return torch.autograd.grad(total, [head.x.weight])[0]

    hidden = targets.clone()
    hidden[0, :, 2] = 0.0
    own = targets.clone()[1:]
    alone = torch.autograd.grad(head.losses(head(features[1:]), own).sum() / 4, [head.x.weight])[0]
    assert not torch.allclose(share_of_one(hidden), alone, rtol=1e-2)


def test_a_photo_without_a_joint_in_its_crop_adds_exactly_nothing(reading: Any) -> None:
    rows = reading.rows
    assert rows.num_units == 8 and rows.slots[:, 0].tolist() == [-1, -1, 2, 3, 4, 5, 6, 7]
    weights = {name: w for name, w in reading.tail.named_parameters() if w.requires_grad}
    loss = loop._make_loss(reading.tail, reading.method, rows)
    sums = PrivateSum(loss, weights, rows, reading.plan, physical=4, see=lambda inputs: inputs)
    nobody = sums.sum_cells(np.array([0, 1]))
    assert not any(value.any() for value in nobody.values())
    somebody = sums.sum_cells(np.array([0, 1, 2]))
    assert any(value.any() for value in somebody.values())


def test_targets_leave_out_joints_that_are_missing_or_outside() -> None:
    region = picture_crops.find_pose_square((10, 10, 30, 40), enlarged=1.0)
    body = np.array([[10.0, 10.0], [39.9, 49.9], [9.0, 20.0], [np.nan, 20.0], [25.0, 51.0]])
    found = picture_crops.make_crop_targets(body, region, 5)
    assert found[:, 2].tolist() == [1, 1, 0, 0, 0] and np.isfinite(found).all()
    assert (
        found[0].tolist() == [0, 0, 1]
        and not picture_crops.make_crop_targets(None, region, 5).any()
    )


def test_photos_have_records_and_no_masks_segments_or_classes() -> None:
    network = TinyVitSmall()
    for fields, said in (
        ({"unit": "video"}, "Expected --unit record or --unit subject with photos"),
        ({"segments": 2}, "Expected segments=1 with photos"),
        ({"class_weights": (1.0, 2.0)}, "Expected no class_weights with joints"),
    ):
        with pytest.raises(ValueError, match=said):
            check_pairing(make_method("dp_sgd", **(EXACT | fields)), network)
    with pytest.raises(ValueError, match="Expected a method without masks for photos, got mask_dp"):
        check_pairing(make_method("mask_dp", **EXACT), network)
    with pytest.raises(ValueError, match="Expected --unit video or --unit subject with videos"):
        check_pairing(make_method("dp_sgd", **EXACT), MvitSmall())
    with pytest.raises(ValueError, match="Unknown part 'last_stage'"):
        check_pairing(
            make_method("dp_sgd", **(EXACT | {"unit": "video", "part": "last_stage"})), MvitSmall()
        )


def test_another_number_of_joints_is_a_fault_that_names_nobody() -> None:
    method = make_method("dp_sgd", **EXACT)
    with (
        pytest.raises(BadInput, match="Expected private recordings that can be used"),
        learner.read_recordings(FewPhotos(count=17), method, TinyVitSmall()),
    ):
        pass


def test_a_model_of_joints_has_a_receipt_and_is_read_again(tmp_path: Path) -> None:
    done = trains_poses(tmp_path / "m.safetensors", epsilon=8.0)
    receipt = check_receipt(tmp_path / "m.safetensors")
    assert 7.9 < (receipt.guarantee.epsilon or 0) <= 8
    assert receipt.guarantee.unit.name is UnitName.RECORD
    assert any("several people" in said for said in receipt.guarantee.not_protected)
    net, network, names, said = load_model(done.value)
    assert names == joints.MPII and network == TinyVitSmall() and "activities" not in said
    before = TinyVitSmall().make(16, seed=0).state_dict()
    moved = [key for key, value in net.state_dict().items() if not torch.equal(value, before[key])]
    assert moved and all(key.startswith("head.") for key in moved)


@pytest.mark.parametrize("part", ["last_stage", "all"])
def test_every_part_learns(part: str, tmp_path: Path) -> None:
    ways = learner.ComputeSettings(memory=MemorySettings(most_mb=64))
    done = trains_poses(tmp_path / "m.safetensors", part=part, epochs=0.5, ways=ways)
    net, before = load_model(done.value).net, TinyVitSmall().make(16, seed=0).state_dict()
    name = "backbone.stages.3.blocks.0.mlp.fc1.weight"
    assert not torch.equal(net.state_dict()[name], before[name])
    frozen = "backbone.stages.2.blocks.0.mlp.fc1.weight"
    assert torch.equal(net.state_dict()[frozen], before[frozen]) == (part == "last_stage")


def test_people_are_units_of_their_own_and_a_ledger_charges_them(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "budget.db")
    subject = Unit(name=UnitName.SUBJECT)
    ledger.open_account("ward", subject, epsilon=20.0, delta=1e-5, rule=FilterName.RENYI)
    ledger.add_contents(
        "ward", [(Content.from_value(photo), photo.subject) for photo in FewPhotos()]
    )
    done = trains_poses(
        tmp_path / "m.safetensors", epsilon=8.0, unit="subject", ledger=ledger, batch=2
    )
    assert done.receipt.ledger_sequence is not None and done.receipt.shapes == ((3,),)
    spent = [entry for entry in ledger.read_entries() if entry.kind == "reserve"]
    assert len(spent[0].payload["charges"]) == 3


def test_what_is_found_lies_in_the_picture_it_was_found_in() -> None:
    net = TinyVitSmall().make(16, seed=0).eval()
    photo = FewPhotos()[3]
    near = rows.find_joints(net, [(photo.image, (25.0, 20.0, 40.0, 40.0))], smoothing=3.0)
    away = np.pad(photo.image, ((20, 0), (30, 0), (0, 0)))
    moved = rows.find_joints(net, [(away, (55.0, 40.0, 40.0, 40.0))], smoothing=3.0)
    assert np.isfinite(near.joints).all() and ((near.scores >= 0) & (near.scores <= 1)).all()
    assert np.median(np.abs(moved.joints - near.joints - [30, 20])) < 1.0
    flipped = tiny_vit_pose.predict_joint_logits(net, torch.zeros(1, 3, 256, 192), is_flipped=True)
    assert flipped.shape == (1, 16, 896)
