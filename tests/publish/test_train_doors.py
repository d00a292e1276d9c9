"""`masquerade train` and `masquerade evaluate`, on people who never lived."""

from __future__ import annotations

import contextlib
import io
import json
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import video_files
from few_films import Few, same, trains
from masquerade import progress
from masquerade.cli import main
from masquerade.cli import train as door
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput
from masquerade.io import atomic
from masquerade.noise import Noise
from masquerade.receipt import Receipt
from masquerade.training import loop
from masquerade.training.learner import ComputeSettings, MemorySettings, load_model
from masquerade.training.methods import DpSgd

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

TINY = ("--data", "stage", "--subjects", "6", "--places", "4", "--videos", "36", "--frames", "16")
TINY += ("--height", "64", "--width", "64")
SHORT = ("--part", "head", "--batch", "4", "--epochs", "2", "--from-scratch")
FREE = ("--method", "dp_sgd", "--epsilon", "inf", "--unit", "video", *SHORT)  # no calibration


@pytest.fixture(autouse=True, scope="module")
def _world(world_cache: Path) -> Iterator[None]:
    """The tests' own cache; every recording is made once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MASQUERADE_CACHE", str(world_cache))
        patch.setattr(Stage, "_load", cache(Stage._load))
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One model that was trained at epsilon 8."""
    path = tmp_path_factory.mktemp("models") / "m.safetensors"
    words = ("train", path, "--method", "dp_sgd", "--epsilon", "8", "--unit", "video", *SHORT)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as stop:
        main([str(word) for word in (*words, *TINY, "--json")])
    assert not stop.value.code
    (path.parent / "said.json").write_text(out.getvalue())
    return path


def test_a_model_is_written_with_its_receipt(model: Path) -> None:
    names = {file.name for file in model.parent.iterdir()}
    beside = "m.safetensors.receipt.json"
    assert names == {"m.safetensors", beside, f"{beside}.sig", "said.json"}
    receipt = Receipt.from_json((model.parent / "m.safetensors.receipt.json").read_text())
    said = json.loads((model.parent / "said.json").read_text())
    assert receipt.mechanism == "dp_sgd" and receipt.shapes == ((12,),)
    assert said["guarantee"]["epsilon"] == receipt.guarantee.epsilon <= 8
    assert "6 steps" in receipt.guarantee.assumed_public[0] and receipt.fields["batch"] == 4
    known = {f.name for f in fields(DpSgd)} - set(DpSgd.LATER)
    assert set(receipt.fields) == known and not receipt.is_rehearsal
    found = load_model(model)
    assert found.classes == Stage().activities and found.net.head[1].out_features == 12


def test_the_receipt_of_a_model_is_checked(model: Path, command: Any) -> None:
    done = command("receipt", "check", model)
    assert done.code == 0, done.err


def test_a_model_is_tested_with_a_bar_for_each_class(model: Path, command: Any) -> None:
    done = command("evaluate", model, *TINY)
    assert done.code == 0 and done.out.startswith("Top-1 0.") and "mean over classes" in done.out
    found = command("evaluate", model, *TINY, "--json").json
    assert found["recordings"] == len(Stage(videos=36, subjects=6, split="test")) == 6
    assert found["mean_per_class"] == pytest.approx(np.mean(list(found["per_class"].values())))
    assert len(done.out.splitlines()) == 1 + len(found["per_class"])


def test_what_is_no_model_or_has_other_classes_is_refused(
    model: Path, command: Any, tmp_path: Path
) -> None:
    other = tmp_path / "m.safetensors"
    trains(other)
    done = command("evaluate", other, *TINY)
    assert done.code == 4 and "classes of the model, in its order (walk, run" in done.err
    other.write_bytes(model.read_bytes()[:500])
    assert command("evaluate", other, *TINY).code == 4
    assert command("evaluate", tmp_path / "nothing.safetensors", *TINY).code == 4


@pytest.mark.parametrize("unit", ["video", "subject"])
def test_a_dry_run_prints_the_guarantee_and_reads_nothing(
    unit: str, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: object) -> None:
        raise RuntimeError("a recording was read")

    monkeypatch.setattr(Stage, "_load", read)
    words = ("train", tmp_path / "m.safetensors", "--method", "mask_dp", "--epsilon", "3")
    done = command(*words, "--unit", unit, *SHORT, *TINY, "--dry-run", "--json")
    assert done.code == 0, done.err
    guarantee = done.json["guarantee"]
    assert 2.9 < guarantee["epsilon"] <= 3 and guarantee["relation"] == "replace_one"
    assert done.json["units"] == {"video": 12, "subject": 2}[unit]
    assert guarantee["unit"]["name"] == unit and done.json["noise_multiplier"] > 0
    assert not list(tmp_path.iterdir())
    with pytest.raises(RuntimeError, match="was read"):
        command("train", tmp_path / "m.safetensors", *FREE, *TINY)


