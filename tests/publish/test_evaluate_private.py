"""Exact accuracy on recordings that a model may have learned from is private, and says so."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

import video_files as maker
from few_films import Few, trains
from few_signals import write_watch
from masquerade.datasets.folder import Folder
from masquerade.datasets.hmdb51 import HMDB51, PAHMDB51
from masquerade.datasets.stage import Stage
from masquerade.datasets.ucf101 import UCF101
from masquerade.datasets.watch import Watch
from masquerade.guarantee import Unit, UnitName
from masquerade.ledger import Content, Ledger
from masquerade.networks.network import MvitSmall
from masquerade.publish.collections import describe_public_part, explain_held_out
from masquerade.publish.learned import training_list_path
from masquerade.publish.models import make_method, train_file
from masquerade.receipt import receipt_path
from masquerade.training.learner import read_model_fields

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

ROOT = Path("/ward/anna")
LEARNED = describe_public_part(Folder(root=ROOT, split="train"))


def test_a_model_says_which_part_it_learned_from_and_no_path_or_person(tmp_path: Path) -> None:
    assert LEARNED == {"data": "folder", "split": "train"}
    held = UCF101(root=ROOT, split="train", fold=2)
    assert describe_public_part(held) == {"data": "ucf101", "split": "train", "fold": 2}
    assert describe_public_part(Watch(root=ROOT, subjects=("7",))) == {"data": "watch"}
    world, larger = Stage(split="train"), Stage(split="train", videos=60, class_share=(1.0,) * 12)
    others = {"videos": 60, "class_share": [1.0] * 12}
    assert describe_public_part(larger) == describe_public_part(world) | others
    assert json.loads(json.dumps(describe_public_part(larger))) == describe_public_part(larger)
    target = tmp_path / "m.safetensors"
    trains(target, Few(subject="anna"))
    assert read_model_fields(target)["learned"] == {}, (
        "of a data set that is not ours nothing is known"
    )
    assert b"anna" not in target.read_bytes()


@pytest.mark.parametrize(
    ("tested", "learned", "why"),
    [
        (Folder(root=ROOT, split="test"), LEARNED, ""),
        (Folder(root=ROOT, split="train"), LEARNED, ""),
        (Folder(root=ROOT, split="train"), {}, ""),
        (Folder(root=ROOT, split="all"), LEARNED, ""),
        (UCF101(root=ROOT, split="test"), {"data": "ucf101", "fold": 1, "split": "all"}, ""),
        (UCF101(root=ROOT, split="test"), {}, ""),
        (UCF101(root=ROOT, split="test"), describe_public_part(UCF101(root=ROOT)), "split"),
        (UCF101(root=ROOT, split="test", fold=2), describe_public_part(UCF101(root=ROOT)), ""),
        (HMDB51(root=ROOT, split="test"), LEARNED, ""),
        (HMDB51(root=ROOT, split="train"), LEARNED, ""),
        (PAHMDB51(root=ROOT, annotations=ROOT), describe_public_part(HMDB51(root=ROOT)), ""),
        (Watch(root=ROOT), {"data": "watch"}, ""),
        (Watch(root=ROOT, subjects=("4",)), {"data": "watch"}, "named"),
        (Stage(), {}, "made up"),
        (Folder(root=ROOT), describe_public_part(Stage()), "made up"),
    ],
)
def test_without_a_private_list_only_another_split_of_a_publishers_list_is_held_out(
    tested: Any, learned: dict[str, Any], why: str
) -> None:
    said = {"learned": learned, "first_weights": "random"}
    assert explain_held_out(tested, said) == why
    is_made_up = why == "made up"
    assert explain_held_out(tested, said, learned_from=0) in (why, "contents")
    assert explain_held_out(tested, said, learned_from=1) == "made up" * is_made_up


def test_a_model_that_began_with_another_is_not_of_made_up_people_alone() -> None:
    said = {"learned": describe_public_part(Stage())}
    for first in ({"first_weights": "unprotected"}, {}):  # an earlier version did not say it
        assert explain_held_out(Folder(root=ROOT), said | first) == ""


def test_nobody_knows_what_a_model_learned_from_whose_beginning_has_no_list(
    films: Any, tmp_path: Path, command: Any
) -> None:
    target, words = films
    first, model = tmp_path / "first.safetensors", tmp_path / "m.safetensors"
    for path in (target, receipt_path(target)):
        shutil.copy(path, tmp_path / path.name.replace("m.", "first.", 1))
    data, network = Folder(root=words[-1], split="test"), MvitSmall(weights=first)
    method = make_method("dp_sgd", epsilon=math.inf, unit="video", batch=2, epochs=1.0)
    training_list_path(first).write_text("{}")  # nor where it cannot be read
    train_file(data, model, method, network)
    assert not training_list_path(model).exists()
    assert command("evaluate", model, *words, "--split", "train").code == 4
    model.unlink()
    shutil.copy(training_list_path(target), training_list_path(first))
    train_file(data, model, method, network)
    assert "from 4" in command("evaluate", model, *words, "--split", "all").err


def put(root: Path, *, parts: tuple[str, ...]) -> None:
    for seed, part in enumerate(parts):
        for number, activity in enumerate(("walk", "run")):
            (root / part / activity).mkdir(parents=True, exist_ok=True)
            frames = maker.moving(16, 64, 64, seed=2 * seed + number)
            maker.make(root / part / activity / "a.mkv", frames, maker.KINDS["h264.mkv"])


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[object, ...]]:
    """A model of the training films of a folder, and the words that name the folder."""
    folder = tmp_path_factory.mktemp("films")
    put(folder, parts=("train", "test"))
    trains(folder / "m.safetensors", Folder(root=folder, split="train"), epochs=1.0)
    return folder / "m.safetensors", ("--data", "folder", "--root", folder)


def test_a_test_split_is_not_private_and_the_training_split_is(films: Any, command: Any) -> None:
    target, words = films
    assert read_model_fields(target)["learned"] == LEARNED
    done = command("evaluate", target, *words, "--json").json
    assert (done["private"], done["held_out"], done["split"]) == (False, "contents", "test")
    everything = command("evaluate", target, *words, "--split", "all")
    assert everything.code == 4 and "of which it has learned from 2" in everything.err
    refused = command("evaluate", target, *words, "--split", "train")
    assert refused.code == 4 and "Top-1" not in refused.out
    shown = command("evaluate", target, *words, "--split", "train", "--private")
    assert shown.code == 0 and shown.out.startswith("PRIVATE: computed from recordings")


def test_the_very_training_films_are_known_in_another_list(
    films: Any, tmp_path: Path, command: Any
) -> None:
    target, words = films
    table = tmp_path / "films.csv"
    rows = [f"train/{name}/a.mkv,{name}" for name in ("walk", "run")]
    table.write_text("\n".join(["path,activity", *rows]))
    asked = ("evaluate", target, "--data", "manifest", "--table", table, "--root", words[-1])
    refused = command(*asked)
    assert refused.code == 4 and "learned from 2" in refused.err and "Top-1" not in refused.out
    assert command(*asked, "--private").out.startswith("PRIVATE")
    held = training_list_path(target)
    assert held.stat().st_mode & 0o777 == 0o600 and b"walk" not in held.read_bytes()
    pieces = table.with_name("pieces.csv")
    pieces.write_text("\n".join(["path,activity,start,end", *(f"{row},0,0.4" for row in rows)]))
    cut = command(*asked[:5], pieces, *asked[6:])
    assert cut.code == 0 and "cut or encoded anew" in cut.out, cut.err
    assert "private-learned is PRIVATE" in command("receipt", "check", target.parent).out
    moved = tmp_path / "m.safetensors"  # as somebody else gets it: without the private list
    for path in (target, receipt_path(target)):
        shutil.copy(path, tmp_path / path.name)
    assert command("evaluate", moved, *words).code == 4
    held = training_list_path(moved)
    held.write_text("{}")
    assert "cannot be read" in command("evaluate", moved, *words).err


def test_a_changed_model_or_a_damaged_receipt_is_not_tested(
    films: Any, tmp_path: Path, command: Any
) -> None:
    target, words = films
    moved = tmp_path / "m.safetensors"
    shutil.copy(target, moved)
    assert "Expected a receipt" in command("evaluate", moved, *words, "--private").err
    shutil.copy(receipt_path(target), receipt_path(moved))
    moved.write_bytes(target.read_bytes()[:-4] + b"\0\0\0\1")
    changed = command("evaluate", moved, *words, "--private")
    assert changed.code == 4 and "was changed" in changed.err


def test_recordings_that_a_ledger_protects_are_refused(
    films: Any, tmp_path: Path, command: Any
) -> None:
    target, words = films
    ledger = Ledger(tmp_path / "b.db")
    ledger.open_account("ward", Unit(name=UnitName.VIDEO), epsilon=8.0, delta=1e-5)
    asked = ("evaluate", target, *words, "--ledger", tmp_path / "b.db")
    assert "PRIVATE" not in command(*asked).out
    ledger.add_content("ward", Content.from_value(Folder(root=words[-1], split="test")[0]))
    refused = command(*asked)
    assert refused.code == 4 and "got 1 that are in an account" in refused.err
    assert command(*asked, "--private", "--json").json["private"] is True


def test_worn_sensors_are_private_unless_people_are_named(tmp_path: Path, command: Any) -> None:
    held, target = tmp_path / "watch_dataset.npy", tmp_path / "m.safetensors"
    write_watch(held)
    words = ("--data", "watch", "--root", held)
    how = ("--method", "dp_sgd", "--epsilon", "inf", "--unit", "subject", "--part", "all")
    how += ("--epochs", "1", "--lstm-hidden", "4", "--lstm-window", "20")
    done = command("train", target, *how, *words, "--public-subjects", "1", "--test-subjects", "2")
    assert done.code == 0, done.err
    assert command("evaluate", target, *words).code == 4
    others = command("evaluate", target, *words, "--subjects", "2", "--json")
    assert others.json["held_out"] == "contents" and others.json["private"] is False
    training_list_path(target).unlink()
    named = command("evaluate", target, *words, "--subjects", "2")
    assert named.code == 0 and "is your word" in named.out and "PRIVATE" not in named.out
    assert command("evaluate", target, *words, "--private").out.startswith("PRIVATE")
