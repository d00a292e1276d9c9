"""Video-DPRP's settings by name, and files in the layout that is published."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import video_files as maker
from experiments import engine
from experiments import video_dprp_page as pages
from experiments import video_dprp_rows as rows_of
from experiments.video_dprp import PRESETS, VideoDprpSettings, name_preset, size_stage
from experiments.video_dprp_rows import Spec
from masquerade.datasets.stage import Stage
from masquerade.networks import mvit_layers
from video_dprp_rows import SETTING, find, made_up

torch = pytest.importorskip("torch")
torch.set_num_threads(1)


def test_the_full_form_holds_all_that_the_paper_varies() -> None:
    choices = VideoDprpSettings().choices
    quick, full = (rows_of.list_rows((20, 240, 320, 3), choices, is_quick=few) for few in (1, 0))
    assert len(full) > len(quick)
    ks = [spec.at for spec in full if spec.table == 3 and spec.line == "as published"]
    assert ks == [1200, 2304, 3072, 7500, 15360]  # at the paper's size, its own
    assert {spec.at for spec in full if spec.table == 4} == {0.2, 0.4, 0.5, 0.6, 0.8}
    assert {spec.at for spec in full if spec.table == 2} == {2, 5, 8}


def test_the_papers_setting_has_the_papers_numbers_and_a_flag_goes_before_it() -> None:
    plan = VideoDprpSettings(setting="paper").settle()
    assert (plan.network, plan.epochs, plan.batch, plan.learning_rate) == ("mvit_v1_b", 50, 8, 0.01)
    assert (plan.clip_norm, plan.momentum, plan.crop, plan.stride) == (0.4, 0.0, "random", 4)
    assert (plan.epsilons, plan.delta, plan.seeds, plan.most) == ((2, 5, 8), 1e-4, 3, None)
    assert plan.build_network().length == 16 and plan.bs == (0.2, 0.4, 0.5, 0.6, 0.8)
    own = VideoDprpSettings(setting="paper", batch=2, epsilons=(1.0,))
    assert own.settle().batch == 2 and own.choices.epsilons == (1.0,)
    method = own.build_method(Spec(table=2, name="", epsilon=1.0))
    assert (method.batch, method.clip_norm, method.schedule) == (2, 0.4, "constant")
    for preset in PRESETS.values():
        assert None not in [
            getattr(VideoDprpSettings(setting="paper").settle(), name)
            for name in preset.values
            if name != "most"
        ]
    left_open = PRESETS["paper"].left_open
    said = pages.write_text(find(settings=replace(SETTING, left_open=left_open)))
    assert "What the paper leaves open" in said and all(
        open in said for open in PRESETS["paper"].left_open
    )


def test_the_command_names_what_was_chosen_and_no_path() -> None:
    plan = VideoDprpSettings(quick=True, seeds=2, weights=Path("/secret/w"), out=Path("/secret/o"))
    said = engine.write_command(plan, Stage(videos=36, height=64))
    assert said == (
        "python -m experiments video_dprp --videos 36 --height 64 --weights PATH --seeds 2 --quick"
    )


@pytest.mark.parametrize("field", ["seeds", "most", "tests", "jobs", "batch", "stride"])
def test_counts_are_checked(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        VideoDprpSettings(**{field: -1 if field == "jobs" else 0})


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilons": ()},
        {"epsilons": (-1.0,)},
        {"ks": (0,)},
        {"bs": (1.0,)},
        {"delta": 0.0},
        {"tables": (6,)},
        {"tables": ()},
        {"clip_norm": 0.0},
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is_read(wrong: Any) -> None:
    with pytest.raises(ValueError, match=f"Expected.*{next(iter(wrong))}"):
        VideoDprpSettings(**wrong)


def test_rows_can_be_asked_for_by_mechanism_and_a_wrong_name_is_refused() -> None:
    plan = VideoDprpSettings(mechanisms=("mosaic", "face_blur"))
    asked = {
        spec.mechanism
        for spec in rows_of.list_rows((20, 64, 64, 3), plan.choices, is_quick=False)
        if plan.is_wanted(spec.mechanism)
    }
    assert asked == {None, "mosaic", "face_blur"}
    assert all(map(VideoDprpSettings().is_wanted, ("mosaic", "video_dprp", None)))
    with pytest.raises(ValueError, match=r"Unknown mechanism 'mosiac' \(did you mean mosaic\?\)"):
        VideoDprpSettings(mechanisms=("mosiac",))


def test_results_of_another_preset_do_not_stand_in_the_place_of_the_usual_ones() -> None:
    row = replace(made_up("mosaic", 8.0, 0.5), spec=Spec(table=1, name="m"))
    usual, near = (
        pages.write_page(find(row, preset=name_preset(Stage(preset=name))))
        for name in ("small", "faces")
    )
    assert list(usual.plots) == ["video_dprp_1"] and list(near.plots) == ["video_dprp_faces_1"]
    assert near.title == f"{usual.title}, preset faces"


def test_a_preset_of_stage_keeps_its_size_and_the_usual_one_has_many_to_test_on() -> None:

    usual, large = (size_stage(Stage(preset=name)) for name in ("small", "large"))
    assert isinstance(usual, Stage) and isinstance(large, Stage)
    assert (usual.world.height, usual.world.frames) == (64, 20) and large.world.height == 128
    assert len(usual.select_part("test")) >= 1000


def run(*words: Any) -> None:
    assert engine.main(list(map(str, words))) == 0


def ucf101(root: Path) -> Path:
    """Four films of two activities in the layout that UCF101 is published in."""
    names = [
        f"{activity}/v_{activity}_g0{group}_c01.avi"
        for activity in ("Archery", "Bowling")
        for group in (1, 2)
    ]
    for number, name in enumerate(names):
        path = root / "UCF-101" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        maker.make(path, maker.moving(20, 32, 48, seed=number), maker.KINDS["mpeg4-b.avi"])
    lists = root / "ucfTrainTestlist"
    lists.mkdir()
    (lists / "classInd.txt").write_text("1 Archery\n2 Bowling\n")
    (lists / "trainlist01.txt").write_text(f"{names[1]} 1\n{names[3]} 2\n")
    (lists / "testlist01.txt").write_text(f"{names[0]}\n{names[2]}\n")
    return root


def test_the_command_of_the_papers_tables_runs_on_files_in_the_official_layout(
    tmp_path: Path,
) -> None:
    run(
        *("video_dprp", "--setting", "paper", "--data", "ucf101"),
        *("--root", ucf101(tmp_path / "ucf"), "--out", tmp_path / "out", "--most", 2, "--seeds", 2),
        *("--network", "mvit_small", "--epochs", 1, "--epsilons", 8, "--tables", 2, 4),
        *("--bs", 0.8, "--jobs", 1),
    )
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    setting = found["setting"]
    assert (setting["train"], setting["test"], setting["classes"]) == (2, 2, 2)
    assert setting["shape"] == [20, 32, 48, 3] and setting["epsilons"] == [8.0]
    assert "batches of 8, norms clipped at 0.4, from a random stretch" in setting["course"]
    assert setting["left_open"] == list(PRESETS["paper"].left_open)
    assert {row["table"] for row in found["rows"]} == {2, 4}
    assert all(len(row["top_1_raw"]) == 2 for row in found["rows"])
    assert "--setting paper" in found["origin"] and "--data ucf101" in found["origin"]


@pytest.mark.slow
def test_the_papers_own_network_is_wired(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    weights = tmp_path / "random.safetensors"
    safetensors.save_file(mvit_layers.make_mvit("mvit_v1_b", classes=400).state_dict(), weights)
    run(
        *("video_dprp", "--setting", "paper", "--data", "ucf101"),
        *("--root", ucf101(tmp_path / "ucf"), "--out", tmp_path / "out", "--most", 1),
        *("--tests", 1, "--seeds", 1, "--weights", weights, "--epochs", 1, "--epsilons", 8),
        *("--tables", 4, "--bs", 0.8, "--jobs", 1),
    )
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    assert found["setting"]["network"] == "mvit_v1_b" and found["setting"]["seen"] == 16
