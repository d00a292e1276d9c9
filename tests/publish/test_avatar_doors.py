"""A film with avatars goes out with its masks and its receipt: all of them or none."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zipfile
from fractions import Fraction
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import real_films
import video_files as maker
from masquerade.avatars import pose
from masquerade.datasets.mask_files import MaskFiles, MaskForm
from masquerade.errors import BadInput
from masquerade.io import downloads
from masquerade.io.video import read, write

NAMES = ("out.mp4", "out.mp4.receipt.json", "out.masks.npz", "out.mp4.receipt.json.sig")
KILLED = """
import os, signal, sys
from masquerade.io import atomic
from masquerade.cli import main
plain, left = atomic.UnfinishedFile.move_into_place, [int(sys.argv[1])]
def name(self):
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    plain(self)
atomic.UnfinishedFile.move_into_place = name
main(sys.argv[2:])
"""
STOPPED = """
import os, signal, sys
from masquerade.cli import main
from masquerade.avatars import render, watch
looking = (watch.MissedPeopleWatch, "look_at_frame")
where, name = {"looking": looking, "drawing": (render, "render_figures")}[sys.argv[1]]
plain = getattr(where, name)
def killed(first, number, *rest, **more):
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return plain(first, number, *rest, **more)
setattr(where, name, killed)
main(sys.argv[2:])
"""
LARGE = """
import resource, sys
from masquerade.cli import main
try:
    main(sys.argv[1:])
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
"""


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Somebody who walks, in a small film."""
    pytest.importorskip("ai_edge_litert")
    for name in ("selfie_segmentation", "pose_detection", "pose_landmark_full", "centerface"):
        try:
            downloads.fetch_asset(name)
        except (OSError, BadInput) as error:
            pytest.skip(f"{name} cannot be had: {error}")
    path = tmp_path_factory.mktemp("private") / "walk.mp4"
    maker.make(path, real_films.clip(0)[:4], maker.KINDS["h264.mp4"])
    return path


def words(film: Path, folder: Path) -> list[str]:
    return ["release", str(film), str(folder / "out.mp4"), "--mechanism", "avatar"]


