"""Recordings of one's own in one table: read right, and every fault named by its line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import video_files
from masquerade.collection import Medium
from masquerade.datasets.folder import Folder
from masquerade.datasets.manifest import Manifest
from masquerade.datasets.manifest_table import ManifestRow, as_csv
from masquerade.errors import BadInput, format_error
from masquerade.joints import MPII
from masquerade.publish.collections import describe_public_part, select_signals
from masquerade.publish.masks import with_masks
from masquerade.recordings import Photo, Signal, Video
from masquerade.training.units import private_item

EXACT = video_files.KINDS["ffv1.mkv"]
FILM = video_files.moving(50, 24, 32)  # two seconds at 25 Hz


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ward")
    (folder / "films").mkdir()
    for name in "abc":
        video_files.make(folder / "films" / f"{name}.mkv", FILM, EXACT)
    return folder


def table(folder: Path, text: str, kind: Medium = Medium.VIDEOS) -> Manifest:
    (folder / "recordings.csv").write_text(text, encoding="utf-8")
    return Manifest(table=folder / "recordings.csv", kind=kind)


ROWS = """path,activity,subject,split,place,view
films/a.mkv,walk,anna,train,ward 3,left
films/b.mkv,fall,ben,test,ward 3,
films/c.mkv,walk,cleo,train,,
"""


def test_a_table_of_videos_says_who_does_what_and_where(ward: Path) -> None:
    data = table(ward, ROWS)
    assert (data.kind, data.activities) == (Medium.VIDEOS, ("fall", "walk"))
    assert data.parts == ("all", "train", "test")
    assert [known.subject for known in data.select_part("train").labels] == ["anna", "cleo"]
    first = data[0]
    assert isinstance(first, Video)
    assert first.frames.shape == FILM.shape
    assert (first.subject, first.activity, first.place, first.view) == (
        *("anna", "walk", "ward 3", "left"),
    )
    assert [known.subject for known in data.select_subjects(["ben"]).labels] == ["ben"]
    assert describe_public_part(data.select_part("test")) == {
        **{"data": "manifest", "kind": "videos", "split": "test", "joint_list": "coco"},
    }


def test_tables_with_semicolons_tabs_and_a_byte_order_mark_are_the_same(ward: Path) -> None:
    usual = table(ward, ROWS).labels
    for delimiter in ";\t":
        assert table(ward, "\ufeff" + ROWS.replace(",", delimiter)).labels == usual


def test_a_parquet_table_is_the_same_as_csv(ward: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    heading, *rows = [line.split(",") for line in ROWS.splitlines()]
    held = {name: [row[place] or None for row in rows] for place, name in enumerate(heading)}
    parquet.write_table(pyarrow.table(held), ward / "recordings.parquet")
    found = Manifest(table=ward / "recordings.parquet")
    assert found.labels == table(ward, ROWS).labels
    (ward / "broken.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(BadInput, match="Expected Parquet"):
        _ = Manifest(table=ward / "broken.parquet").labels


def test_a_piece_of_a_video_is_cut_by_seconds(ward: Path) -> None:
    rows = "path,start,end\nfilms/a.mkv,0,0.4\nfilms/a.mkv,0.4,1\nfilms/a.mkv,1.6,\n"
    whole: Any = table(ward, "path\nfilms/a.mkv\n")[0]
    data = table(ward, rows)
    pieces: list[Any] = list(data)
    for piece, (start, stop) in zip(pieces, ((0, 10), (10, 25), (40, 50)), strict=True):
        assert np.array_equal(piece.frames, whole.frames[start:stop])
    assert [known.name for known in data.labels][1:] == ["films/a.mkv#0.4-1", "films/a.mkv#1.6-"]


def test_photos_come_with_their_joints_and_head_size(tmp_path: Path) -> None:
    kind = video_files.Kind(suffix=".png", codec="png", pixel_format="rgb24")
    video_files.make(tmp_path / "a.png", FILM[:1], kind)
    joints = np.array([[1.0, 2.0, 1.0], [3.0, 4.0, 0.0], [np.nan, np.nan, 1.0]])
    np.save(tmp_path / "a.npy", joints)
    data = table(tmp_path, "path,joints,head_px,subject\na.png,a.npy,7.5,anna\n", Medium.PHOTOS)
    found = data[0]
    assert data.kind is Medium.PHOTOS and isinstance(found, Photo)
    assert found.visible is not None and found.visible.tolist() == [True, False, False]
    assert (found.head_px, found.subject) == (7.5, "anna")
    assert np.array_equal(found.image, FILM[0])


def test_joints_of_a_video_are_cut_with_it(ward: Path) -> None:
    joints = np.arange(50 * 4, dtype=float).reshape(50, 2, 2)
    np.save(ward / "j.npy", joints)
    found: Any = table(ward, "path,joints,start,end\nfilms/a.mkv,j.npy,1,2\n")[0]
    assert np.array_equal(found.joints, joints[25:])


@pytest.fixture
def worn(tmp_path: Path) -> Callable[..., Manifest]:
    """Three people with an accelerometer, in files whose columns have another order each."""
    waves = np.arange(60.0).reshape(20, 3)
    for name, order in (("a", "xyz"), ("b", "zyx"), ("c", "yxz")):
        columns = waves[:, ["xyz".index(each) for each in order]]
        lines = [",".join(order), *(",".join(map(str, row)) for row in columns)]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    rows = "path,subject,activity\na.csv,anna,walk\nb.csv,ben,sit\nc.csv,cleo,walk\n"

    def make(**fields: Any) -> Manifest:
        (tmp_path / "worn.csv").write_text(rows)
        return Manifest(
            table=tmp_path / "worn.csv", kind=Medium.SIGNALS, **{"rate_hz": 10.0, **fields}
        )

    return make


def test_columns_of_signals_are_named_once_and_found_by_name(worn: Any) -> None:
    data = worn(columns=("z", "x"))
    signals: list[Any] = list(data)
    assert all(isinstance(each, Signal) for each in signals)
    for each in signals:
        assert each.channels == ("z", "x")
        assert np.array_equal(each.values, np.arange(60.0).reshape(20, 3)[:, [2, 0]])
    assert [each.activity[0] for each in signals] == [1, 0, 1]
    assert worn()[1].channels == ("x", "y", "z"), "else those of the first file"


def test_signals_of_a_table_come_in_three_parts_by_the_names_of_people(worn: Any) -> None:
    parts = select_signals(worn(), public="ben", test="cleo")
    assert {name: [known.subject for known in part.labels] for name, part in parts.items()} == {
        **{"train": ["anna"], "public": ["ben"], "test": ["cleo"]},
    }


def test_signals_of_nobody_cannot_be_parted_by_people(worn: Any, tmp_path: Path) -> None:
    data = worn()
    (tmp_path / "worn.csv").write_text("path,activity\na.csv,walk\nb.csv,sit\n")
    with pytest.raises(BadInput, match=r"got nobody for a\.csv; .* column subject"):
        select_signals(data, public="None")


def test_signals_without_a_rate_or_with_a_lost_column_are_refused(worn: Any) -> None:
    with pytest.raises(BadInput, match="--rate-hz"):
        worn(rate_hz=None)[0]
    with pytest.raises(BadInput, match=r"one column w in .*a\.csv, got none"):
        worn(columns=("w",))[0]


def test_a_column_that_was_not_asked_for_may_hold_anything(worn: Any, tmp_path: Path) -> None:
    data = worn(columns=("z", "x"))
    lines = (tmp_path / "b.csv").read_text().splitlines()
    noted = [
        f"{line},{word}" for line, word in zip(lines, ["note", *["caf\xe9"] * 20], strict=True)
    ]
    (tmp_path / "b.csv").write_bytes("\n".join(noted).encode("latin-1"))
    assert np.array_equal(data[1].values, data[0].values) and all(
        each.is_complete for each in data.check()
    )
    (tmp_path / "a.csv").write_bytes((tmp_path / "b.csv").read_bytes())
    with pytest.raises(BadInput, match=r"line 2, column 4 \(note\)") as stop:
        worn()[0]
    assert "--columns" in format_error(stop.value) and "--heading" not in format_error(stop.value)


def test_check_names_the_files_without_a_column_that_was_asked_for(
    worn: Any, tmp_path: Path
) -> None:
    (tmp_path / "c.csv").write_text("x,y\n1,2\n")
    assert worn(columns=("z", "x")).check()[0].missing == ("line 4: column z of c.csv",)


def test_without_a_rate_the_flag_is_named_even_where_recordings_are_private(worn: Any) -> None:
    with pytest.raises(BadInput, match="--rate-hz"):
        private_item(worn(rate_hz=None), 0)


FAULTS = {
    "unknown column": ("path,person\nfilms/a.mkv,anna\n", "Unknown column 'person'.*line 1"),
    "no path": ("subject\nanna\n", "column path"),
    "column twice": ("path,path\na.mkv,a.mkv\n", "path twice"),
    "empty path": ("path,subject\n,anna\n", "line 2"),
    "missing file": ("path\nfilms/a.mkv\nfilms/z.mkv\n", "line 3: films/z.mkv"),
    "missing mask": ("path,mask\nfilms/a.mkv,m.npz\n", "line 2: m.npz"),
    "row twice": ("path\nfilms/a.mkv\nfilms/b.mkv\nfilms/a.mkv\n", "lines 2, 4"),
    "the same file by another path": ("path\nfilms/a.mkv\nfilms/../films/a.mkv\n", "lines 2, 3"),
    "pieces that overlap": (
        "path,start,end\nfilms/a.mkv,0,1\nfilms/a.mkv,.9,2\n",
        "lines 2, 3.*do not overlap",
    ),
    "a subject in two splits": (
        "path,subject,split\nfilms/a.mkv,anna,train\nfilms/b.mkv,anna,test\n",
        "'anna' in train .line 2. and test .line 3.",
    ),
    "unknown split": ("path,split\nfilms/a.mkv,training\n", "line 2, got 'training'"),
    "a subject missing": ("path,subject\nfilms/a.mkv,anna\nfilms/b.mkv,\n", "subject.*line 3"),
    "two kinds": ("path\nfilms/a.mkv\na.csv\n", "line 3, got a.csv.*--kind signals"),
    "no recording": ("path\nfilms/a.mkv\nnotes.txt\n", r"line 3, got notes\.txt"),
    "end before start": ("path,start,end\nfilms/a.mkv,2,1\n", "line 2"),
    "no number": ("path,start\nfilms/a.mkv,soon\n", "seconds.*line 2, got 'soon'"),
    "infinite": ("path,start\nfilms/a.mkv,inf\n", "seconds.*line 2"),
    "too few cells": ("path,subject\nfilms/a.mkv\n", "2 cells.*line 2, got 1"),
    "open quote": ('path\n"films/a.mkv\n', "Expected CSV"),
    "heading alone": ("path,subject\n", "heading alone"),
    "empty": ("\n\n", "empty file"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_refused_by_name_and_line(ward: Path, fault: str) -> None:
    text, said = FAULTS[fault]
    data = table(ward, text)
    with pytest.raises(BadInput, match=said):
        _ = data.labels


def test_a_table_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="got nothing"):
        _ = Manifest(table=tmp_path / "none.csv").labels
    with pytest.raises(BadInput, match="got a folder"):
        _ = Manifest(table=tmp_path).labels
    (tmp_path / "t.xlsx").write_text("x")
    with pytest.raises(BadInput, match=r"\.csv or \.parquet"):
        _ = Manifest(table=tmp_path / "t.xlsx").labels
    (tmp_path / "latin.csv").write_bytes("path\nRäume.mkv".encode("latin-1"))
    with pytest.raises(BadInput, match="UTF-8"):
        _ = Manifest(table=tmp_path / "latin.csv").labels


def test_an_end_beyond_the_film_is_refused_when_it_is_read(ward: Path) -> None:
    for rows in ("path,end\nfilms/a.mkv,9\n", "path,start\nfilms/a.mkv,9\n"):
        with pytest.raises(BadInput):
            table(ward, rows)[0]


def test_a_split_or_a_person_that_the_table_does_not_have_is_refused(ward: Path) -> None:
    with pytest.raises(BadInput, match="val"):
        table(ward, ROWS).select_part("val")
    with pytest.raises(BadInput, match="did you mean anna"):
        _ = table(ward, ROWS).select_subjects(["ana"]).labels


def test_check_counts_what_is_there_and_lists_what_is_not(ward: Path, command: Any) -> None:
    table(ward, ROWS + "films/z.mkv,walk,zoe,train,,\n")
    found = command("data", "check", "manifest", "--table", ward / "recordings.csv")
    assert found.code == 4
    assert "missing: line 5: films/z.mkv" in found.out and "subjects: 4" in found.out


def test_masks_that_the_table_names_are_used(ward: Path) -> None:
    mask = np.zeros(FILM.shape[:3], bool)
    mask[:, 4:9] = True
    np.savez(ward / "m.npz", person=mask)
    data = table(ward, "path,mask\nfilms/a.mkv,m.npz\n")
    video = with_masks(data, "table", private="person")[0]
    assert video.person_mask is not None and np.array_equal(video.person_mask, mask)
    with pytest.raises(BadInput, match="column mask"):
        with_masks(table(ward, ROWS), "table", private="person")


def test_what_stage_writes_is_read_back_by_its_table(
    tmp_path: Path, in_world: Path, command: Any
) -> None:
    few = ("--subjects", "6", "--videos", "12", "--frames", "2", "--split", "all")
    assert command("data", "write", "stage", "--out", tmp_path / "people", *few).code == 0
    data = Manifest(table=tmp_path / "people.csv")
    assert len(data) == 12 and set(data.parts) == {"all", "public", "train", "test"}
    assert command("data", "check", "manifest", "--table", tmp_path / "people.csv").code == 0


def test_rows_are_written_as_they_are_read(tmp_path: Path) -> None:
    rows = [
        ManifestRow(line=2, path="a,b.npy", subject='an"na', start=0.5),
        ManifestRow(line=3, path="c.npy"),
    ]
    rows = [rows[0], ManifestRow(line=3, path="c.npy", subject="b")]
    (tmp_path / "t.csv").write_text(as_csv(rows))
    assert Manifest(table=tmp_path / "t.csv")._manifest_table.rows == tuple(rows)


def test_photos_with_joints_say_which_list_they_follow(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("path,joints\na.png,a.npy\n")
    named = Manifest(table=tmp_path / "t.csv", kind=Medium.PHOTOS, joint_list="mpii")
    assert named.joint_names == MPII and len(named.joint_names) == 16
    (tmp_path / "t.csv").write_text("path\na.png\n")
    assert Manifest(table=tmp_path / "t.csv", kind=Medium.PHOTOS).joint_names == ()


def test_a_public_list_of_classes_says_what_a_model_may_name(ward: Path) -> None:
    data = table(ward, ROWS)
    assert "read from the recordings' own labels" in data.class_source
    listed = replace(data, classes=("walk", "fall", "rare"))
    assert listed.activities == ("walk", "fall", "rare") and not listed.class_source
    assert [known.activity for known in listed.labels] == ["walk", "fall", "walk"]
    with pytest.raises(BadInput, match=r"--classes walk alone.*another in line 3"):
        _ = replace(data, classes=("walk",)).labels


def test_folders_outside_a_public_list_of_classes_are_refused(ward: Path) -> None:
    data = Folder(root=ward)
    assert data.activities == ("films",) and data.class_source
    listed = replace(data, classes=("wave", "films"))
    assert listed.activities == ("wave", "films") and not listed.class_source
    with pytest.raises(ValueError, match="each class once in --classes, got wave wave"):
        replace(data, classes=("wave", "wave"))
    with pytest.raises(BadInput, match="Expected videos of --classes wave, got"):
        _ = replace(data, classes=("wave",)).labels
