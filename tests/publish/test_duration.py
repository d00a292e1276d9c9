"""What a dry run says beforehand, and how little of the file it reads for it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import video_files as maker
from conftest import python
from masquerade import catalog
from masquerade.io.video import colour, probe, read
from masquerade.mechanism import FrameByFrame
from masquerade.publish import estimates
from masquerade.publish.recording import make_mechanism

FILM = maker.moving(12, 72, 96)
POOLED = "--mechanism pooled_gaussian --epsilon 8 --delta 1e-4 --unit pixels --pixels 16".split()
LIGHT = ("sqlalchemy", "joblib", "dp_accounting", "scipy.stats", "scipy.signal", "torch", "cv2")


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return maker.make(tmp_path / "in.mp4", FILM, maker.KINDS["h264.mp4"])


def test_a_dry_run_reads_the_header_and_says_so(
    clip: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decodes(*_: object, **__: object) -> Any:
        raise AssertionError("all of the file was decoded")

    monkeypatch.setattr(probe, "probe", decodes)
    monkeypatch.setattr(read, "read_frames", decodes)
    words = ["release", clip, clip.with_name("out.mp4"), *POOLED, "--dry-run"]
    said = command(*words).out
    assert "12 frames by its header; a release decodes and counts them." in said
    assert "Expected time: about a second, and size: about" in said and "estimates" in said
    told = command(*words, "--json").json
    assert told["frames_counted"] == "header" and told["shapes"] == [[12, 72, 96, 3]]
    assert told["expected_seconds"] > 0 and told["expected_bytes"] > 0


def test_a_film_without_a_count_is_told_about(tmp_path: Path, command: Any) -> None:
    source = maker.make(tmp_path / "in.mkv", FILM, maker.KINDS["h264.mkv"])
    words = ["release", source, tmp_path / "out.mkv", *POOLED, "--dry-run"]
    assert "About 12 frames, by its header's times" in command(*words).out
    assert command(*words, "--json").json["frames_counted"] == "about"


def test_a_folder_adds_up_time_and_size(clip: Path, command: Any) -> None:
    (clip.parent / "in").mkdir()
    for name in "abc":
        shutil.copy(clip, clip.parent / "in" / f"{name}.mp4")
    words = ["release", clip.parent / "in", clip.parent / "out", *POOLED, "--dry-run"]
    told = command(*words, "--json").json
    for what in ("expected_seconds", "expected_bytes"):
        assert 0 < told[what] == pytest.approx(sum(each[what] for each in told["files"]))
    assert "Expected in all: about a second one after the other, and about" in command(*words).out


def test_a_dry_run_counts_where_a_ledger_or_an_output_wants_it(clip: Path, command: Any) -> None:
    target, ledger = clip.with_name("out.mp4"), clip.with_name("budget.db")
    budget = ["--epsilon", "20", "--delta", "1e-3", "--unit", "pixels", "--pixels", "16"]
    assert command("ledger", "open", "ward", *budget, "--ledger", ledger).code == 0
    assert command("ledger", "add", "ward", clip, "--ledger", ledger).code == 0
    words = ["release", clip, target, *POOLED]
    dry = command(*words, "--ledger", ledger, "--dry-run", "--json")
    assert dry.json["frames_counted"] == "decoded"
    assert command(*words, "--yes").code == 0
    dry = command(*words, "--resume", "--dry-run", "--json")
    assert dry.json["frames_counted"] == "decoded"


@pytest.mark.parametrize("is_charged", [False, True])
def test_a_film_is_turned_to_rgb_once_and_under_a_ledger_twice(
    is_charged: bool, clip: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = clip.with_name("budget.db")
    budget = ["--epsilon", "20", "--delta", "1e-3", "--unit", "pixels", "--pixels", "16"]
    assert command("ledger", "open", "ward", *budget, "--ledger", ledger).code == 0
    assert command("ledger", "add", "ward", clip, "--ledger", ledger).code == 0
    plain, made = colour.ToRgb.__call__, []

    def noted(self: colour.ToRgb, frame: Any) -> np.ndarray:
        made.append(frame.pts)
        return plain(self, frame)

    monkeypatch.setattr(colour.ToRgb, "__call__", noted)
    words = ["release", clip, clip.with_name("out.mp4"), *POOLED, "--yes"]
    assert command(*words, *["--ledger", ledger] * is_charged).code == 0
    assert len(made) == len(FILM) * (1 + is_charged)


def test_every_mechanism_for_videos_has_an_estimate() -> None:
    for name in catalog.list_entries("mechanisms"):
        mechanism = catalog.make_example("mechanisms", name)
        if isinstance(mechanism, FrameByFrame):
            assert name in estimates._MECHANISM_PACES, f"measure {name} and put it into the table"
            short, long = ((frames, 720, 1280, 3) for frames in (10, 1000))
            assert (
                0
                < 90 * estimates.estimate_seconds(mechanism, (short,))
                < estimates.estimate_seconds(mechanism, (long,))
            )


def test_estimates_follow_what_is_written_and_how() -> None:
    mechanism, shapes = make_mechanism("mosaic"), ((100, 720, 1280, 3),)
    lossy = estimates.estimate_size(mechanism, shapes, suffix=".mp4")
    assert (
        lossy
        < estimates.estimate_size(mechanism, shapes, suffix=".mkv", is_exact=True)
        < 720 * 1280 * 300
    )
    assert estimates.estimate_seconds(
        mechanism, shapes, is_charged=True
    ) > estimates.estimate_seconds(mechanism, shapes)
    numbers = make_mechanism("gaussian_noise", epsilon=1, delta=1e-5, unit="frame")
    assert estimates.estimate_size(numbers, ((1000, 6),), suffix=".npy") == 48_000


def test_a_dry_run_loads_no_more_than_it_needs(clip: Path) -> None:
    words = ["release", str(clip), str(clip.with_name("out.mp4")), *POOLED, "--dry-run"]
    code = f"""
import sys
from masquerade.cli import main
try:
    main({words!r})
except SystemExit as done:
    print("code", done.code, *(name for name in {LIGHT!r} if name in sys.modules))
"""
    assert python(code).strip().endswith("code 0")


def test_a_segmenter_takes_longer_than_a_face_detector() -> None:
    shapes = ((10, 720, 1280, 3),)
    faces, people = (make_mechanism("selective_privacy", region=one) for one in ("faces", "people"))
    assert (
        1.5
        < estimates.estimate_seconds(people, shapes) / estimates.estimate_seconds(faces, shapes)
        < 3
    )
