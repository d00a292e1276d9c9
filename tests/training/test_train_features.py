"""Public pictures teach without noise, public records guide it; neither holds anything private."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from few_films import Few
from masquerade.errors import BadInput
from masquerade.guarantee import Accountant, GuaranteeKind, Relation
from masquerade.io.video import read as reader
from masquerade.ledger import Content
from masquerade.networks.network import MvitSmall
from masquerade.publish.bills import make_run_cost
from masquerade.publish.collections import select_guides
from masquerade.publish.models import SHEET_SUFFIX, make_method, train_file
from masquerade.publish.receipts import check_receipt, make_promise
from masquerade.receipt import receipt_path, sidecar_path
from masquerade.recordings import Video
from masquerade.training import learner, loop
from masquerade.training.method import Method, check_pairing, make_training_plan
from masquerade.training.methods import FeatureProjective, Projected
from masquerade.wording import explain

torch = pytest.importorskip("torch")
torch.set_num_threads(1)
BLOCK = 8
FEW = {"unit": "video", "part": "head", "batch": 4, "epochs": 2.0, "block": BLOCK, "bits": 3}
GUIDED = {"public_records": 6, "directions": 4, "refresh": 2}


@dataclass(frozen=True, kw_only=True)
class Other(Few):
    """Other films of noise; or the same as Few's, each turned within blocks of pixels."""

    subject: str | None = "o"
    is_turned: bool = False

    def _load(self, index: int) -> Video:
        found = super()._load(index)
        if self.is_turned:
            blocks = found.frames.reshape(16, 8, BLOCK, 8, BLOCK, 3)[:, :, ::-1, :, ::-1]
            return replace(found, frames=np.ascontiguousarray(blocks.reshape(found.frames.shape)))
        return replace(found, frames=255 - found.frames)


def method_of(name: str, **fields: Any) -> Method:
    known = FEW if name.startswith(("feature", "public")) else {**FEW, "block": None, "bits": None}
    known = {key: value for key, value in known.items() if value is not None}
    guided = GUIDED if "proj" in name else {}
    method: Method = make_method(name, **{"epsilon": 8.0, **known, **guided, **fields})
    return method


def trained(path: Path, method: Method, data: Any = None, **fields: Any) -> Any:
    public = fields.pop("public", Other())
    net = MvitSmall(from_scratch=True)
    return train_file(data or Few(), path, method, net, public=public, **fields)


def public_gradient(data: Any, method: Method) -> tuple[dict[str, Any], Any]:
    with learner.read_recordings(data, method, MvitSmall(from_scratch=True)) as reading:
        rows, net = reading.rows, reading.tail
        for value in net.parameters():  # the head begins as zeros, where all is the same
            torch.nn.init.constant_(value, 0.01)
        loss = loop._make_loss(net, method, rows)
        weights = {n: v.detach() for n, v in net.named_parameters() if v.requires_grad}
        found = loop._public_mean(loss, weights, rows, np.arange(8), loop.Workload())
        return found, rows.private.clone()


def test_two_pictures_with_one_psi_give_bit_identical_public_gradients() -> None:
    method = method_of("feature_dp")
    one, seen = public_gradient(Few(), method)
    other, turned = public_gradient(Other(subject="s", is_turned=True), method)
    changed, _ = public_gradient(Other(subject="s"), method)
    assert not torch.equal(seen, turned), "they are different pictures"
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert not all(torch.equal(one[name], changed[name]) for name in one)


def test_public_pictures_alone_read_nothing_else() -> None:
    _, seen = public_gradient(Few(), method_of("public_features"))
    _, turned = public_gradient(Other(subject="s", is_turned=True), method_of("public_features"))
    assert torch.equal(seen, turned), "not even what is called private"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, found = tmp_path_factory.mktemp("features"), {}
    for name in ("projected", "feature_dp", "feature_projective"):
        found[name] = folder / f"{name}.safetensors"
        trained(found[name], method_of(name))
    return found


@pytest.mark.parametrize("name", ["projected", "feature_dp", "feature_projective"])
def test_a_model_has_a_receipt_that_names_what_is_public(
    name: str, models: dict[str, Path]
) -> None:
    receipt = check_receipt(models[name])
    method = make_method(name, epsilon=8.0, unit="video")
    assert set(method.MARKS) <= set(receipt.fields)
    assert receipt.guarantee.kind is (
        GuaranteeKind.FORMAL_RELAXED if "feature" in name else GuaranteeKind.FORMAL
    )
    said = " ".join(explain(receipt.guarantee))
    if "feature" in name:
        assert "means of 8 x 8 pixels in 3 bits" in said and "everything in them" in said
        assert "joints are how somebody stands" in said
        assert receipt.guarantee.relation is Relation.REPLACE_ONE
    if "proj" in name:
        assert "6 recordings beside the private ones" in said and "4 directions" in said
    for mark in method.MARKS:
        fields = {key: value for key, value in receipt.fields.items() if key != mark}
        with pytest.raises(ValueError, match=mark):
            make_promise(replace(receipt, fields=fields))


