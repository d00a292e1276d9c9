"""`masquerade data`: list, check, show, make, and the sheets of pictures."""

from __future__ import annotations

import xml.etree.ElementTree as Tree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import masquerade as mq
from masquerade import catalog
from masquerade.collection import Medium
from masquerade.datasets.stage import Stage
from masquerade.publish import collections
from masquerade.publish.collections import read_video
from masquerade.report import sheet
from video_files import moving

TINY = ("--subjects", "6", "--places", "4", "--videos", "24", "--frames", "3", "--height", "32")
TINY += ("--width", "40", "--photos", "12", "--photo-px", "32", "--wearers", "6")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def _cache(in_world: Any) -> None:
    """Every test here works in the tests' own cache."""


def of_folder(root: Path, classes: int = 2) -> Path:
    from masquerade.demo.films import write_clip

    for number in range(classes):
        (root / f"class_{number}").mkdir(parents=True)
        video = mq.Video(frames=moving(4, 32, 48, seed=number), rate_hz=10)
        write_clip(root / f"class_{number}" / "a.mp4", video)
    return root


def test_list_names_every_data_set_with_licence_and_citation(command: Any) -> None:
    done = command("data", "list", "--json")
    assert set(done.json) == set(catalog.list_entries("datasets"))
    for name, about in done.json.items():
        assert about["licence"] and about["title"], name
        assert about["citation"] or name in ("folder", "manifest")
    assert "Soomro" in command("data", "list").out


def test_check_counts_and_says_what_is_missing(command: Any, tmp_path: Path) -> None:
    done = command("data", "check", "folder", "--root", of_folder(tmp_path / "set"), "--json")
    assert done.code == 0 and done.json["is_right"]
    done = command("data", "check", "ucf101", "--root", tmp_path / "nowhere")
    assert done.code == 4 and "nowhere" in done.err


def test_a_fault_that_many_recordings_share_is_said_once(command: Any, tmp_path: Path) -> None:
    for number in range(13):
        cells = {11: "1\n2", 12: "1\nlate"}.get(number, "early\n2")
        (tmp_path / f"{number}.csv").write_text(f"x\n{cells}\n")
    rows = "".join(f"{number}.csv\n" for number in range(13))
    (tmp_path / "t.csv").write_text(f"path\n{rows}")
    asked = ("data", "check", "manifest", "--recordings", "--kind", "signals")
    done = command(*asked, "--rate-hz", "1", "--table", tmp_path / "t.csv")
    _, first, *names, other, last = done.out.splitlines()
    assert first.startswith("! 11 recordings: Expected a number in line 2, column 1 (x) of FILE")
    assert [name.strip() for name in names[:2]] == ["0.csv", "1.csv"] and "and 3 more" in names[-1]
    assert other.startswith("! 12.csv: Expected a number in line 3, column 1 (x) of ")
    assert done.code == 4 and last == "1 of 13 recordings can be used."
    done = command(*asked, "--table", tmp_path / "t.csv")
    assert "! all 13 recordings: " in done.out and "0.csv" not in done.out and done.code == 4


def test_probe_names_every_file_that_is_broken_and_describes_the_others(
    command: Any, tmp_path: Path
) -> None:
    root = of_folder(tmp_path / "set")
    (root / "b.mp4").write_text("no film")
    (root / "c.png").touch()
    done = command("data", "probe", root, tmp_path / "nowhere.mp4")
    assert done.code == 4 and done.out.count("4 frames of 48 x 32") == 2
    assert done.out.count("! Expected") == 3 and done.out.endswith("2 of 5 files can be read.\n")
    faults = [
        each["error"]
        for each in command("data", "probe", root, "--json").json["files"].values()
        if "error" in each
    ]
    assert len(faults) == 2 and "empty file" in faults[1]


