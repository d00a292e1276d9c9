"""`masquerade train --task pose`, `evaluate` and `estimate`, on people who never lived."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import zlib
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import video_files as maker
from few_films import trains
from masquerade import joints
from masquerade.cli import main
from masquerade.datasets.recording_files import read_picture
from masquerade.datasets.stage import Stage
from masquerade.datasets.watch import Watch
from masquerade.errors import BadInput
from masquerade.io.video import write as writer
from masquerade.publish.collections import select_photos
from masquerade.publish.evaluation import PoseAccuracy, _compute_coco_tables, describe_pose_accuracy
from masquerade.recordings import Photo
from masquerade.report.sheet import draw_skeletons
from masquerade.training.rows import FoundJoints

torch = pytest.importorskip("torch")
torch.set_num_threads(1)
TINY = ("--data", "stage", "--subjects", "6", "--places", "4", "--photos", "36", "--joints", "mpii")
SHORT = ("--task", "pose", "--unit", "record", "--batch", "4", "--epochs", "1")
CMYK = (  # a JPEG of 16 x 16 pixels
    "c-s4a<NrGbKF5^&q*R6!1`zmvo57huT1Z4(L{M5>Ok7SzT0z4}TSHY<Bhbp$z$qa#H6=bYHae?fW@A?2gyQJf)~#(5"
    "<}F^mc6EBgo|C(l9iO>k^^*Sw7(_T21Q-NZoCO(t1sNg*8N3A<{vTnGXJBAtWds8TC}3n_W?^Mx=iubx1}fMpz`(@F%"
    "*@2X%*x8b0+g)<$}_MCvI;30I<g4|CbBCPiWoIcT*#s9wDF*5(8Uib#z{p@oLpk!5|UD?YU&!AS|+Au<`$M#&MvNQ?j"
    "D|A!6Bhx;SrHh$tkI6=^2?>#U-U><rS4x%`L5M?H!$6lO|7@I&J!lnX?uxUb1xA@)avrZQ8tL>$dGXcJ4ZK_{h;?$4{"
    "I*b?NeztJkjIxOwa0qsLF4K70P+<*SdMK7aZ8?fZ|Pzy9B1;A3%S@MVZ(@Md7JXSlj1>gc*zT^frZX#fA401<nJCI"
)


@pytest.fixture(autouse=True, scope="module")
def _world(world_cache: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MASQUERADE_CACHE", str(world_cache))
        patch.setattr(Stage, "_load", cache(Stage._load))
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One model that was trained at epsilon 8."""
    path = tmp_path_factory.mktemp("models") / "m.safetensors"
    words = ("train", path, "--method", "dp_sgd", "--epsilon", "8", *SHORT, *TINY, "--json")
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    assert not stop.value.code and 7.9 < json.loads(out.getvalue())["guarantee"]["epsilon"] <= 8
    return path


def test_a_pose_model_is_checked_and_evaluated(command: Callable[..., Any], model: Path) -> None:
    assert "one whole record" in command("receipt", "check", model).out
    found = command("evaluate", model, *TINY, "--json").json
    assert 0 <= found["pckh_0.1"] <= found["pckh_0.5"] <= 100
    assert list(found["groups"]) == [
        *("head", "shoulder", "elbow", "wrist", "hip", "knee", "ankle")
    ]
    other = command("evaluate", model, *TINY[:-1], "coco")
    assert other.code == 4 and "Expected the joints of the model" in other.err


