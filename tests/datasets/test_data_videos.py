"""Collections of videos, each read from a small tree in its publisher's layout."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import video_files as maker
from masquerade.collection import Collection
from masquerade.datasets.folder import Folder
from masquerade.datasets.hmdb51 import HMDB51, PAHMDB51
from masquerade.datasets.ntu_rgbd import NtuRgbd
from masquerade.datasets.recording_files import VideoFiles
from masquerade.datasets.toyota_smarthome import ToyotaSmarthome
from masquerade.datasets.ucf101 import UCF101
from masquerade.io.video import probe, read
from masquerade.publish import collections
from masquerade.recordings import Video

FILM = maker.moving(6, 32, 48)
KICK = "#20_Bad & [HD] !_kick_f_cm_np2_ba_med_0.avi"
NTU_HEADER = "The samples of NTU RGB+D with missing skeletons:\n(302 of 56,880)\n\n"


@cache
def encoded(kind: str, frames: int) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"a{maker.KINDS[kind].suffix}"
        return maker.make(path, FILM[:frames], maker.KINDS[kind]).read_bytes()


def put(path: Path, *, frames: int = 6) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = "mpeg4-b.avi" if path.suffix == ".avi" else "h264.mp4"
    path.write_bytes(encoded(kind, frames))
    return path


def say(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def ucf(root: Path, *, videos: str = "UCF-101", lists: str = "ucfTrainTestlist") -> Path:
    names = [f"Archery/v_Archery_g0{g}_c01.avi" for g in (1, 2)]
    names += [f"HandstandPushups/v_HandStandPushups_g0{g}_c02.avi" for g in (1, 2)]
    for name in names:
        put(root / videos / name)
    say(root / lists / "classInd.txt", "1 Archery\r\n2 HandstandPushups\r\n")
    for fold in (1, 2, 3):
        train = f"{names[1]} 1\r\n{names[3]} 2\r\n"
        say(root / lists / f"trainlist0{fold}.txt", train)
        say(root / lists / f"testlist0{fold}.txt", f"{names[0]}\r\n{names[2]}\r\n")
    return root


def hmdb(root: Path) -> Path:
    names = ["Hi_wave_u_nm_np1_fr_goo_0.avi", "Hi_wave_h_cm_np1_le_bad_1.avi"]
    names += ["Ho_wave_l_cm_np3_ri_med_2.avi"]
    for name in names:
        put(root / "wave" / name)
    put(root / "kick" / KICK, frames=1)
    lists = root / "testTrainMulti_7030_splits"
    for activity in HMDB51(root=root).activities:
        for fold in (1, 2, 3):
            rows = {"wave": [*zip(names, "120", strict=True)], "kick": [(KICK, 1)]}
            text = [f"{name} {code} \n" for name, code in rows.get(activity, [])]
            empty = f"gone_{activity}_f_cm_np1_fr_med_0.avi 0 \n"
            say(lists / f"{activity}_test_split{fold}.txt", "".join(text) or empty)
    return root


def pa_hmdb(root: Path) -> tuple[Path, Path]:
    clip = {
        "face": [[0, 1, 1], [2, 4, 2]],
        "gender": [[0, 4, [1, 2]]],
        "skin_color": [[0, 4, [2, 3]]],
    }
    clip |= {"nudity": [[1, 4, 0]], "relationship": [[0, 4, 1]]}
    other = {name: [[0, 9, 1]] for name in clip} | {"gender": [[0, 9, [0, 1]]]}
    labels = root / "PA-HMDB51" / "PrivacyAttributes"
    said = {"Hi_wave_u_nm_np1_fr_goo_0.avi": clip | {"review": True, "note": ""}}
    say(labels / "wave.json", json.dumps(said, indent=4))
    say(labels / "kick.json", json.dumps({KICK: other}))
    return hmdb(root / "hmdb51"), labels.parent


def skeleton(frames: int, *, lost: tuple[int, ...] = ()) -> str:
    """Two bodies, the second of which has a number that a float would not tell from the first."""
    text = [str(frames)]
    for frame in range(frames):
        bodies = [1] if frame in lost else [0, 1]
        text.append(str(len(bodies)))
        for body in bodies:
            text += [f"{72057594037931100 + body} 0 1 1 1 1 0 0.02 -0.26 2", "25"]
            for joint in range(25):
                x = body + joint / 100
                pixel = "NaN" if joint == 24 else f"{joint}.5"
                text.append(f"{x} {frame} 3.5 200 100 {pixel} {frame}.25 0 0 0 0 2")
    return "\n".join(text) + "\n"


def ntu(root: Path) -> Path:
    samples = ["S001C001P001R001A001", "S001C002P003R001A002", "S001C003P001R002A060"]
    samples += ["S018C001P045R001A061", "S019C002P044R001A120"]
    for sample in samples:
        put(root / "nturgb+d_rgb" / f"{sample}_rgb.avi")
    say(root / "nturgb+d_skeletons" / f"{samples[0]}.skeleton", skeleton(5, lost=(2,)))
    say(root / "NTU_RGBD_samples_with_missing_skeletons.txt", f"{NTU_HEADER}{samples[2]}\n")
    text = f"{NTU_HEADER}{samples[2]}\n{samples[3]}\n"
    say(root / "NTU_RGBD120_samples_with_missing_skeletons.txt", text)
    return root


def toyota(root: Path) -> Path:
    for name in ("Walk_p03_r00_v01_c01", "Walk_p02_r01_v02_c02", "WatchTV_p25_r00_v03_c05"):
        put(root / "mp4" / f"{name}.mp4")
    for name in ("Cook.Cut_p20_r00_v04_c03", "Enter_p10_r00_v04_c05", "Leave_p12_r00_v04_c07"):
        put(root / "mp4" / f"{name}.mp4")
    return root


def names(collection: Collection[Video]) -> set[str]:
    return {known.name for known in collection.labels}


def activities(collection: Collection[Video]) -> list[str | None]:
    return [known.activity for known in collection.labels]


@pytest.mark.parametrize("name", maker.KINDS)
def test_one_decoding_gives_the_frames_and_the_rate_of_the_probe(name: str, tmp_path: Path) -> None:
    kind = maker.KINDS[name]
    path = maker.make(tmp_path / name, maker.moving(20, 48, 64), kind)
    frames, rate_hz = read.read_whole(path)
    assert np.array_equal(frames, np.stack(list(read.read_frames(path))))
    assert rate_hz == probe.probe(path).rate_hz == collections.read_video(path).rate_hz
    piece, same = read.read_timed_segment(path, 9, 14)
    assert np.array_equal(piece, frames[9:14]) and same == rate_hz


def test_an_uneven_rate_is_the_same_by_packets_and_by_decoding(tmp_path: Path) -> None:
    times = [0, 40, 80, 200, 240, 300, 340, 500]
    for name in ("h264.mp4", "ffv1.mkv", "mpeg4.avi"):
        kind = replace(maker.KINDS[name], pts=times)
        path = maker.make(tmp_path / name, maker.moving(8, 32, 48), kind)
        want = probe.probe(path).rate_hz
        assert read.read_whole(path)[1] == read.read_timed_segment(path, 1, 3)[1] == want
        assert want == 14 or name == "mpeg4.avi", "seven steps in half a second"


def test_ucf101_reads_its_lists(tmp_path: Path) -> None:
    root = ucf(tmp_path)
    train, test = UCF101(root=root), UCF101(root=root, split="test", fold=3)
    assert train.activities == ("Archery", "HandstandPushups")
    assert activities(train) == ["Archery", "HandstandPushups"]
    assert train.labels[1].attributes == {"group": 2, "clip": 2}
    assert train.labels[1].subject is None, "a group is no person"
    assert not names(train) & names(test)
    assert names(UCF101(root=root, split="all")) == names(train) | names(test)


@pytest.mark.parametrize(("videos", "lists"), [(".", "."), ("UCF-101", "."), (".", "lists/..")])
def test_ucf101_may_lie_right_below_the_root(videos: str, lists: str, tmp_path: Path) -> None:
    (tmp_path / "lists").mkdir()
    found = UCF101(root=ucf(tmp_path, videos=videos, lists=lists), split="test")
    assert found[0].activity == "Archery" and found[0].frames.shape == FILM.shape


def test_ucf101_finds_a_file_in_another_letter_case(tmp_path: Path) -> None:
    root = ucf(tmp_path)
    odd = root / "UCF-101/HandstandPushups/v_HandStandPushups_g02_c02.avi"
    odd.rename(odd.with_name(odd.name.replace("Stand", "stand")))
    assert UCF101(root=root)[1].activity == "HandstandPushups"
    assert UCF101(root=root).check()[0].missing == ()


def test_ucf101_counts_what_is_there_and_names_what_is_not(tmp_path: Path) -> None:
    root = ucf(tmp_path)
    videos, classes, *folds = UCF101(root=root).check()
    assert (videos.found, videos.published, videos.missing) == (4, 13_320, ())
    assert (classes.found, classes.published) == (2, 101)
    assert [fold.published for fold in folds] == [9537, 3783, 9586, 3734, 9624, 3696]
    assert [fold.found for fold in folds] == [2] * 6
    (root / "UCF-101/Archery/v_Archery_g02_c01.avi").unlink()
    (root / "ucfTrainTestlist/testlist02.txt").unlink()
    videos, _, *folds = UCF101(root=root).check()
    assert videos.missing == ("Archery/v_Archery_g02_c01.avi",)
    assert folds[3].missing == ("testlist02.txt",) and folds[3].found == 0


def test_hmdb51_reads_its_lists_and_the_labels_in_names(tmp_path: Path) -> None:
    root = hmdb(tmp_path)
    train, test = HMDB51(root=root, fold=2), HMDB51(root=root, split="test")
    assert activities(train) == ["kick", "wave"] and activities(test) == ["wave"]
    kick = train[0]
    assert train.labels[0].name == f"kick/{KICK}"
    assert kick.view == "back" and len(kick.frames) == 1
    want = {"body": "full", "camera": "moving", "people": 2, "quality": "medium"}
    assert kick.attributes == want
    assert len(HMDB51(root=root, split="all")) == 4, "one clip is in neither split"
    assert len(train.activities) == 51


def test_hmdb51_counts_what_is_there_and_names_what_is_not(tmp_path: Path) -> None:
    root = hmdb(tmp_path)
    (root / "kick" / KICK).unlink()
    (root / "testTrainMulti_7030_splits" / "wave_test_split3.txt").unlink()
    clips, classes, *folds = HMDB51(root=root).check()
    assert (clips.found, clips.published) == (3, 6766)
    assert f"kick/{KICK}" in clips.missing and len(clips.missing) == 50
    assert classes.found == 1 and "kick" in classes.missing and "wave" not in classes.missing
    assert [fold.published for fold in folds] == [3570, 1530] * 3
    assert [fold.found for fold in folds] == [2, 1, 2, 1, 1, 0]
    assert folds[5].missing == ("wave_test_split3.txt",)


def test_pa_hmdb51_gives_one_number_a_frame(tmp_path: Path) -> None:
    root, labels = pa_hmdb(tmp_path)
    test = PAHMDB51(root=root, annotations=labels)
    train = PAHMDB51(root=root, annotations=labels / "PrivacyAttributes", split="train")
    assert activities(test) == ["kick", "wave"] and activities(train) == ["wave", "wave"]
    assert not names(test) & names(train)
    wave = test[1]
    assert wave.attributes["face"] == (1, 1, 2, 2, 2, -1), "the last frame is not labelled"
    assert wave.attributes["nudity"] == (-1, 0, 0, 0, 0, -1), "nor is this first one"
    assert wave.attributes["gender"] == (3, 3, 3, 3, 3, -1), "male and female"
    assert wave.attributes["skin_color"] == (6, 6, 6, 6, 6, -1)
    assert wave.attributes["quality"] == "good" and wave.view == "front"
    assert test[0].attributes["gender"] == (1,), "more labels than frames are cut"
    assert "face" not in train[0].attributes
    piece = test.read_segment(1, 1, 3)
    assert piece.attributes["face"] == (1, 2) and piece.attributes["quality"] == "good"


def test_pa_hmdb51_counts_labelled_clips(tmp_path: Path) -> None:
    root, labels = pa_hmdb(tmp_path)
    (root / "kick" / KICK).unlink()
    files, labelled, there, others = PAHMDB51(root=root, annotations=labels).check()
    assert files.found == 2 and len(files.missing) == 49
    assert (labelled.found, labelled.published) == (2, 515)
    assert there.found == 1 and there.missing == (f"kick/{KICK}",)
    assert (others.found, others.published) == (2, 6251)


def test_ntu_rgbd_reads_codes_and_keeps_its_protocols(tmp_path: Path) -> None:
    root = ntu(tmp_path)
    every = NtuRgbd(root=root, split="all")
    assert len(every) == 3 and len(every.activities) == 60
    first = every.labels[0]
    assert (first.subject, first.view, first.activity) == ("P001", "C001", "drink water")
    assert first.attributes == {"setup": 1, "replication": 1}
    sizes = {
        (actions, protocol, split): len(
            NtuRgbd(root=root, actions=actions, protocol=protocol, split=split)
        )
        for actions, protocol in ((60, "cross_subject"), (60, "cross_view"), (120, "cross_setup"))
        for split in ("train", "test")
    }
    assert list(sizes.values()) == [2, 1, 2, 1, 1, 4]
    wide = NtuRgbd(root=root, actions=120, split="all")
    assert len(wide) == 5 and wide.activities[-1].startswith("finger-guessing")
    assert [known.subject for known in NtuRgbd(root=root, actions=120).labels][-1] == "P045"
    fit = NtuRgbd(root=root, actions=120, split="all", needs_skeleton=True)
    assert len(names(wide) - names(fit)) == 2


def test_ntu_rgbd_gives_the_joints_of_the_first_body(tmp_path: Path) -> None:
    every = NtuRgbd(root=ntu(tmp_path), split="all")
    film = every[0]
    assert film.joints is not None and film.joints_3d is not None
    assert film.joints.shape == (6, 25, 2) and film.joints_3d.shape == (6, 25, 3)
    assert film.joints[1, 3].tolist() == [3.5, 1.25]
    assert film.joints_3d[1, 3].tolist() == [0.03, 1, 3.5], "the second body has 1.03"
    lost = np.isnan(film.joints_3d).all(axis=(1, 2))
    assert lost.tolist() == [False, False, True, False, False, True]
    assert np.isnan(film.joints[0, 24, 0]) and not np.isnan(film.joints_3d[0, 24]).any()
    piece = every.read_segment(0, 3, 5)
    assert piece.joints is not None and np.array_equal(piece.joints, film.joints[3:5], True)
    assert every[1].joints is None and every[1].joints_3d is None


def test_ntu_rgbd_counts_takes_that_are_not_whole(tmp_path: Path) -> None:
    root = ntu(tmp_path)
    videos, train, test, lost = NtuRgbd(root=root).check()
    assert (videos.found, videos.published) == (3, 56_880)
    assert len(videos.missing) == 3 * 59 and "S001C001P001R001A002_rgb.avi" in videos.missing
    assert (train.found, train.published, test.found, test.published) == (2, 40_320, 1, 16_560)
    assert (lost.found, lost.published, lost.missing) == (1, 302, ())
    (root / "NTU_RGBD120_samples_with_missing_skeletons.txt").unlink()
    wide = NtuRgbd(root=root, actions=120, protocol="cross_setup").check()
    assert wide[0].published == 114_480 and wide[1].published is None
    assert wide[3].missing == ("NTU_RGBD120_samples_with_missing_skeletons.txt",)


def test_toyota_smarthome_keeps_its_protocols(tmp_path: Path) -> None:
    root = toyota(tmp_path)
    train, test = ToyotaSmarthome(root=root), ToyotaSmarthome(root=root, split="test")
    assert {known.subject for known in train.labels} == {"p03", "p12", "p25"}
    assert {known.subject for known in test.labels} == {"p02", "p10", "p20"}
    assert len(train.activities) == 31 and train[0].activity == "Leave"
    assert train.labels[0].view == "c07" and train.labels[0].attributes["v"] == "v04"
    for protocol, many in (("cross_view_1", 1), ("cross_view_2", 2)):
        parts = {
            split: ToyotaSmarthome(root=root, protocol=protocol, split=split)
            for split in ("train", "validation", "test", "all")
        }
        assert len(parts["train"].activities) == 19
        assert [len(part) for part in parts.values()] == [many, 1, 1, 4]
        assert activities(parts["validation"]) == ["Enter"], "watching TV is not of the 19"


def test_toyota_smarthome_counts_what_is_there(tmp_path: Path) -> None:
    clips, kinds, people, cameras, train, test = ToyotaSmarthome(root=toyota(tmp_path)).check()
    assert (clips.found, clips.published) == (6, 16_115)
    assert kinds.found == 5 and "Eat.Snack" in kinds.missing and "Walk" not in kinds.missing
    assert (people.found, people.published) == (6, 18)
    assert cameras.missing == ("c04", "c06")
    assert (train.found, test.found) == (3, 3)
    views = ToyotaSmarthome(root=tmp_path, protocol="cross_view_1").check()
    assert [count.found for count in views[4:]] == [1, 1, 1]


def test_a_folder_is_a_data_set(tmp_path: Path) -> None:
    for name in ("wave/a.avi", "wave/more/b.mp4", "walk/c.avi", "walk/.hidden.avi", ".git/x/d.avi"):
        put(tmp_path / name)
    picture = maker.Kind(suffix=".png", codec="png", pixel_format="rgb24")
    maker.make(tmp_path / "walk" / "p.png", FILM[:1], picture)
    say(tmp_path / "walk" / "notes.txt", "no video")
    mine = Folder(root=tmp_path)
    assert [known.name for known in mine.labels] == [
        "walk/c.avi",
        "walk/p.png",
        "wave/a.avi",
        "wave/more/b.mp4",
    ]
    assert mine.activities == ("walk", "wave")
    assert len(mine[1].frames) == 1 and mine[1].rate_hz == 25 and mine[3].activity == "wave"
    (tmp_path / "empty").mkdir()
    assert Folder(root=tmp_path).check()[1].missing == ("empty",)


def test_a_folder_may_hold_splits(tmp_path: Path) -> None:
    for name in ("train/wave/a.avi", "test/wave/b.avi", "test/walk/c.avi", "other/walk/d.avi"):
        put(tmp_path / name)
    sizes = [len(Folder(root=tmp_path, split=split)) for split in ("train", "test", "all")]
    assert sizes == [1, 2, 3]
    assert Folder(root=tmp_path, split="train").activities == ("walk", "wave")


@pytest.fixture(params=["ucf", "hmdb", "pa_hmdb", "ntu", "toyota", "folder"])
def some(request: pytest.FixtureRequest, tmp_path: Path) -> VideoFiles:
    if request.param == "pa_hmdb":
        root, labels = pa_hmdb(tmp_path)
        return PAHMDB51(root=root, annotations=labels)
    return {
        "ucf": lambda: UCF101(root=ucf(tmp_path)),
        "hmdb": lambda: HMDB51(root=hmdb(tmp_path)),
        "ntu": lambda: NtuRgbd(root=ntu(tmp_path)),
        "toyota": lambda: ToyotaSmarthome(root=toyota(tmp_path)),
        "folder": lambda: Folder(root=ucf(tmp_path) / "UCF-101"),
    }[request.param]()


def test_a_recording_is_read_only_when_it_is_asked_for(some: VideoFiles) -> None:
    some.find_path(len(some) - 1).write_bytes(b"broken")
    assert len(some) > 1 and some.labels and some.check() and some.activities
    assert isinstance(some[0], Video)
    with pytest.raises(ValueError, match=some.find_path(len(some) - 1).name.replace("(", r"\(")):
        _ = some[-1]


def test_an_index_counts_from_both_ends(some: VideoFiles) -> None:
    assert some[-len(some)].activity == some[0].activity == some.labels[0].activity
    assert np.array_equal(some[len(some) - 1].frames, some[-1].frames)
    for index in (len(some), -len(some) - 1):
        with pytest.raises(IndexError, match=f"below {len(some)}, got {index}"):
            _ = some[index]
        with pytest.raises(IndexError, match="Expected an index"):
            some.read_segment(index, 0, 1)


def test_a_segment_is_a_stretch_of_the_recording(some: VideoFiles) -> None:
    last = some[-1]
    piece = some.read_segment(-1, 2, 5)
    assert np.array_equal(piece.frames, last.frames[2:5])
    assert (piece.rate_hz, piece.activity, piece.subject) == (25, last.activity, last.subject)
    with pytest.raises(ValueError, match="Expected 9 frames"):
        some.read_segment(-1, 2, 9)
    with pytest.raises(ValueError, match="Expected 0 <= start < stop"):
        some.read_segment(-1, 2, 2)
