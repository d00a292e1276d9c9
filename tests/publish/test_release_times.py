"""What a release of a film keeps of it, or leaves as it was, is said or refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import masquerade as mq
import video_files as maker
from masquerade.errors import BadInput
from video_files import KINDS, Kind

FILM = maker.moving(10, 24, 32)
POOLED = "--mechanism pooled_gaussian --epsilon 8 --delta 1e-4 --unit pixels --pixels 1".split()


@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".mkv", ".webm"])
def test_frames_of_a_phone_keep_their_times_and_the_receipt_says_so(
    suffix: str, tmp_path: Path, command: Any
) -> None:
    pts = [0, 16, 33, 66, 250, 266, 283, 300, 316, 390]
    kind = Kind(options=KINDS["h264.mp4"].options, pts=pts, rotation=90)
    source, target = maker.make(tmp_path / "in.mp4", FILM, kind), tmp_path / f"out{suffix}"
    assert command("release", source, target, *POOLED).code == 0
    found = mq.probe_file(target)
    assert found.times == tuple(90 * each for each in pts) and found.shape == (10, 32, 24, 3)
    receipt = mq.check_receipt(target)
    assert receipt.kept_times
    assert any("time of each frame" in said for said in receipt.guarantee.assumed_public)
    assert "the time of each frame, counted" in command("receipt", "check", target).out
    resumed = command("release", source, target, *POOLED, "--resume", "--json")
    assert resumed.code == 0 and resumed.json["already_done"]
    beside = target.with_name(f"{target.name}.receipt.json")
    beside.write_text(json.dumps(json.loads(beside.read_text()) | {"kept_times": False}))
    beside.with_name(f"{beside.name}.sig").unlink()
    with pytest.raises(BadInput, match="states another one"):
        mq.check_receipt(target)
    even = command("release", source, tmp_path / "out.avi", *POOLED)
    assert even.code == 2 and "Expected a constant rate for a .avi" in even.err


def test_frames_that_are_hours_apart_stay_so(tmp_path: Path, command: Any) -> None:
    pts = [0, 3600_000, 3600_040, 9000_000]
    kind = Kind(options=KINDS["h264.mp4"].options, pts=pts)
    source, target = maker.make(tmp_path / "in.mp4", FILM[:4], kind), tmp_path / "out.mp4"
    assert command("release", source, target, *POOLED).code == 0
    found = mq.probe_file(target)
    assert found.times == tuple(90 * each for each in pts) and found.seconds > 9000
    assert command("report", target, "--out", tmp_path / "page.html").code == 0
    pts[-1] = 9 * 3600_000
    maker.make(source, FILM[:4], replace(kind, pts=pts))
    apart = command("release", source, tmp_path / "o.mp4", *POOLED)
    assert apart.code == 2 and "at most 6 hours between two frames, got 8" in apart.err


@pytest.mark.parametrize("name", ["film.mp4", "frames.npy"])
def test_a_heuristic_that_leaves_all_as_it_was_is_not_published_unasked(
    name: str, tmp_path: Path, command: Any
) -> None:
    film, masks, out = maker.moving(4, 32, 48), tmp_path / "masks.npy", tmp_path / f"out-{name}"
    np.save(masks, np.zeros(film.shape[:3], bool))
    if name.endswith(".npy"):
        np.save(tmp_path / name, film)
    else:
        maker.make(tmp_path / name, film, KINDS["ffv1.mkv"])
    words = ["release", tmp_path / name, out, "--mechanism", "mosaic", "--region", "given"]
    done = command(*words, "--masks", masks)
    assert done.code == 6 and "got a recording that it leaves as it was" in done.err
    assert not list(tmp_path.glob("out*")), "neither an output nor a receipt"
    assert command(*words, "--masks", masks, "--yes").code == 0
    one = np.load(masks)
    one[-1, -1, -1] = True  # one tile of the last frame
    np.save(masks, one)
    assert command(*words, "--masks", masks, "--overwrite").code == 0
