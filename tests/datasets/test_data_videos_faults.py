"""What goes wrong with collections of videos is told by file, line and remedy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_data_videos import hmdb, ntu, pa_hmdb, put, say, skeleton, toyota, ucf

from masquerade.datasets.folder import Folder
from masquerade.datasets.hmdb51 import HMDB51, PAHMDB51, labels_of
from masquerade.datasets.ntu_rgbd import NtuRgbd, read_skeleton
from masquerade.datasets.recording_files import VideoFiles
from masquerade.datasets.toyota_smarthome import ToyotaSmarthome
from masquerade.datasets.ucf101 import UCF101
from masquerade.errors import BadInput

MAKERS: dict[str, tuple[Callable[..., VideoFiles], Callable[[Path], Path], str]] = {
    "ucf101": (UCF101, ucf, "UCF-101"),
    "hmdb51": (HMDB51, hmdb, "kick"),
    "ntu_rgbd": (NtuRgbd, ntu, "nturgb+d_skeletons"),
    "toyota_smarthome": (ToyotaSmarthome, toyota, ""),
}
each_set = pytest.mark.parametrize(("make", "build", "inner"), MAKERS.values(), ids=MAKERS)


def pa_of(root: Path, labels: Path, **options: Any) -> PAHMDB51:
    return PAHMDB51(root=root, annotations=labels, **options)


@each_set
def test_a_root_that_is_not_there_is_named(
    make: Callable[..., VideoFiles], build: Any, inner: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=r"in the folder .*nowhere, got nothing; .*folder"):
        _ = make(root=tmp_path / "nowhere").labels
    with pytest.raises(BadInput, match=r"file\.zip, got a file"):
        make(root=say(tmp_path / "file.zip", "")).check()


@each_set
def test_an_empty_root_is_refused(
    make: Callable[..., VideoFiles], build: Any, inner: str, tmp_path: Path
) -> None:
    empty = tmp_path / "a" / "empty"
    empty.mkdir(parents=True)
    for call in (lambda: len(make(root=empty)), make(root=empty).check):
        with pytest.raises(BadInput, match=r"Expected .* in .*empty, got none") as told:
            call()
        assert "seems" not in str(told.value)


@each_set
def test_a_root_one_level_too_high_is_told(
    make: Callable[..., VideoFiles], build: Callable[[Path], Path], inner: str, tmp_path: Path
) -> None:
    build(tmp_path / "unpacked")
    with pytest.raises(BadInput, match=r"It seems that you mean .*unpacked\."):
        _ = make(root=tmp_path).labels


@pytest.mark.parametrize("name", ["ucf101", "hmdb51", "ntu_rgbd"])
def test_a_root_one_level_too_low_is_told(name: str, tmp_path: Path) -> None:
    make, build, inner = MAKERS[name]
    build(tmp_path / "unpacked")
    with pytest.raises(BadInput, match=r"It seems that you mean .*unpacked\."):
        _ = make(root=tmp_path / "unpacked" / inner).labels


def test_the_wrong_folder_of_labels_is_told(tmp_path: Path) -> None:
    root, labels = pa_hmdb(tmp_path)
    with pytest.raises(BadInput, match=r"It seems that you mean .*PA-HMDB51"):
        _ = pa_of(root, labels.parent).labels
    with pytest.raises(BadInput, match="clips of HMDB51"):
        _ = pa_of(labels, labels).labels
    with pytest.raises(BadInput, match="nowhere, got nothing"):
        _ = pa_of(root, tmp_path / "nowhere", split="train").labels


def test_unknown_options_list_the_choices() -> None:
    here = Path("x")
    cases: list[tuple[Callable[..., VideoFiles], dict[str, Any], str]] = [
        (UCF101, {"split": "trian"}, r"Unknown split 'trian' \(did you mean train\?\)"),
        (UCF101, {"fold": 4}, "Unknown fold 4; choose from 1, 2, 3"),
        (HMDB51, {"fold": "1"}, "Unknown fold '1'"),
        (HMDB51, {"split": "val"}, "choose from train, test, all"),
        (Folder, {"split": "validation"}, "choose from all, train, val, test"),
        (NtuRgbd, {"actions": 100}, r"Unknown actions 100 .*choose from 60, 120"),
        (NtuRgbd, {"protocol": "x_view"}, "Unknown protocol 'x_view'"),
        (NtuRgbd, {"protocol": "cross_setup"}, "actions=120"),
        (NtuRgbd, {"protocol": "cross_view", "actions": 120}, "actions=60"),
        (ToyotaSmarthome, {"split": "val"}, "Unknown split 'val'"),
        (ToyotaSmarthome, {"split": "validation"}, "hold out some of the people"),
        (ToyotaSmarthome, {"protocol": "CV1"}, "cross_view_1"),
        (PAHMDB51, {"annotations": here, "split": "all"}, "choose from train, test"),
    ]
    for make, options, said in cases:
        with pytest.raises(ValueError, match=said):
            make(root=here, **options)


def test_a_root_must_be_a_path() -> None:
    with pytest.raises(TypeError, match=r"Expected root to be a pathlib\.Path, got 'ucf'"):
        UCF101(root="ucf")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="annotations"):
        PAHMDB51(root=Path("x"), annotations="y")  # type: ignore[arg-type]


def test_a_video_that_is_listed_and_missing_is_named_when_it_is_read(tmp_path: Path) -> None:
    found = UCF101(root=ucf(tmp_path))
    found.find_path(1).unlink()
    assert len(found) == 2
    with pytest.raises(BadInput, match=r"v_HandStandPushups_g02_c02\.avi, got nothing"):
        _ = found[1]
    with pytest.raises(BadInput, match=r"v_HandStandPushups_g02_c02\.avi, got nothing"):
        found.read_segment(1, 0, 2)


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("classInd.txt", "1 Archery\n3 Rowing\n", r"the number 2 and a class.*line 2.*'3 Rowing'"),
        ("classInd.txt", "1 Archery\n\ntwo\n", r"line 3, got 'two'"),
        ("classInd.txt", "\n", "got an empty file"),
        ("trainlist01.txt", "Archery/v_Archery_g01_c01.avi 2\n", r"trainlist01\.txt, line 1, got"),
        ("trainlist01.txt", "Archery/v_Archery_g01_c01.avi\n", "the number of its class"),
        ("trainlist01.txt", "Archery/v_Archery_g01_c01.avi 1\nx 1\n", r"'x' \(.*line 2\)"),
        ("trainlist01.txt", "Rowing/v_Rowing_g01_c01.avi 1\n", "a class of classInd"),
        ("trainlist01.txt", "", "an empty file"),
    ],
)
def test_a_line_of_ucf101_that_is_wrong_is_named(
    file: str, text: str, said: str, tmp_path: Path
) -> None:
    say(ucf(tmp_path) / "ucfTrainTestlist" / file, text)
    with pytest.raises(BadInput, match=said) as told:
        _ = UCF101(root=tmp_path).labels
    assert file in str(told.value)


def test_a_list_of_ucf101_that_is_missing_is_named(tmp_path: Path) -> None:
    (ucf(tmp_path) / "ucfTrainTestlist" / "testlist02.txt").unlink()
    with pytest.raises(BadInput, match=r"testlist02\.txt, got nothing; unpack"):
        _ = UCF101(root=tmp_path, split="test", fold=2).labels


def test_a_stray_video_of_ucf101_is_named(tmp_path: Path) -> None:
    put(ucf(tmp_path) / "UCF-101" / "Archery" / "holiday.avi")
    assert len(UCF101(root=tmp_path)) == 2, "the lists do not have it"
    with pytest.raises(BadInput, match=r"got 'Archery/holiday\.avi'"):
        _ = UCF101(root=tmp_path, split="all").labels


@pytest.mark.parametrize("line", ["name.avi", "name.avi 3", "name.mp4 1", "1"])
def test_a_line_of_hmdb51_that_is_wrong_is_named(line: str, tmp_path: Path) -> None:
    lists = hmdb(tmp_path) / "testTrainMulti_7030_splits"
    say(lists / "wave_test_split1.txt", f"a b.avi 1\n{line}\n")
    with pytest.raises(BadInput, match=rf"wave_test_split1\.txt, line 2, got '{line}'"):
        _ = HMDB51(root=tmp_path).labels
    assert HMDB51(root=tmp_path, fold=2).labels


def test_a_list_of_hmdb51_that_is_missing_is_named(tmp_path: Path) -> None:
    lists = hmdb(tmp_path) / "testTrainMulti_7030_splits"
    (lists / "wave_test_split2.txt").unlink()
    with pytest.raises(BadInput, match=r"wave_test_split2\.txt, got nothing"):
        _ = HMDB51(root=tmp_path, fold=2).labels


def test_a_name_of_hmdb51_without_labels_gives_none() -> None:
    for name in ("wave/holiday.avi", "wave/x_wave_f_cm_np1_up_med_0.avi"):
        known = labels_of(name)
        assert known.activity == "wave" and known.view is None and known.attributes == {}
    assert labels_of("wave/a\nb_wave_f_cm_np1_fr_med_0.avi").view == "front"


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ('{\n"a.avi": {', r"a mistake in line 2"),
        ("[1]", "got a list"),
        ("\udcff", "got no text"),
        ('{"a.avi": 3}', "Expected a list for skin_color of 'a.avi'"),
        ('{"a.avi": {"skin_color": [[0, 1]]}}', r"got \[0, 1\]"),
        ('{"a.avi": {"skin_color": [[0, 1, 8]]}}', r"below 8.*got \[0, 1, 8\]"),
        ('{"a.avi": {"skin_color": [[-1, 1, 1]]}}', r"got \[-1, 1, 1\]"),
        ('{"a.avi": {"skin_color": [[0, 1, [1, 9]]]}}', r"got \[0, 1, \[1, 9\]\]"),
        ('{"a.avi": {"skin_color": [[0, 1, "W"]]}}', "got .0, 1, 'W'"),
        ('{"a.avi": {"skin_color": [[0, 1, true]]}}', "True"),
    ],
)
def test_labels_of_pa_hmdb51_that_are_wrong_are_named(
    said: str, message: str, tmp_path: Path
) -> None:
    root, labels = pa_hmdb(tmp_path)
    path = labels / "PrivacyAttributes" / "wave.json"
    path.write_text(said, encoding="utf-8", errors="surrogateescape")
    for split in ("test", "train"):
        with pytest.raises(BadInput, match=message) as told:
            _ = pa_of(root, labels, split=split).labels
        assert str(path) in str(told.value)


def test_two_stretches_over_a_frame_and_one_over_none(tmp_path: Path) -> None:
    root, labels = pa_hmdb(tmp_path)
    clip: dict[str, Any] = {name: [] for name in ("skin_color", "gender", "nudity", "relationship")}
    clip["face"] = [[0, 2, 1], [2, 4, 2], [4, 3, 0]]
    say(
        labels / "PrivacyAttributes" / "wave.json",
        json.dumps({"Hi_wave_u_nm_np1_fr_goo_0.avi": clip}),
    )
    found = pa_of(root, labels).labels[1].attributes
    assert found["face"] == (1, 1, 1, 2, 2) and found["gender"] == (-1,) * 5


def test_a_stray_video_is_named_where_names_are_all_there_is(tmp_path: Path) -> None:
    for name in ("S001C001P001R001A121_rgb.avi", "S1C1P1R1A1_rgb.avi", "S001C001P001R001A001.avi"):
        stray = put(ntu(tmp_path / "ntu") / "nturgb+d_rgb" / name)
        with pytest.raises(BadInput, match=rf"got .*{name}; move"):
            _ = NtuRgbd(root=tmp_path / "ntu").labels
        stray.unlink()
    for name in ("Dance_p03_r00_v01_c01.mp4", "Walk_p03_c01.mp4", "Walk_pXX_r00_v01_c01.mp4"):
        stray = put(toyota(tmp_path / "toyota") / "mp4" / name)
        with pytest.raises(BadInput, match=rf"got .*{name}; move"):
            ToyotaSmarthome(root=tmp_path / "toyota").check()
        stray.unlink()
    put(tmp_path / "toyota" / "mp4" / "._Walk_p03_r00_v01_c01.mp4")
    assert len(ToyotaSmarthome(root=tmp_path / "toyota", split="all")) == 6


def test_the_list_of_missing_skeletons_is_checked(tmp_path: Path) -> None:
    path = ntu(tmp_path) / "NTU_RGBD_samples_with_missing_skeletons.txt"
    for text, said in (
        ("Header\nS001C001P001R001A001\nS001C001\n", r"skeletons\.txt, line 3, got 'S001C001'"),
        ("Header only\n", r"Expected samples in .*skeletons\.txt, got none"),
    ):
        say(path, text)
        with pytest.raises(BadInput, match=said):
            _ = NtuRgbd(root=tmp_path, needs_skeleton=True).labels
        assert NtuRgbd(root=tmp_path).labels
    path.unlink()
    with pytest.raises(BadInput, match=r"skeletons\.txt, got nothing"):
        _ = NtuRgbd(root=tmp_path, needs_skeleton=True).labels


def test_a_damaged_skeleton_is_named_by_its_line(tmp_path: Path) -> None:
    whole = skeleton(2).splitlines()
    assert read_skeleton(say(tmp_path / "whole.skeleton", "\n".join(whole))).shape == (2, 25, 5)
    assert read_skeleton(say(tmp_path / "none.skeleton", "0\n")).shape == (0, 25, 5)
    for at, line in ((0, "two"), (1, "-1"), (2, "7 0 1"), (3, "nan"), (9, "1 2 x " + "0 " * 9)):
        bad = [*whole[:at], line, *whole[at + 1 :]]
        with pytest.raises(BadInput, match=rf"bad\.skeleton, line {at + 1}, got"):
            read_skeleton(say(tmp_path / "bad.skeleton", "\n".join(bad)))
    with pytest.raises(BadInput, match=r"cut\.skeleton, got the end of the file"):
        read_skeleton(say(tmp_path / "cut.skeleton", "\n".join(whole[:-3])))


def test_a_folder_that_is_no_data_set_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="nowhere, got nothing"):
        _ = Folder(root=tmp_path / "nowhere").activities
    with pytest.raises(BadInput, match="got none; is this the root"):
        _ = Folder(root=tmp_path).labels
    put(tmp_path / "wave" / "a.avi")
    with pytest.raises(BadInput, match=r"Expected a folder test in .*, got no splits"):
        _ = Folder(root=tmp_path, split="test").labels
    put(tmp_path / "loose.avi")
    with pytest.raises(BadInput, match=r"in the folder of its class, got .*loose\.avi"):
        _ = Folder(root=tmp_path).labels