def test_public_pictures_are_written_to_be_looked_at(models: dict[str, Path]) -> None:
    assert not sidecar_path(models["projected"], SHEET_SUFFIX).exists()
    (sheet,) = reader.read_frames(sidecar_path(models["feature_dp"], SHEET_SUFFIX))
    method = method_of("feature_dp")
    first = method.make_psi()(Few()[0].frames)[0]  # type: ignore[attr-defined]
    assert sheet.shape == (3 * 64, 3 * 64, 3)
    assert np.array_equal(sheet[:64, :64], first)


def test_the_fingerprint_is_of_psi_alone(models: dict[str, Path], tmp_path: Path) -> None:
    marks = [json.loads(receipt_path(models["feature_dp"]).read_text())["fields"]["psi_sha256"]]
    for number, data in enumerate((Other(subject="s", is_turned=True), Other(subject="s"))):
        path = tmp_path / f"{number}.safetensors"
        trained(path, method_of("feature_dp", epsilon=np.inf), data)
        marks.append(check_receipt(path).fields["psi_sha256"])
    assert marks[0] == marks[1] != marks[2]


def test_records_that_are_in_both_parts_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with pytest.raises(BadInput, match="not among the private ones"):
        trained(path, method_of("projected"), public=Few(subject="o"))
    with pytest.raises(BadInput, match="somebody who is in both"):
        trained(path, method_of("projected", unit="subject"), public=Other(subject="s"))
    with pytest.raises(BadInput, match="Expected 6 public recordings for projected, got 0"):
        trained(path, method_of("projected"), public=())
    assert not list(tmp_path.glob("*.safetensors*"))


def test_a_data_set_without_a_public_part_is_refused_with_a_remedy() -> None:
    with pytest.raises(ValueError, match=r"public part for projected.*got Few; use dp_sgd"):
        select_guides(Few(), method_of("projected"))
    assert select_guides(Few(), method_of("feature_dp")) == ()


@pytest.mark.parametrize("name", ["projected", "feature_projective"])
def test_people_are_protected_as_a_whole(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    trained(path, method_of(name, unit="subject", batch=2))
    assert check_receipt(path).shapes == ((3,),)


def test_a_shared_batch_has_the_epsilon_of_a_revealed_one() -> None:
    method = method_of("feature_projective", form="as_published", epsilon=1.0, epochs=8.0)
    plan = make_training_plan(method, 60)
    guarantee = method.guarantee(plan)
    assert guarantee.accountant is Accountant.REVEALED_EXACT
    assert guarantee.epsilon is not None and guarantee.epsilon > 1.5
    assert str(guarantee.published_claim).startswith("CLAIMED, NOT VALID: epsilon 1")
    secret = make_training_plan(method_of("feature_projective", epsilon=1.0, epochs=8.0), 60)
    assert secret.compute_epsilon(Relation.REPLACE_ONE) <= 1.0


def test_a_blur_is_warned_of_in_the_guarantee() -> None:
    method = method_of("feature_dp", psi="blur")
    assert "can be sharpened" in " ".join(method.guarantee(make_training_plan(method, 60)).caveats)


def test_under_a_ledger_one_psi_is_public_for_ever() -> None:
    method = method_of("feature_dp")
    cost = partial(
        make_run_cost(method, [make_training_plan(method, 8)], {}), run_id="r", units=(0,)
    )
    content = Content.from_value(Few()[0])
    run = cost(contents=(content,), masks=(b"",))
    assert run.public == "features" and run.masks == (method.make_psi().hash_rule(is_photo=False),)  # type: ignore[attr-defined]


def test_worn_sensors_have_no_such_methods() -> None:
    from masquerade.networks.lstm import LstmNetwork

    with pytest.raises(ValueError, match="without a public part"):
        check_pairing(Projected(epsilon=8.0, unit="video"), LstmNetwork())


def test_both_parts_have_their_own_rules() -> None:
    with pytest.raises(ValueError, match="directions"):
        FeatureProjective(epsilon=8.0, unit="video", directions=200)
    with pytest.raises(ValueError, match="hides"):
        FeatureProjective(epsilon=8.0, unit="video", block=1, bits=8)