def standing(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_film_goes_out_with_masks_that_training_reads(
    film: Path, command: Any, tmp_path: Path
) -> None:
    done = command(*words(film, tmp_path), "--json")
    assert done.code == 0, done.err
    assert standing(tmp_path) == set(NAMES)
    receipt = json.loads((tmp_path / NAMES[1]).read_text())
    assert set(receipt["along"]) == {".masks.npz"} and "frames_blurred" in receipt["counted"]
    assert receipt["guarantee"]["kind"] == "heuristic" and receipt["guarantee"]["epsilon"] is None
    checked = command("receipt", "check", tmp_path)
    assert checked.code == 0 and command("receipt", "check", tmp_path / "out.mp4").code == 0
    shape = (4, *real_films.clip(0).shape[1:3])
    held = {}
    for private in ("background", "person"):
        files = MaskFiles(folder=tmp_path, private=private)  # type: ignore[arg-type]
        mask = files.read_mask("out.mp4", shape)
        assert mask.form is MaskForm.AVATAR and mask.person.shape == shape
        held[private] = mask.person
    assert held["person"].any(), "somebody walks there"
    with np.load(tmp_path / NAMES[2]) as masks:
        assert set(masks) == {"r", "q", "eroded_r"}
        packed = masks.zip.infolist()
        assert {each.compress_type for each in packed} == {zipfile.ZIP_DEFLATED}
    again = command(*words(film, tmp_path))
    assert again.code == 2 and "--resume" in again.err
    kept = command(*words(film, tmp_path), "--resume", "--json")
    assert kept.code == 0 and kept.json["already_done"]
    before = (tmp_path / NAMES[2]).read_bytes()
    assert command(*words(film, tmp_path), "--overwrite").code == 0
    assert standing(tmp_path) == set(NAMES) and command("receipt", "check", tmp_path).code == 0
    (tmp_path / NAMES[2]).write_bytes(before[:-1])
    changed = command("receipt", "check", tmp_path / "out.mp4")
    assert changed.code == 4 and "out.masks.npz" in changed.err
    (tmp_path / NAMES[2]).unlink()
    assert command("receipt", "check", tmp_path / "out.mp4").code == 4


def test_what_was_counted_is_said_first(film: Path, command: Any, tmp_path: Path) -> None:
    done = command(*words(film, tmp_path))
    first = "Found at most 1 person in one of 4 frames; at most 1 avatar stands in one."
    assert done.out.splitlines()[0] == first
    page = tmp_path / "page.html"
    assert command("report", tmp_path / "out.mp4", "--out", page).code == 0
    assert first in page.read_text()
    again = command(*words(film, tmp_path), "--resume", "--json")
    assert again.json["counted"]["people_found"] == again.json["counted"]["people_replaced"] == 1


def test_a_film_with_somebody_and_no_avatar_is_not_published_unasked(
    film: Path, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pose, "select_people", lambda tracks, **_: [])
    done = command(*words(film, tmp_path))
    assert done.code == 6 and "no avatar stands" in done.err and not standing(tmp_path)
    done = command(*words(film, tmp_path), "--yes")
    assert done.code == 0 and "at most 0 avatars stand in one" in done.out.splitlines()[0]
    assert "In 4 of 4 frames fewer avatars stand" in done.out


def test_a_film_in_which_nobody_is_found_is_not_published_unasked(
    film: Path, command: Any, tmp_path: Path
) -> None:
    empty, public = tmp_path / "private" / "empty.mp4", tmp_path / "public"
    public.mkdir()
    empty.parent.mkdir()
    frames = np.repeat(np.arange(96, dtype=np.uint8)[:, None], 112, 1)
    maker.make(empty, np.repeat(frames[None, ..., None], 3, 3), maker.KINDS["h264.mp4"])
    done = command(*words(empty, public), "--strict")
    assert done.code == 6 and "it found nobody" in done.err and not standing(public)
    done = command("release", empty.parent, public, "--mechanism", "avatar", "--json")
    assert done.code == 6 and done.json["files"][0]["exit_code"] == 6 and not standing(public)
    done = command(*words(empty, public), "--yes", "--json")
    assert done.code == 0 and done.json["counted"]["people_found"] == 0
    assert "Published all the same: a recording that it leaves as it was" in done.json["PRIVATE"][0]


def test_a_strangers_masks_are_never_replaced(film: Path, command: Any, tmp_path: Path) -> None:
    (tmp_path / NAMES[2]).write_bytes(b"mine")
    done = command(*words(film, tmp_path))
    assert done.code == 2 and "is not replaced" in done.err
    assert standing(tmp_path) == {NAMES[2]} and (tmp_path / NAMES[2]).read_bytes() == b"mine"


@pytest.mark.parametrize("named", [1, 2, 3])
def test_a_run_that_is_killed_while_it_names_its_files_is_taken_up(
    named: int, film: Path, command: Any, tmp_path: Path
) -> None:
    code = [sys.executable, "-c", KILLED, str(named), *words(film, tmp_path)]
    killed = subprocess.run(code, capture_output=True, timeout=300, env=dict(os.environ))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    left = {name for name in standing(tmp_path) if not name.startswith(".")}
    order = [NAMES[1], NAMES[3], NAMES[2]]
    assert left == set(order[:named]), "never the film without the rest"
    assert command(*words(film, tmp_path)).code == 0
    assert standing(tmp_path) == set(NAMES) and command("receipt", "check", tmp_path).code == 0


@pytest.mark.parametrize("at", ["looking", "drawing"])
def test_a_run_that_is_killed_at_work_leaves_nothing_and_the_same_command_does_it(
    at: str, film: Path, command: Any, tmp_path: Path
) -> None:
    code = [sys.executable, "-c", STOPPED, at, *words(film, tmp_path)]
    killed = subprocess.run(code, capture_output=True, timeout=300, env=dict(os.environ))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert all(name.startswith(".") for name in standing(tmp_path)), "nothing with a final name"
    assert command(*words(film, tmp_path)).code == 0
    assert standing(tmp_path) == set(NAMES) and command("receipt", "check", tmp_path).code == 0


@pytest.mark.slow
def test_ten_seconds_of_4k_need_less_than_four_gibibytes(film: Path, tmp_path: Path) -> None:
    small = list(read.read_frames(film))
    turn = (cv2.resize(one, (3840, 2160)) for one in islice(cycle(small + small[::-1]), 250))
    with (tmp_path / "large.mp4").open("wb") as stream:
        write.write_video(stream, turn, suffix=".mp4", rate=Fraction(25))
    code = [sys.executable, "-c", LARGE, *words(tmp_path / "large.mp4", tmp_path)]
    done = subprocess.run(code, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) < 4096, "MiB"


def test_without_a_network_nothing_is_published(
    film: Path, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASQUERADE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(downloads, "fetch_asset", _gone)
    (tmp_path / "public").mkdir()
    done = command(*words(film, tmp_path / "public"))
    assert done.code == 4 and not standing(tmp_path / "public")


def _gone(name: str) -> Path:
    raise BadInput(f"Expected {name} in the cache; it is not there.")


def test_the_private_export_stands_apart(film: Path, command: Any, tmp_path: Path) -> None:
    done = command(*words(film, tmp_path), "--export", tmp_path / NAMES[2])
    assert done.code == 2 and "choose another name" in done.err and not standing(tmp_path)


@pytest.mark.slow
def test_a_model_is_trained_on_avatars_with_the_masks_that_stand_beside_them(
    film: Path, command: Any, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    raw, public = real_films.put(tmp_path / "raw", "ucf101", frames=3), tmp_path / "public"
    public.mkdir()
    (raw / "ucfTrainTestlist").rename(public / "ucfTrainTestlist")
    films = public / real_films.UCF
    words = ("release", raw / real_films.UCF, films, "--mechanism", "avatar", "--keep-names")
    assert command(*words, "--jobs", "1", "--yes").code == 0, "nobody is in some of them"
    method = ("--method", "mask_dp", "--unit", "video", "--part", "head", "--epsilon", "inf")
    short = ("--batch", "2", "--public-batch", "2", "--epochs", "1")
    data = ("--data", "ucf101", "--root", public, "--masks", films, "--private", "background")
    done = command("train", tmp_path / "m.safetensors", *method, *short, *data)
    assert done.code == 0, done.err
    assert "(an avatar's)" in done.out and "surely drawn (eroded_r) is public" in done.out
