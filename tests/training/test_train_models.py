"""A model's file and receipt vouch for each other, and a data set's part is the one that is meant.

Unlike the tests of the commands, these need no world: films of noise are enough.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import video_files as maker
from few_films import Few, trains
from masquerade.datasets.folder import Folder
from masquerade.datasets.hmdb51 import HMDB51
from masquerade.datasets.stage import Stage
from masquerade.datasets.watch import Watch
from masquerade.errors import BadInput
from masquerade.events import event_to_json
from masquerade.noise import Noise
from masquerade.publish import receipts
from masquerade.publish.collections import select_split
from masquerade.publish.receipts import check_receipt
from masquerade.training import method
from masquerade.training.learner import load_model, read_model_fields
from masquerade.training.plan import PoissonSampling, TrainingPlan

torch = pytest.importorskip("torch")
files = pytest.importorskip("safetensors.torch")
safetensors = pytest.importorskip("safetensors")
torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="module")
def _reckoned_once() -> Iterator[None]:
    """What a plan costs depends on its fields alone; it is asked for again and again here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingPlan, "compute_epsilon", cache(TrainingPlan.compute_epsilon))
        patch.setattr(method, "calibrate_plan", cache(method.calibrate_plan))
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One model of MaskDP."""
    found: Path = trains(
        tmp_path_factory.mktemp("models") / "m.safetensors",
        name="mask_dp",
        epsilon=8.0,
        class_weights=(1.0, 2.0),
    ).value
    return found


@pytest.fixture
def copied(model: Path, tmp_path: Path) -> Path:
    """The model and its receipt, to be changed."""
    for name in (model.name, f"{model.name}.receipt.json"):
        (tmp_path / name).write_bytes((model.parent / name).read_bytes())
    return tmp_path / model.name


def edit(target: Path, change: Callable[[dict[str, Any]], object]) -> None:
    beside = target.with_name(f"{target.name}.receipt.json")
    data = json.loads(beside.read_text())
    change(data)
    beside.write_text(json.dumps(data))


def test_the_receipts_fields_are_the_methods_and_the_masks(model: Path) -> None:
    fields = dict(check_receipt(model).fields)
    assert len(fields.pop("mask_sha256")) == 64
    assert not {"steps", "expected", "noise_multiplier"} & set(fields)
    assert fields["class_weights"] == [1.0, 2.0] and fields["form"] == "independent"


def test_rehearsals_and_models_without_privacy_have_a_receipt_that_holds(tmp_path: Path) -> None:
    free = trains(tmp_path / "free.safetensors").value
    assert check_receipt(free).guarantee.epsilon is None
    rehearsal = trains(tmp_path / "m.safetensors", noise=Noise(seed=1)).value
    assert check_receipt(rehearsal).is_rehearsal


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "another batch": lambda data: data["fields"].update(batch=2),
    "another epsilon": lambda data: data["fields"].update(epsilon=4.0),
    "more units": lambda data: data.update(shapes=[[9]]),
    "no units": lambda data: data.update(shapes=[]),
    "a field too many": lambda data: data["fields"].update(noise_multiplier=1.0),
    "a smaller promise": lambda data: data["guarantee"].update(epsilon=0.5),
    "more steps in the event": lambda data: data["event"].update(count=3),
    "another method": lambda data: data.update(mechanism="public_part"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_edited_receipt_of_a_model_is_refused(change: str, copied: Path) -> None:
    edit(copied, CHANGES[change])
    with pytest.raises(BadInput, match="Expected"):
        check_receipt(copied)


@pytest.mark.parametrize("field", ["class_weights", "epsilon"])
def test_a_receipt_without_a_field_is_refused(field: str, copied: Path) -> None:
    edit(copied, lambda data: data["fields"].pop(field))
    with pytest.raises(BadInput):
        check_receipt(copied)


def test_the_last_digits_of_another_machine_are_forgiven() -> None:
    one, other = (PoissonSampling(units=8, expected=4).event(z, 4) for z in (1.0, 1 + 1e-12))
    assert receipts._are_events_equal(event_to_json(one), event_to_json(other))
    more = PoissonSampling(units=8, expected=4).event(1 + 1e-4, 4)
    assert not receipts._are_events_equal(event_to_json(one), event_to_json(more))


def test_an_edited_model_is_refused(copied: Path, command: Any) -> None:
    data = bytearray(copied.read_bytes())
    data[-1] ^= 1
    copied.write_bytes(data)
    done = command("receipt", "check", copied)
    assert done.code == 4 and "it was changed" in done.err


def test_a_model_says_what_it_is_under_one_key(model: Path) -> None:
    with safetensors.safe_open(model, framework="pt") as held:
        said = held.metadata()
    assert list(said) == ["masquerade"]
    assert json.loads(said["masquerade"]) == {
        "network": "mvit_small",
        "activities": ["walk", "run"],
        "part": "head",
        "learned": {},
        "first_weights": "random",
    }
    assert load_model(model).classes == ("walk", "run")


@pytest.mark.parametrize(
    "said",
    [
        "no JSON",
        "{}",
        '{"network": "mvit_tall", "activities": ["walk", "run"]}',
        '{"network": "mvit_small", "activities": ["walk", "run", "fly"]}',
        "[]",
        '{"network": "mvit_small", "activities": 2}',
        None,
    ],
)
def test_a_file_that_does_not_say_what_it_is_is_refused(
    said: str | None, model: Path, tmp_path: Path
) -> None:
    other = tmp_path / "m.safetensors"
    metadata = None if said is None else {"masquerade": said}
    files.save_file(files.load_file(model), other, metadata=metadata)
    with pytest.raises(BadInput, match="Expected"):
        load_model(other)


def test_class_weights_for_other_classes_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="class_weights for 2 classes, got 3"):
        trains(tmp_path / "m.safetensors", class_weights=(1.0, 1.0, 1.0))
    assert not list(tmp_path.iterdir())


def test_a_split_that_was_chosen_is_respected() -> None:
    assert select_split(Stage(), "train").split == "train"  # type: ignore[attr-defined]
    assert select_split(Stage(), "test").split == "test"  # type: ignore[attr-defined]
    public = Stage(split="public")
    assert select_split(public, "train") is public and select_split(public, "test") is public
    everything = HMDB51(root=Path("videos"), split="all")
    assert select_split(everything, "train") is everything
    for usual in (Stage(split="all"), HMDB51(root=Path("videos"), split="train")):
        assert select_split(usual, "test") is usual, "it was said"
    few = Few()
    assert select_split(few, "train") is few, "it has no splits"


def test_other_kinds_of_data_are_refused_unread() -> None:
    for other in (Stage(kind="photos"), Stage(kind="signals"), Watch()):
        with pytest.raises(BadInput, match="Expected a data set of videos, got "):
            select_split(other, "train")


def put(*paths: Path) -> None:
    for number, path in enumerate(paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        maker.make(path, maker.moving(16, 64, 64, seed=number), maker.Kind())


def test_a_folder_without_splits_can_be_trained_and_tested_on(tmp_path: Path, command: Any) -> None:
    root, target = tmp_path / "films", tmp_path / "m.safetensors"
    put(root / "walk" / "a.mp4", root / "run" / "b.mp4")
    words = ("--data", "folder", "--root", root)
    how = ("--method", "dp_sgd", "--epsilon", "inf", "--unit", "video", "--part", "head")
    how += ("--batch", "1", "--epochs", "1", "--from-scratch")
    done = command("train", target, *how, *words, "--json")
    assert done.code == 0, done.err
    assert load_model(target).classes == ("run", "walk")
    assert read_model_fields(target)["learned"] == {"data": "folder", "split": "all"}
    refused = command("evaluate", target, *words)
    assert refused.code == 4 and "say --private and publish nothing" in refused.err
    assert "Top-1" not in refused.out
    done = command("evaluate", target, *words, "--private", "--json").json
    assert (done["recordings"], done["private"], done["held_out"]) == (2, True, None)
    assert command("evaluate", target, *words, "--private").out.startswith("PRIVATE: computed from")


def test_a_folder_with_splits_is_trained_and_tested_on_its_own(tmp_path: Path) -> None:
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
    for part in ("train", "test"):
        found = select_split(Folder(root=tmp_path), part)
        assert found.split == part  # type: ignore[attr-defined]
    chosen = Folder(root=tmp_path, split="test")
    assert select_split(chosen, "train") is chosen


@pytest.mark.parametrize(("there", "wanted"), [("train", "test"), ("test", "train")])
def test_a_folder_with_one_split_is_not_taken_for_the_other(
    there: str, wanted: str, tmp_path: Path
) -> None:
    put(tmp_path / there / "walk" / "a.mp4", tmp_path / there / "run" / "b.mp4")
    with pytest.raises(BadInput, match=f"Expected a folder {wanted}"):
        len(select_split(Folder(root=tmp_path), wanted))


def test_an_epsilon_below_what_is_stated_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Expected epsilon >= 0\.0001"):
        trains(tmp_path / "m.safetensors", epsilon=9e-5)
    assert not list(tmp_path.iterdir())