def test_targets_that_cannot_be_are_refused_before_anything_is_read(
    model: Path, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stage, "_load", None)
    before = model.read_bytes()
    done = command("train", model, *FREE, *TINY)
    assert done.code == 2 and "stands already" in done.err and model.read_bytes() == before
    done = command("train", tmp_path / "m.pth", *FREE, *TINY)
    assert done.code == 2 and ".safetensors" in done.err
    done = command("train", tmp_path / "no" / "m.safetensors", *FREE, *TINY)
    assert done.code == 2 and "make it first" in done.err


def test_without_a_unit_the_units_are_listed(command: Any, tmp_path: Path) -> None:
    words = ("train", tmp_path / "m.safetensors", "--method", "dp_sgd", "--epsilon", "8", *TINY)
    for done in (command(*words), command(*words, "--json")):
        assert done.code == 2 and "subject" in done.err and "Expected a unit" in done.err
    done = command("train", tmp_path / "m.safetensors", *TINY)
    assert done.code == 2 and "dp_sgd, feature_dp" in done.err


def test_a_subject_is_learned_from_as_a_whole(tmp_path: Path) -> None:
    done = trains(tmp_path / "m.safetensors", unit="subject", recordings=2, batch=2)
    assert done.receipt.shapes == ((3,),) and done.receipt.guarantee.unit.name == "subject"
    with pytest.raises(
        BadInput, match=r"who is in film 0 for --unit subject, got nobody; choose another"
    ):
        trains(tmp_path / "n.safetensors", Few(subject=None), unit="subject")


@pytest.mark.parametrize("kind", ["photos", "signals"])
def test_photos_and_signals_are_refused_before_anything_is_read(
    kind: str, model: Path, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stage, "_find", None)
    small = ("--photos", "36", "--photo-px", "32", "--wearers", "6", "--kind", kind)
    net = ("--network", "mvit_small")
    for words in (("train", tmp_path / "m.safetensors", *FREE, *net), ("evaluate", model)):
        done = command(*words, *TINY, *small)
        assert done.code == 4 and "Expected a data set of videos, got Stage" in done.err
    assert not list(tmp_path.iterdir())


def test_an_activity_outside_the_list_or_a_missing_mask_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="private recordings that can be used"):
        trains(tmp_path / "m.safetensors", Few(strange="fly"))
    with pytest.raises(BadInput, match="person mask"):
        trains(tmp_path / "m.safetensors", Few(has_mask=False), "mask_dp")
    assert not list(tmp_path.iterdir())


def test_activations_on_disk_are_private_gone_at_the_end_and_change_nothing(
    tmp_path: Path,
) -> None:
    folder, seen = tmp_path / "cache", []
    folder.mkdir()

    def tell(what: str, *_: int) -> None:
        if what == "training":
            seen.append({stat.S_IMODE(one.stat().st_mode) for one in folder.iterdir()})
            assert len(list(folder.glob("masquerade-*/private-activations.npy"))) == 2

    before = os.umask(0)
    try:
        ways = ComputeSettings(memory=MemorySettings(most_mb=0, folder=folder))
        on_disk = trains(
            tmp_path / "a.safetensors",
            name="mask_dp",
            noise=Noise(seed=1),
            ways=ways,
            progress=tell,
        )
    finally:
        os.umask(before)
    assert seen == [{0o700}] * 4 and not list(folder.iterdir())
    held = trains(tmp_path / "b.safetensors", name="mask_dp", noise=Noise(seed=1))
    assert same(held.value, on_disk.value)
    assert held.receipt.fields["mask_sha256"] is not None
    kept = ComputeSettings(memory=MemorySettings(most_mb=0, folder=folder, is_kept=True))
    trains(tmp_path / "c.safetensors", ways=kept)
    assert len(list(folder.glob("*/*.npy"))) == 1


def test_a_rehearsal_says_so_in_its_name_and_promises_nothing(tmp_path: Path, command: Any) -> None:
    target = tmp_path / "m.safetensors"
    done = command("train", target, *FREE, *TINY, "--rehearsal-seed", "3", "--json")
    assert done.code == 0, done.err
    assert Path(done.json["model"]).name == "m.rehearsal.safetensors" and not target.exists()
    assert done.json["guarantee"]["kind"] == "none"
    receipt = Receipt.from_json(Path(done.json["receipt"]).read_text())
    assert receipt.is_rehearsal and "Rehearsal" in receipt.guarantee.caveats[-1]