def test_what_does_not_belong_to_pose_is_refused(command: Callable[..., Any]) -> None:
    words = ("train", "m.safetensors", "--method", "dp_sgd", "--epsilon", "8", *TINY)
    for flags, said in (
        ((*SHORT, "--network", "mvit_small"), "Expected a network for --task pose, got mvit_small"),
        ((*SHORT, "--keep-head"), "Expected no --keep-head with a network for joints in photos"),
        ((*SHORT, "--masks", "here"), "Expected no --masks with a network for joints in photos"),
        (
            ("--unit", "video", "--smoothing", "4"),
            "Expected no --smoothing with a network for videos",
        ),
    ):
        found = command(*words, *flags)
        assert found.code == 2 and said in " ".join(found.err.split())


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos as people have them: grey, held sideways, for printing, and of one pixel."""
    folder = tmp_path_factory.mktemp("photos")
    frame = maker.patches(96, 64)
    grey = np.repeat(frame[..., :1], 3, axis=2)
    for name, image in (("grey.png", grey), ("turned.jpg", frame), ("one.png", frame[:1, :1])):
        with (folder / name).open("wb+") as stream:
            writer.write_video(stream, [image], suffix=Path(name).suffix, rate=Fraction(1))
    maker.with_exif(folder / "turned.jpg", orientation=6)
    (folder / "printed.jpg").write_bytes(zlib.decompress(base64.b85decode(CMYK)))
    (folder / "notes.txt").write_text("no photo")
    return folder


def test_joints_are_found_in_a_folder_of_photos_and_drawn(
    model: Path, pictures: Path, command: Callable[..., Any], tmp_path: Path
) -> None:
    out = tmp_path / "joints"
    done = command("estimate", model, pictures, "--out", out)
    assert done.code == 0 and "PRIVATE" in done.out and "4 pictures" in done.out, done.err
    said = json.loads((out / "joints.json").read_text())
    assert [image["file_name"] for image in said["images"]] == [
        *("grey.png", "one.png", "printed.jpg", "turned.jpg")
    ]
    assert said["categories"][0]["keypoints"] == list(joints.MPII)
    assert all(len(one["keypoints"]) == 48 for one in said["annotations"])
    turned = said["images"][3]
    assert (turned["width"], turned["height"]) == (96, 64), "upright"
    assert read_picture(out / "turned.jpg.joints.png").shape == (64, 96, 3)
    red = read_picture(pictures / "printed.jpg")[8, 8].astype(int)
    assert red[0] > red[1] + 100 and red[0] > red[2] + 100


def test_a_box_says_where_the_person_is(
    model: Path, pictures: Path, command: Callable[..., Any], tmp_path: Path
) -> None:
    words = ("estimate", model, pictures / "grey.png", "--out")
    boxes = {"a": ("--box", "0", "0", "20", "30"), "b": ("--box", "40", "60", "20", "30")}
    for name, box in boxes.items():
        assert command(*words, tmp_path / name, *box).code == 0
    found = [json.loads((tmp_path / name / "joints.json").read_text()) for name in boxes]
    first, second = (np.reshape(each["annotations"][0]["keypoints"], (-1, 3)) for each in found)
    assert (second[:, :2].mean(axis=0) > first[:, :2].mean(axis=0) + 10).all()
    refused = command(*words, tmp_path / "c", "--box", "0", "0", "0", "30")
    assert refused.code == 2 and "box_width" in refused.err


def test_a_film_model_and_a_folder_without_photos_are_refused(
    command: Callable[..., Any], model: Path, tmp_path: Path, pictures: Path
) -> None:
    (tmp_path / "empty").mkdir()
    found = command("estimate", model, tmp_path / "empty", "--out", tmp_path / "o")
    assert found.code == 4 and "Expected photos" in found.err
    films = trains(tmp_path / "f.safetensors", epochs=0.5).value
    found = command("estimate", films, pictures, "--out", tmp_path / "o")
    assert (
        found.code == 4 and "Expected a model that finds joints, got one of mvit_small" in found.err
    )


def test_the_table_of_coco_comes_by_scenario() -> None:
    body = np.linspace(0, 200, 34).reshape(17, 2).astype(np.float32)
    photos = [
        Photo(
            image=np.zeros((1, 1, 3), np.uint8),
            joints=body,
            visible=np.ones(17, bool),
            box=(0.0, 0.0, 200.0, 200.0),
            attributes={"image_id": number, "area_px": 20_000, "category": kind},
        )
        for number, kind in enumerate(("dance", "mural", "mural"))
    ]
    wrong = np.stack([body, body, body + 150])
    table = _compute_coco_tables(FoundJoints(joints=wrong, scores=np.ones((3, 17))), photos)
    assert list(table) == ["all", "dance", "mural"]
    assert table["dance"]["AP"] == pytest.approx(1.0) and table["mural"]["AP"] < 0.6
    assert not _compute_coco_tables(FoundJoints(joints=wrong[:0], scores=np.ones((0, 17))), [])
    said = describe_pose_accuracy(PoseAccuracy(near=None, exact=None, coco=table))
    assert len(said) == 3 and said[1].startswith("COCO, dance: AP 100.0")


def test_skeletons_are_drawn_on_a_copy_and_only_inside() -> None:
    picture = np.zeros((40, 40, 3), np.uint8)
    body = np.full((16, 2), np.nan)
    body[joints.MPII.index("left_knee")] = 10.0, 10.0
    body[joints.MPII.index("left_ankle")] = 10.0, 90.0
    drawn = draw_skeletons(picture, [body], joints.MPII)
    assert not picture.any() and drawn[20, 10].any() and not drawn[20, 20].any()
    assert not draw_skeletons(picture, [body + 1e6], joints.MPII).any()


def test_parts_of_photos_are_found_under_the_names_that_publishers_use() -> None:
    stage = Stage(photos=36, subjects=6)
    assert select_photos(stage, "train").part_name == "train"
    assert select_photos(stage, "test").part_name == "test"
    assert select_photos(stage.select_part("public"), "train").part_name == "public", (
        "the flag stands"
    )
    with pytest.raises(BadInput, match="Expected a data set of photos"):
        select_photos(Watch(), "train")
