"""Nobody is laundered through the weights that a run begins with."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from few_films import Few, trains
from masquerade.collection import DataSource
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput
from masquerade.events import ComposedDpEvent, event_from_json
from masquerade.guarantee import GuaranteeKind, Unit, UnitName
from masquerade.io import signatures
from masquerade.ledger import Content, Ledger
from masquerade.ledger.filter import FilterName
from masquerade.networks.network import MvitSmall, find_packaged_weights
from masquerade.publish.models import make_method, train_file
from masquerade.publish.receipts import check_receipt, sign_receipt
from masquerade.receipt import receipt_path
from masquerade.wording import explain

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

FEW = {"unit": "video", "part": "head", "batch": 4, "epochs": 2.0, "epsilon": 4.0}


def goes_on(path: Path, weights: Path, *, accepts: bool = False, **fields: Any) -> Any:
    ledger = fields.pop("ledger", None)
    method = make_method("dp_sgd", **(FEW | fields))
    network = MvitSmall(weights=weights)
    accepted = {"accept_unprotected_weights": accepts}
    return train_file(Few(), path, method, network, ledger=ledger, **accepted).receipt


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model that promises nothing, and one that does."""
    folder = tmp_path_factory.mktemp("first")
    found = {name: folder / f"{name}.safetensors" for name in ("open", "private")}
    trains(found["open"])
    trains(found["private"], epsilon=4.0)
    return found


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    found = Ledger(tmp_path / "b.db")
    unit = Unit(name=UnitName.VIDEO)
    found.open_account("ward", unit, epsilon=30.0, delta=1e-5, rule=FilterName.RENYI)
    found.add_contents("ward", [(Content.from_value(video), None) for video in Few()])
    return found


def test_what_learned_without_a_guarantee_is_no_beginning_under_a_ledger(
    models: dict[str, Path], tmp_path: Path, ledger: Ledger
) -> None:
    with pytest.raises(ValueError, match="have a guarantee under a ledger, got"):
        goes_on(tmp_path / "m.safetensors", models["open"], ledger=ledger, accepts=True)
    with pytest.raises(ValueError, match="or --accept-unprotected-weights"):
        goes_on(tmp_path / "m.safetensors", models["open"])
    assert not list(tmp_path.glob("m.*")) and len(ledger.read_entries()) == 9