def test_a_rehearsal_gives_the_same_file_again(tmp_path: Path) -> None:
    made = [trains(tmp_path / f"{number}.safetensors", noise=Noise(seed=1)) for number in range(4)]
    assert all(same(made[0].value, one.value) for one in made[1:])
    assert len({one.value.read_bytes() for one in made}) == 1
    assert len({one.receipt.output_sha256 for one in made}) == 1


def interrupted(step: int, real: Callable[..., float] = loop.rate_at) -> Callable[..., float]:
    def rate(method: Any, number: int, steps: int) -> float:
        if number == step:
            raise KeyboardInterrupt
        return real(method, number, steps)

    return rate


def test_an_interrupted_run_leaves_nothing_and_goes_on_from_its_checkpoint(
    tmp_path: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, folder = tmp_path / "m.safetensors", tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    words = ("train", target, *FREE, *TINY, "--cache-mb", "0")
    monkeypatch.setattr(loop, "rate_at", interrupted(3))
    assert command(*words).code == 130
    assert [file.name for file in tmp_path.iterdir()] == ["tmp"]
    assert not list(folder.glob("masquerade-*/*.npy"))
    assert command(*words, "--checkpoint-every", "2").code == 130
    private = tmp_path / "m.safetensors.private-checkpoint"
    assert stat.S_IMODE(private.stat().st_mode) == 0o600 and not target.exists()
    monkeypatch.setattr(loop, "rate_at", interrupted(0))  # it does not begin again
    assert command(*words, "--checkpoint-every", "2").code == 0
    assert target.exists() and not private.exists()


def test_a_model_that_another_process_wrote_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, real = tmp_path / "m.safetensors", atomic.lock_target

    @contextlib.contextmanager
    def waited(path: Path) -> Iterator[None]:
        with real(path):
            path.write_bytes(b"the other's")
            yield

    monkeypatch.setattr(atomic, "lock_target", waited)
    with pytest.raises(FileExistsError):
        trains(target)


def test_there_is_one_bar_for_reading_and_one_for_training(
    tmp_path: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = progress.make_progress_bars()
    monkeypatch.setattr(door, "make_progress_bars", lambda: shown)
    assert command("train", tmp_path / "m.safetensors", *FREE, *TINY).code == 0
    assert [task.description for task in shown.tasks] == ["reading", "training"]


@pytest.mark.parametrize("name", ["gpu9", "mps", "cuda:1", ""])
def test_an_unknown_device_is_refused(name: str, tmp_path: Path, command: Any) -> None:
    done = command("train", tmp_path / "m.safetensors", *FREE, *TINY, "--device", name)
    assert done.code == 2 and "cpu" in done.err and "cuda" in done.err
    with pytest.raises(ValueError, match="device"):
        MemorySettings(device=name)


def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="Expected a GPU for device=cuda, found none"):
        MemorySettings(device="cuda")


def test_weights_to_begin_with_and_none_are_not_both_given(tmp_path: Path, command: Any) -> None:
    words = ("train", tmp_path / "m.safetensors", *FREE, *TINY)  # FREE is from scratch
    done = command(*words, "--weights", tmp_path / "w.safetensors")
    assert done.code == 2 and "Expected weights or from_scratch, got both" in done.err
    assert not list(tmp_path.iterdir())


def test_a_list_of_classes_that_was_read_from_recordings_is_named_as_public(
    tmp_path: Path, command: Any
) -> None:
    for number, name in enumerate(("walk", "run")):
        (tmp_path / name).mkdir()
        frames = video_files.moving(16, 64, 64, seed=number)
        video_files.make(tmp_path / name / "a.mkv", frames, video_files.KINDS["ffv1.mkv"])
    words = (*FREE, "--data", "folder", "--root", tmp_path)
    read, given = tmp_path / "read.safetensors", tmp_path / "given.safetensors"
    assert "list of classes, which was read from" in command("train", read, *words, "--dry-run").out
    done = command("train", read, *words)
    assert "list of classes, which was read from" in done.out, done.err
    assert "list of classes, which was read from" in command("receipt", "check", read).out
    listed = (*words, "--classes", "walk", "run", "rare")
    done = command("train", given, *listed)
    assert done.code == 0 and "which was read from" not in done.out, done.err
    assert load_model(given).classes == ("walk", "run", "rare")
    strange = command("train", tmp_path / "m.safetensors", *words, "--classes", "walk", "wave")
    assert strange.code == 4 and "--classes walk wave" in strange.err