@pytest.mark.parametrize(
    "words", [("sample",), ("show", "stage", *TINY), ("write", "stage", *TINY)]
)
def test_a_file_where_a_folder_is_wanted_is_named(
    words: tuple[str, ...], command: Any, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    done = command("data", *words, "--out", tmp_path / "file")
    assert done.code in (2, 4) and "folders alone on the way to" in done.err


def test_probe_of_a_folder_without_videos_is_refused(command: Any, tmp_path: Path) -> None:
    (tmp_path / ".hidden.mp4").touch()
    done = command("data", "probe", tmp_path)
    assert done.code == 4 and "none among its 1 file" in done.err and "hidden" in done.err
    (tmp_path / "a.csv").touch()
    done = command("data", "probe", tmp_path)
    assert done.code == 4 and "Expected videos or pictures" in done.err


def test_an_unknown_or_missing_name_lists_the_data_sets(command: Any) -> None:
    done = command("data", "check", "ucf11")
    assert done.code == 2 and "did you mean ucf101" in done.err
    done = command("data", "check", "--root", "x")
    assert done.code == 2 and "Expected NAME" in done.err and "stage" in done.err


def test_make_makes_three_kinds_once(command: Any) -> None:
    first = command("data", "make", "stage", *TINY, "--seed", "5", "--json").json
    assert {kind: first[kind]["count"] for kind in first} == {
        "videos": 24,
        "photos": 12,
        "signals": 6,
    }
    folder = Path(first["videos"]["folder"])
    before = (folder / "frames.npy").stat().st_mtime_ns
    assert command("data", "make", "stage", *TINY, "--seed", "5", "--json").json == first
    assert (folder / "frames.npy").stat().st_mtime_ns == before


def test_only_stage_is_made(command: Any, tmp_path: Path) -> None:
    done = command("data", "make", "folder", "--root", tmp_path)
    assert done.code == 2 and "Expected stage" in done.err


def test_show_writes_a_sheet_and_a_film(command: Any, tmp_path: Path) -> None:
    done = command("data", "show", "stage", *TINY, "--out", tmp_path / "new" / "deep")
    assert done.code == 0, done.err
    assert "PRIVATE" not in done.out, "nobody on Stage ever lived"
    text = (tmp_path / "new" / "deep" / "sheet.svg").read_text()
    assert len(Tree.fromstring(text).findall(f".//{SVG}image")) == 12 * 3
    film = read_video(tmp_path / "new" / "deep" / "film.mp4")
    assert film.frames.shape == (36, 32, 40, 3) and film.rate_hz == 10


@pytest.mark.parametrize("kind", ["photos", "signals"])
def test_show_draws_photos_and_signals(command: Any, tmp_path: Path, kind: str) -> None:
    done = command("data", "show", "stage", *TINY, "--kind", kind, "--out", tmp_path)
    assert done.code == 0, done.err
    drawn = Tree.fromstring((tmp_path / "sheet.svg").read_text())
    assert drawn.findall(f".//{SVG}circle" if kind == "photos" else f".//{SVG}polyline")


def test_what_is_shown_of_real_recordings_is_called_private(command: Any, tmp_path: Path) -> None:
    root = of_folder(tmp_path / "set")
    done = command("data", "show", "folder", "--root", root, "--out", tmp_path / "out")
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "out").iterdir()} == {0o600}
    assert done.code == 0 and done.out.startswith("PRIVATE")


def test_show_of_nothing_is_refused(command: Any, tmp_path: Path) -> None:
    done = command("data", "show", "stage", *TINY, "--count", "0", "--out", tmp_path)
    assert done.code == 2 and "count" in done.err


def test_pick_takes_one_of_each_activity_first() -> None:
    stage = Stage(subjects=6, videos=48)
    chosen = collections.pick_recordings(stage, 14)
    assert len(set(chosen)) == 14
    assert {stage.labels[index].activity for index in chosen} == set(stage.activities)
    assert len(collections.pick_recordings(stage, 100)) == 48


def test_the_wrist_is_drawn_for_as_long_as_the_film() -> None:
    stage = Stage(subjects=6, places=4, videos=24, frames=8, height=48, width=48)
    wrist = stage.simulate_wrist(2)
    assert wrist.shape == (36, 3), "0.7 s at 50 Hz, both ends included"
    drawn = Tree.fromstring(collections.draw_together(stage, 2))
    assert len(drawn.findall(f".//{SVG}image")) == 24
    assert len(drawn.findall(f".//{SVG}polyline")) == 3
    with pytest.raises(ValueError, match="videos"):
        collections.draw_together(Stage(kind=Medium.SIGNALS, wearers=6), 0)


def test_joints_that_are_missing_or_outside_are_not_drawn() -> None:
    image = np.zeros((20, 20, 3), np.uint8)
    joints = np.array([[5.0, 5.0], [np.nan, 3.0], [50.0, 5.0]])
    names = ("left_shoulder", "left_elbow", "nose")
    text = sheet.draw_sheet(
        [
            sheet.SheetStrip(
                label="<a&b>", pictures=[sheet.SheetPicture(image=image, joints=joints)]
            )
        ],
        joint_names=names,
    )
    drawn = Tree.fromstring(text)
    assert len(drawn.findall(f".//{SVG}circle")) == 1 and not drawn.findall(f".//{SVG}line")


def test_a_collection_comes_by_name_and_refuses_what_it_does_not_know() -> None:
    assert len(mq.make_collection("stage", split="test")) == 108
    with pytest.raises(ValueError, match="Unknown data set"):
        mq.make_collection("imagenet")
    with pytest.raises(ValueError, match="Unknown split"):
        mq.make_collection("stage", split="everything")
    with pytest.raises(IndexError):
        _ = mq.make_collection("stage", split="test")[108]