def test_what_learned_without_a_guarantee_promises_nothing_when_it_goes_on(
    models: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / "m.safetensors"
    guarantee = goes_on(path, models["open"], accepts=True).guarantee
    assert guarantee.kind is GuaranteeKind.NONE and guarantee.epsilon is None
    assert check_receipt(path).guarantee == guarantee
    said = " ".join(explain(guarantee))
    assert "learned without a guarantee" in said and "epsilon" not in said
    with pytest.raises(ValueError, match="Expected first weights"):
        goes_on(tmp_path / "n.safetensors", path)


def test_a_guarantee_without_its_receipt_is_none(models: dict[str, Path], tmp_path: Path) -> None:
    alone = tmp_path / "alone.safetensors"
    shutil.copy(models["private"], alone)
    with pytest.raises(ValueError, match="Expected first weights"):
        goes_on(tmp_path / "m.safetensors", alone)
    receipt_path(alone).write_text(receipt_path(models["open"]).read_text())
    with pytest.raises(ValueError, match="Expected first weights"):
        goes_on(tmp_path / "m.safetensors", alone)


def charged(ledger: Ledger) -> Any:
    """What the last run cost each film."""
    (event,) = {
        json.dumps(charge["event"], sort_keys=True)
        for charge in ledger.read_entries()[-2].payload["charges"]
    }
    return event_from_json(json.loads(event))


def test_a_receipt_that_nobody_vouches_for_guarantees_nothing(
    models: dict[str, Path], tmp_path: Path, ledger: Ledger
) -> None:
    """The receipt of another run, whose hash was replaced; anyone can write that."""
    forged, held = tmp_path / "forged.safetensors", receipt_path(models["private"])
    shutil.copy(models["open"], forged)
    said = json.loads(held.read_text())
    said["output_sha256"] = hashlib.sha256(forged.read_bytes()).hexdigest()
    receipt_path(forged).write_text(json.dumps(said))
    assert check_receipt(forged).guarantee.epsilon
    for book in (None, ledger):
        with pytest.raises(ValueError, match="Expected first weights"):
            goes_on(tmp_path / "m.safetensors", forged, ledger=book)
    sign_receipt(forged, keys(tmp_path))
    with pytest.raises(ValueError, match="Expected first weights"):
        goes_on(tmp_path / "m.safetensors", forged)


def keys(folder: Path) -> Path:
    signatures.make_keys(folder / "k.pem", folder / "k.pub.pem")
    return folder / "k.pem"


def test_two_guarantees_compose(models: dict[str, Path], tmp_path: Path, ledger: Ledger) -> None:
    path, before = tmp_path / "m.safetensors", check_receipt(models["private"])
    receipt = goes_on(path, models["private"], ledger=ledger)
    assert 4.0 < (receipt.guarantee.epsilon or 0) < 8.0
    assert check_receipt(path).guarantee == receipt.guarantee
    assert receipt.dp_event == ComposedDpEvent([before.dp_event, before.dp_event])
    assert charged(ledger) == receipt.dp_event, "no ledger had the first one"


def test_what_this_ledger_was_charged_for_is_not_charged_again(
    models: dict[str, Path], tmp_path: Path, ledger: Ledger
) -> None:
    first, second, third = (tmp_path / f"{name}.safetensors" for name in "abc")
    own = trains(first, epsilon=4.0, ledger=ledger).receipt.dp_event
    assert goes_on(second, first, ledger=ledger).dp_event == ComposedDpEvent([own, own])
    assert charged(ledger) == own
    goes_on(third, models["private"], ledger=ledger)
    goes_on(tmp_path / "d.safetensors", third, ledger=ledger)
    assert charged(ledger) == ComposedDpEvent([own, own]), "others may be in what that began with"


def test_public_parts_that_no_account_was_asked_for_are_no_beginning(
    tmp_path: Path, ledger: Ledger
) -> None:
    shown = tmp_path / "shown.safetensors"
    trains(shown, name="feature_dp", epsilon=4.0, block=1, bits=7)
    with pytest.raises(ValueError, match="no account was asked whether that is public"):
        goes_on(tmp_path / "m.safetensors", shown, relation="replace_one", ledger=ledger)
    alone = goes_on(tmp_path / "m.safetensors", shown, relation="replace_one").guarantee
    assert alone.kind is GuaranteeKind.FORMAL_RELAXED and any(
        "psi" in each for each in alone.assumed_public
    )


def test_weights_that_change_while_a_run_begins_are_refused(
    models: dict[str, Path], tmp_path: Path
) -> None:
    swapped, other = tmp_path / "w.safetensors", models["open"].read_bytes()
    beside = receipt_path(models["private"])
    for path in (models["private"], beside, signatures.signature_path(beside)):
        shutil.copy(path, tmp_path / path.name.replace("private", "w"))

    @dataclass(frozen=True, kw_only=True)
    class Swaps(Few):
        def _load(self, index: int) -> Any:
            swapped.write_bytes(other)
            return super()._load(index)

    method = make_method("dp_sgd", **FEW)
    with pytest.raises(BadInput, match="it was changed"):
        train_file(Swaps(), tmp_path / "m.safetensors", method, MvitSmall(weights=swapped))
    assert not (tmp_path / "m.safetensors").exists()


def test_two_guarantees_of_different_units_are_not_added_up(
    models: dict[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"one subject, zero_out.*for one video, zero_out"):
        goes_on(tmp_path / "m.safetensors", models["private"], unit="subject")


def test_a_file_of_weights_is_named_and_taken_as_public(tmp_path: Path) -> None:
    given = tmp_path / "public.safetensors"
    shutil.copy(find_packaged_weights("mvit_small"), given)
    digest = hashlib.sha256(given.read_bytes()).hexdigest()
    receipt = goes_on(tmp_path / "m.safetensors", given)
    assert receipt.fields["first_weights"] == {"sha256": digest, "origin": "given"}
    said = " ".join(receipt.guarantee.assumed_public)
    assert f"{digest}), of a file that is taken as public" in said
    method = make_method("dp_sgd", **FEW)
    ours = train_file(Few(), tmp_path / "n.safetensors", method, MvitSmall()).receipt
    assert ours.fields["first_weights"] == {"sha256": digest, "origin": "shipped"}
    with pytest.raises(BadInput, match="got nothing; check the name"):
        goes_on(tmp_path / "o.safetensors", tmp_path / "none.safetensors")


@dataclass(frozen=True, kw_only=True)
class NobodysFilms(Few):
    ABOUT: ClassVar[DataSource] = replace(Few.ABOUT, is_made_up=True)


def test_what_learned_from_people_who_never_lived_is_a_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "masquerade.publish.models.describe_public_part"
    monkeypatch.setattr(said, lambda data: {"data": "stage"} if data.ABOUT.is_made_up else {})
    assert Stage.ABOUT.is_made_up
    trains(tmp_path / "stage.safetensors", NobodysFilms())
    receipt = goes_on(tmp_path / "m.safetensors", tmp_path / "stage.safetensors")
    assert receipt.fields["first_weights"]["origin"] == "made_up"
    shutil.copy(tmp_path / "stage.safetensors", tmp_path / "alone.safetensors")
    alone = goes_on(tmp_path / "n.safetensors", tmp_path / "alone.safetensors")
    assert alone.fields["first_weights"]["origin"] == "given", "nobody vouches for what it says"
    assert receipt.guarantee.epsilon == pytest.approx(4.0, abs=1e-3)
