"""Masks for anybody's videos: from files and by a segmenter, from training to testing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import real_films
from experiments.engine import main
from few_films import Few
from masquerade.datasets.toyota_smarthome import ToyotaSmarthome
from masquerade.datasets.ucf101 import UCF101
from masquerade.errors import BadInput
from masquerade.guarantee import Unit, UnitName
from masquerade.io import downloads
from masquerade.ledger import Content, Ledger
from masquerade.networks.network import MvitSmall
from masquerade.publish.collections import describe_public_part
from masquerade.publish.masks import PartlyShown, with_masks
from masquerade.publish.models import make_method, train_file
from masquerade.training.views import FILL_LEVEL, hash_masks

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

METHOD = ("--method", "mask_dp", "--unit", "video", "--part", "head")
SHORT = (*METHOD, "--batch", "2", "--public-batch", "2", "--epochs", "1")
FREE = (*SHORT, "--epsilon", "inf")  # no calibration


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("sets")
    return {data: real_films.put(folder / data, data) for data in real_films.NAMES}


@pytest.fixture(scope="module")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return real_films.put_masks(tmp_path_factory.mktemp("masks"), "ucf101", "arrays")


@pytest.fixture(scope="module")
def model(roots: dict[str, Path], arrays: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "m.safetensors"
    data = with_masks(UCF101(root=roots["ucf101"], split="train"), arrays, private="background")
    fields = {"epsilon": 4.0, "unit": "video", "epochs": 1.0, "batch": 2, "part": "head"}
    train_file(data, path, make_method("mask_dp", **fields), MvitSmall())
    return path


def networks() -> None:
    pytest.importorskip("ai_edge_litert")
    pytest.importorskip("cv2")
    for name in ("selfie_segmentation", "pose_detection"):
        try:
            downloads.fetch_asset(name)
        except (OSError, BadInput) as error:
            pytest.skip(f"{name} cannot be had: {error}")


def receipt_of(model: Path) -> Any:
    return json.loads(model.with_name(f"{model.name}.receipt.json").read_text())


@pytest.mark.parametrize(
    ("data", "form", "private"),
    [
        ("ucf101", "pictures", "background"),
        ("ntu_rgbd", "arrays", "person"),
        ("toyota_smarthome", "videos", "background"),
    ],
)
def test_from_files_to_a_model_that_is_tested(
    data: str, form: str, private: str, roots: dict[str, Path], command: Any, tmp_path: Path
) -> None:
    masks = real_films.put_masks(tmp_path / "masks", data, form)
    model, source = tmp_path / "m.safetensors", ("--data", data, "--root", roots[data])
    done = command("train", model, *FREE, *source, "--masks", masks, "--private", private)
    assert done.code == 0, done.err
    assert command("receipt", "check", model).code == 0
    said = receipt_of(model)
    kinds = {"pictures": "PNG files", "arrays": "arrays", "videos": "videos"}
    assert f"files of the recordings' owner ({kinds[form]})" in said["fields"]["mask_source"]
    assert said["fields"]["mask_source"] in said["guarantee"]["assumed_public"]
    assert str(tmp_path) not in json.dumps(said), "no path"
    if form != "videos":
        shown = [real_films.person(number) for number in range(4)]
        assert said["fields"]["mask_sha256"] == hash_masks(shown)
    tested = command("evaluate", model, *source, "--json")
    assert tested.code == 0 and tested.json["recordings"] == 2, tested.err
    part = command("evaluate", model, *source, "--masks", masks, "--shown", "people", "--json")
    assert part.code == 0 and part.json["held_out"] == "contents" and part.json["shown"] == "people"


def test_a_segmenter_makes_masks_and_the_receipt_says_what_it_may_miss(
    command: Any, tmp_path: Path
) -> None:
    networks()
    real_films.put(tmp_path, "toyota_smarthome", frames=2)
    model, source = tmp_path / "m.safetensors", ("--data", "toyota_smarthome", "--root", tmp_path)
    words = ("train", model, *FREE, *source, "--masks", "segmenter", "--private", "person")
    done = command(*words, "--mask-threshold", "0.6", "--json")
    assert done.code == 0, done.err
    said = " ".join(done.json["guarantee"]["assumed_public"])
    assert "segmenter computed from the private recordings" in said and "threshold 0.6" in said
    assert "a pixel of a person that it missed is treated as public" in said
    for name in ("selfie_segmentation", "pose_detection"):
        assert downloads.find_asset(name).sha256 in said
    assert command("receipt", "check", model).code == 0
    assert command("evaluate", model, *source).code == 0


def test_masks_are_made_once_and_serve_the_side_they_were_made_for(
    command: Any, tmp_path: Path
) -> None:
    networks()
    real_films.put(tmp_path, "toyota_smarthome", frames=1)
    source, folder = ("toyota_smarthome", "--root", tmp_path), tmp_path / "masks"
    words = ("data", "masks", *source, folder, "--split", "test", "--side", "person", "--json")
    assert command(*words).json == {"made": 2, "stood": 0}
    assert command(*words).json == {"made": 0, "stood": 2}
    data = ToyotaSmarthome(root=tmp_path, split="test")
    masked = with_masks(data, folder, private="person")
    fresh = with_masks(data, "segmenter", private="person")
    assert np.array_equal(masked[0].person_mask, fresh[0].person_mask)
    assert "a pixel of a person that it missed" in masked.mask_source
    assert downloads.find_asset("pose_detection").sha256 in masked.mask_source
    with pytest.raises(BadInput, match=r"made for background private, got .* for person private"):
        with_masks(data, folder, private="background")[0]


def test_a_segmenter_without_its_networks_stops_the_run_by_name(
    roots: dict[str, Path], command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ai_edge_litert")
    monkeypatch.setenv("MASQUERADE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "no-index").as_uri())
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    model = tmp_path / "m.safetensors"
    words = ("train", model, *FREE, "--data", "ucf101", "--root", roots["ucf101"])
    done = command(*words, "--masks", "segmenter")
    assert done.code == 4 and "mediapipe 0.10.21" in done.err and not model.exists()
    assert "give masks instead, with --masks" in done.err


def test_a_receipt_whose_masks_are_said_to_come_from_elsewhere_is_refused(
    model: Path, command: Any, tmp_path: Path
) -> None:
    copy = tmp_path / model.name
    copy.write_bytes(model.read_bytes())
    beside, said = copy.with_name(f"{copy.name}.receipt.json"), receipt_of(model)
    beside.write_text(json.dumps(said))
    assert command("receipt", "check", copy).code == 0
    without = {name: held for name, held in said["fields"].items() if name != "mask_source"}
    for fields in (without, without | {"mask_source": "the masks, made by hand"}):
        beside.write_text(json.dumps(said | {"fields": fields}))
        assert command("receipt", "check", copy).code == 4


def test_a_missing_or_wrong_mask_is_named_and_nothing_is_written(
    roots: dict[str, Path], command: Any, tmp_path: Path
) -> None:
    masks = real_films.put_masks(tmp_path / "masks", "ucf101", "arrays")
    model = tmp_path / "out" / "m.safetensors"
    model.parent.mkdir()
    words = ("train", model, *FREE, "--data", "ucf101", "--root", roots["ucf101"])
    first = masks / "Archery" / "v_Archery_g01_c01.masks.npz"
    np.savez_compressed(first, person=real_films.person(0)[:-1])
    done = command(*words, "--masks", masks)
    assert done.code == 4 and "7 frames" in done.err and first.name in done.err
    assert "8 frames, 96 x 112 pixels" in done.err
    first.unlink()
    for more in ((), ("--dry-run",)):
        done = command(*words, "--masks", masks, *more)
        assert done.code == 4 and "Archery/v_Archery_g01_c01.masks.npz" in done.err
    assert not list(model.parent.iterdir())


def test_masks_of_one_value_are_allowed_and_noted(
    roots: dict[str, Path], command: Any, tmp_path: Path
) -> None:
    masks = real_films.put_masks(tmp_path / "masks", "ucf101", "arrays")
    shape = real_films.person(0).shape
    np.savez(masks / "Archery" / "v_Archery_g01_c01.masks.npz", person=np.ones(shape, bool))
    np.savez(masks / "Diving" / "v_Diving_g01_c01.masks.npz", person=np.zeros(shape, bool))
    words = ("train", tmp_path / "m.safetensors", *FREE, "--data", "ucf101")
    done = command(*words, "--root", roots["ucf101"], "--masks", masks, "--json")
    assert done.code == 0, done.err
    full, empty = done.json["notes"]
    assert full.startswith("In 1 of 4") and "nothing of them is private" in full
    assert empty.startswith("In 1 of 4") and "nothing of them is public" in empty


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--method", "dp_sgd", "--masks", "x"), "no --masks with dp_sgd"),
        (("--method", "mask_dp", "--mask-threshold", "0.9"), "no --mask-threshold with masks that"),
        (("--method", "mask_dp", "--masks", "segmenter", "--mask-threshold", "0.2"), "from 0.5"),
        (("--method", "mask_dp", "--masks", "nowhere"), "a folder of masks at nowhere"),
    ],
)
def test_flags_that_do_nothing_or_lead_nowhere_are_refused(
    words: tuple[str, ...], said: str, roots: dict[str, Path], command: Any, tmp_path: Path
) -> None:
    given = ("--epsilon", "4", "--unit", "video", "--data", "ucf101", "--root", roots["ucf101"])
    if "0.2" in words:
        pytest.importorskip("ai_edge_litert")
    done = command("train", tmp_path / "m.safetensors", *words, *given)
    assert done.code in (2, 4) and said in done.err


def test_evaluate_wants_to_know_what_is_shown(
    roots: dict[str, Path], command: Any, tmp_path: Path
) -> None:
    source = ("--data", "ucf101", "--root", roots["ucf101"])
    done = command("evaluate", tmp_path / "m", *source, "--masks", "x")
    assert done.code == 2 and "--shown people" in done.err
    done = command("evaluate", tmp_path / "m", *source, "--mask-margin", "3")
    assert done.code == 2 and "no segmenter makes" in " ".join(done.err.replace("│", " ").split())


def test_recordings_that_have_masks_take_no_others(tmp_path: Path) -> None:
    for index in range(8):
        np.savez(tmp_path / f"film {index}.npz", person=np.ones((16, 64, 64), bool))
    data = with_masks(Few(), tmp_path, private="person")
    with pytest.raises(BadInput, match="got Few, which has its own"):
        data[0]
    assert with_masks(Few(has_mask=False), tmp_path, private="person")[0].person_mask is not None


def test_two_recordings_with_one_mask_are_refused(tmp_path: Path) -> None:
    class Twice(Few):
        def _find(self) -> Any:
            return [
                type(each)(name=f"{each.name[:5]}.{at}") for at, each in enumerate(super()._find())
            ]

    np.savez(tmp_path / "film .npz", person=np.ones((16, 64, 64), bool))
    with pytest.raises(BadInput, match=r"one for film \.0 and film \.1; rename"):
        len(with_masks(Twice(has_mask=False), tmp_path, private="person"))


def test_masks_are_no_part_of_the_data_set(roots: dict[str, Path], arrays: Path) -> None:
    plain = UCF101(root=roots["ucf101"])
    masked = with_masks(plain, arrays, private="background")
    test = masked.select_default_part("test")
    assert test.part_name == "test" and len(test) == 2 and test.activities == plain.activities
    assert describe_public_part(test) == describe_public_part(plain.select_part("test"))
    assert "masks from files" in test.ABOUT.title and masked.mask_source
    video, seen = test[0], PartlyShown(unmasked=test, private="background")[0]
    assert video.person_mask is not None and (seen.frames[~video.person_mask] == FILL_LEVEL).all()
    assert describe_public_part(
        PartlyShown(unmasked=test, private="person")
    ) == describe_public_part(test)


def test_who_is_in_an_account_is_known_also_where_only_a_part_is_shown(
    model: Path, roots: dict[str, Path], arrays: Path, command: Any, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "b.db")
    ledger.open_account("ward", Unit(name=UnitName.VIDEO), epsilon=8.0, delta=1e-5)
    words = ("evaluate", model, "--data", "ucf101", "--root", roots["ucf101"], "--masks", arrays)
    words += ("--shown", "people", "--ledger", tmp_path / "b.db")
    assert command(*words).code == 0
    ledger.add_content("ward", Content.from_value(UCF101(root=roots["ucf101"], split="test")[0]))
    done = command(*words)
    assert done.code == 4 and "got 1 that are in an account" in done.err


@pytest.mark.slow
def test_the_table_of_mask_dp_is_made_of_other_videos(
    roots: dict[str, Path], arrays: Path, tmp_path: Path
) -> None:
    words = ["mask_dp", "--data", "ucf101", "--root", str(roots["ucf101"]), "--quick"]
    words += ["--out", str(tmp_path / "out"), "--epochs", "1", "--batch", "2"]
    assert main([*words, "--masks", str(arrays)]) == 0
    said = json.loads((tmp_path / "out" / "results.json").read_text())
    assert "masks from files" in said["about"] and "--masks PATH" in said["origin"]
    assert str(tmp_path) not in json.dumps(said)
