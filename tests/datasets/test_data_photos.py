"""The collections of photographs, read from small trees in the publishers' layouts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import scipy.io

from masquerade.datasets.coco_pose import CocoKeypoints, HumanArt
from masquerade.datasets.mpii import Mpii
from masquerade.datasets.vispr import ATTRIBUTES, SEVEN_ATTRIBUTES, Vispr
from masquerade.errors import BadInput
from video_files import with_exif


def picture(path: Path, *, width: int = 32, height: int = 24, shade: int = 90) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = np.full((height, width, 3), shade, np.uint8)
    image[:4, :4] = 255 - shade
    assert cv2.imwrite(str(path), image)
    return path


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def person(key: int, image: int, **other: object) -> dict[str, Any]:
    joints = [[10.5, 12, 2], [40, -3, 1], [0, 0, 0]] + [[1, 1, 2]] * 14
    flat = [number for joint in joints for number in joint]
    entry: dict[str, Any] = {"id": key, "image_id": image, "keypoints": flat}
    entry |= {"num_keypoints": 16, "iscrowd": 0, "bbox": [1.5, 2, 20, 18], "area": 99.6}
    return entry | other


def coco(root: Path, *people: dict[str, Any], name: str = "annotations/p.json") -> Path:
    images = [
        {"id": 139, "file_name": "000000000139.jpg", "width": 32, "height": 24},
        {"id": 7, "file_name": "000000000007.jpg", "width": 32, "height": 24},
    ]
    return write(root / name, {"images": images, "annotations": list(people)})


VAL = "annotations/person_keypoints_val2017.json"


@pytest.fixture
def coco_root(tmp_path: Path) -> Path:
    crowd, empty = person(3, 7, iscrowd=1), person(4, 7, num_keypoints=0, keypoints=[0] * 51)
    flat = person(5, 139, bbox=[1, 1, 0, 5])
    coco(tmp_path, person(1, 139), person(2, 7), crowd, empty, flat, name=VAL)
    for number in (139, 7):
        picture(tmp_path / "val2017" / f"{number:012}.jpg")
    return tmp_path


def test_coco_gives_one_photo_a_person_with_joints(coco_root: Path) -> None:
    data = CocoKeypoints(root=coco_root)
    assert [labels.name for labels in data.labels] == [
        "val2017/000000000139.jpg#1",
        "val2017/000000000007.jpg#2",
        "val2017/000000000139.jpg#5",
    ]
    photo = data[0]
    assert photo.image.shape == (24, 32, 3) and photo.box == (1.5, 2.0, 20.0, 18.0)
    assert photo.attributes == {"image_id": 139, "annotation_id": 1, "area_px": 100}
    assert data[2].box is None  # a box without area is none
    assert len(data.JOINTS) == 17 and data.JOINTS[0] == "nose" and data.activities == ()
    with pytest.raises(IndexError):
        data[3]


def test_coco_hidden_joints_keep_their_place_and_unlabelled_ones_are_nan(coco_root: Path) -> None:
    photo = CocoKeypoints(root=coco_root)[0]
    assert photo.joints is not None and photo.visible is not None
    assert photo.joints[0].tolist() == [10.5, 12] and photo.joints.dtype == np.float32
    assert photo.joints[1].tolist() == [40, -3]  # hidden and outside: kept
    assert np.isnan(photo.joints[2]).all()
    assert photo.visible.tolist() == [True, False, False] + [True] * 14


def test_coco_counts_pictures_people_and_files(coco_root: Path) -> None:
    listed, people, files = CocoKeypoints(root=coco_root).check()
    assert (listed.found, listed.published) == (2, 5_000)
    assert (people.found, people.published) == (3, 6_352)
    assert files.found == 2 and not files.missing
    (coco_root / "val2017" / "000000000007.jpg").unlink()
    data = CocoKeypoints(root=coco_root)
    assert data.check()[2].missing == ("000000000007.jpg",)
    with pytest.raises(BadInput, match=r"000000000007\.jpg"):
        data[1]


def test_a_picture_of_another_size_than_its_annotations_is_refused(coco_root: Path) -> None:
    with_exif(coco_root / "val2017" / "000000000139.jpg", orientation=6)
    with pytest.raises(BadInput, match=r"Expected 32 by 24 pixels .* got 24 by 32"):
        CocoKeypoints(root=coco_root)[0]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (person(1, 99), r"annotations\[1\]\.image_id .*got 99"),
        (person(1, 7, keypoints=[1, 2, 3]), r"51 numbers at annotations\[1\]\.keypoints"),
        (person(1, 7, keypoints=[1, 2, 5] * 17), r"0, 1 or 2 .*annotations\[1\]\.keypoints"),
        (person(1, 7, keypoints=None), r"annotations\[1\]\.keypoints .*got None"),
        (person(1, 7, bbox=[1, 2, 3, "4"]), r"4 numbers at annotations\[1\]\.bbox"),
        (person(1, 7, num_keypoints="2"), r"annotations\[1\]\.num_keypoints"),
        ({}, r"annotations\[1\]\.num_keypoints .*got None"),
        (3, r"an object at annotations\[1\]"),
    ],
)
def test_coco_names_file_and_entry_that_are_wrong(tmp_path: Path, entry: Any, message: str) -> None:
    coco(tmp_path, person(1, 7), entry, name=VAL)
    with pytest.raises(BadInput, match=message + r".*"):
        len(CocoKeypoints(root=tmp_path))
    with pytest.raises(BadInput, match="val2017"):
        len(CocoKeypoints(root=tmp_path))


def test_coco_refuses_other_splits_and_other_files(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Unknown split 'test'"):
        CocoKeypoints(root=tmp_path, split="test")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=r"train2017\.json; there is none"):
        len(CocoKeypoints(root=tmp_path, split="train"))
    path = write(tmp_path / VAL, [])
    with pytest.raises(BadInput, match="an object with images"):
        len(CocoKeypoints(root=tmp_path))
    path.write_text('{"images": [\n oops')
    with pytest.raises(BadInput, match="line 2"):
        len(CocoKeypoints(root=tmp_path))
    write(path, {"images": {}, "annotations": []})
    with pytest.raises(BadInput, match="a list at images"):
        len(CocoKeypoints(root=tmp_path))
    write(path, {"images": [{"id": 1, "file_name": ""}], "annotations": []})
    with pytest.raises(BadInput, match=r"images\[0\]\.file_name"):
        len(CocoKeypoints(root=tmp_path))


@pytest.fixture
def human_art(tmp_path: Path) -> Path:
    names = {1: "HumanArt/images/real_human/dance/1.jpg", 2: "images/2D_virtual_human/art/2.png"}
    categories = {1: "dance", 2: "digital art"}
    images = [{"id": k, "file_name": names[k], "category": categories[k]} for k in names]
    annotations = [person(1, 1), person(2, 2), person(3, 2)]
    content = {"images": images, "annotations": annotations}
    write(tmp_path / "annotations/validation_humanart.json", content)
    picture(tmp_path / "images/real_human/dance/1.jpg")
    picture(tmp_path / "images/2D_virtual_human/art/2.png", width=20)
    return tmp_path


def test_human_art_reads_paths_with_and_without_its_own_folder(human_art: Path) -> None:
    data = HumanArt(root=human_art)
    assert len(data) == 3 and data.labels[0].name == "images/real_human/dance/1.jpg#1"
    assert data[0].image.shape == (24, 32, 3) and data[1].image.shape == (24, 20, 3)
    assert data[2].attributes["category"] == "digital art"
    listed, scenarios, people, files = data.check()
    assert (listed.found, people.found, files.found) == (2, 3, 2) and files.is_complete
    assert (scenarios.found, scenarios.published) == (2, 20)


def test_human_art_keeps_one_scenario_and_lists_those_there_are(human_art: Path) -> None:
    assert len(HumanArt(root=human_art, scenario="Digital_Art")) == 2
    assert len(HumanArt(root=human_art, scenario="dance")) == 1
    with pytest.raises(BadInput, match="Unknown scenario 'mural'; choose from dance, digital art"):
        len(HumanArt(root=human_art, scenario="mural"))
    with pytest.raises(ValueError, match="Unknown split"):
        HumanArt(root=human_art, split="test")  # type: ignore[arg-type]
    (human_art / "images/real_human/dance/1.jpg").unlink()
    assert HumanArt(root=human_art).check()[3].missing == ("real_human/dance/1.jpg",)


def vispr_entry(root: Path, name: str, labels: list[str], *, folder: str) -> None:
    content = {"id": name, "image_path": f"images/val2017/{name}.jpg", "labels": labels}
    write(root / folder / f"{name}.json", content)


@pytest.mark.parametrize(
    ("labels", "pictures"),
    [
        ("annotations/val2017", "images/val2017"),
        ("val2017_annotation", "val2017"),
        ("val2017", "val2017"),
    ],
)
def test_vispr_gives_its_attributes_as_0_and_1(tmp_path: Path, labels: str, pictures: str) -> None:
    vispr_entry(tmp_path, "2017_2", ["a4_gender", "a17_color"], folder=labels)
    vispr_entry(tmp_path, "2017_1", ["a0_safe"], folder=labels)
    for name in ("2017_1", "2017_2"):
        picture(tmp_path / pictures / f"{name}.jpg")
    data = Vispr(root=tmp_path, split="val")
    assert [entry.name for entry in data.labels] == ["val2017/2017_1", "val2017/2017_2"]
    photo = data[1]
    assert photo.joints is None and photo.image.shape == (24, 32, 3)
    assert tuple(photo.attributes) == ATTRIBUTES and len(set(ATTRIBUTES)) == 68
    assert [name for name, value in photo.attributes.items() if value] == ["a4_gender", "a17_color"]
    seven = Vispr(root=tmp_path, split="val", subset="seven")
    assert tuple(seven[0].attributes) == SEVEN_ATTRIBUTES and sum(seven[0].attributes.values()) == 0  # type: ignore[arg-type]
    assert sum(seven[1].attributes.values()) == 2  # type: ignore[arg-type]
    assert [count.found for count in data.check()] == [2, 2]


def test_vispr_counts_and_names_what_is_missing_or_wrong(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"label files .*annotations/train2017"):
        len(Vispr(root=tmp_path, split="train"))
    vispr_entry(tmp_path, "2017_1", ["a0_safe"], folder="annotations/test2017")
    labels, pictures = Vispr(root=tmp_path).check()
    assert (labels.found, labels.published, pictures.found) == (1, 8_000, 0)
    assert pictures.missing[0].endswith("2017_1.jpg")
    with pytest.raises(BadInput, match=r"2017_1\.jpg"):
        Vispr(root=tmp_path)[0]
    vispr_entry(tmp_path, "2017_1", ["a0_safe", "a14_other"], folder="annotations/test2017")
    with pytest.raises(BadInput, match=r"labels\[1\] of .*2017_1\.json, got 'a14_other'"):
        len(Vispr(root=tmp_path))
    for content, message in (([], "object"), ({}, "image_path"), ({"image_path": "a"}, "labels")):
        write(tmp_path / "annotations/test2017/2017_1.json", content)
        with pytest.raises(BadInput, match=message):
            len(Vispr(root=tmp_path))
    for options in ({"split": "dev"}, {"subset": "eight"}):
        with pytest.raises(ValueError, match="Unknown"):
            Vispr(root=tmp_path, **options)  # type: ignore[arg-type]


def structs(*entries: dict[str, Any]) -> np.ndarray:
    """A MATLAB struct array: every entry has every field, empty where it is not given."""
    names = list(dict.fromkeys(name for entry in entries for name in entry))
    array = np.empty((1, len(entries)), [(name, object) for name in names])
    for place, entry in enumerate(entries):
        for name in names:
            array[0, place][name] = entry.get(name, np.empty((0, 0)))
    return array


def point(number: int, x: float, y: float, seen: Any) -> dict[str, Any]:
    return {"x": x, "y": y, "id": number, "is_visible": seen}


def release(path: Path, change: Callable[[dict[str, Any]], None] = lambda _: None) -> Path:
    empty = np.empty((0, 0))
    points = [point(0, 11, 21, "1"), point(1, 5, 6, "0"), point(2, 7, 8, 1), point(3, 9, 9, 0)]
    points.append(point(9, 601, -4, empty))
    head = {"x1": 10, "y1": 20, "x2": 40, "y2": 60}
    spot = structs({"x": 101.0, "y": 51.0})
    rects = structs(
        head | {"annopoints": structs({"point": structs(*points)}), "objpos": spot, "scale": 0.5},
        head | {"annopoints": empty, "objpos": empty, "scale": empty},
        {"annopoints": structs({"point": structs(point(6, 2, 3, "1"))})},
    )
    bare = structs({"x1": 1, "y1": 1, "x2": 2, "y2": 2})  # has no field annopoints at all
    test = structs({"objpos": spot, "scale": 2.0}, {"objpos": spot, "scale": 1.0})
    act = {"act_name": "curling, pushing", "cat_name": "winter", "act_id": 1}
    silent = {"act_name": empty, "cat_name": empty, "act_id": -1}
    entries = [
        {"image": structs({"name": f"{n}.jpg"}), "annorect": rect}
        for n, rect in enumerate((rects, empty, bare, test))
    ]
    single = np.empty((4, 1), object)
    for place, chosen in enumerate(([[3]], empty, empty, [[2]])):
        single[place, 0] = np.asarray(chosen)
    content = {
        "annolist": structs(*entries),
        "img_train": np.array([[1, 1, 1, 0]]),
        "single_person": single,
        "act": structs(act, silent, silent, silent).T,
    }
    change(content)
    scipy.io.savemat(path, {"RELEASE": structs(content)})
    return path


@pytest.fixture
def mpii(tmp_path: Path) -> Path:
    release(tmp_path / "mpii_human_pose_v1_u12_1.mat")
    for number in range(4):
        picture(tmp_path / "images" / f"{number}.jpg")
    return tmp_path


def test_mpii_reads_the_struct_with_all_its_odd_cases(mpii: Path) -> None:
    data = Mpii(root=mpii)
    assert [labels.name for labels in data.labels] == ["images/0.jpg#1", "images/0.jpg#3"]
    assert data.labels[0].activity == "curling, pushing" and data.activities == (
        "curling, pushing",
    )
    photo = data[0]
    assert photo.joints is not None and photo.visible is not None
    assert photo.joints[[0, 9]].tolist() == [[10, 20], [600, -5]]  # one less; outside is kept
    assert np.isnan(photo.joints[[4, 15]]).all() and photo.joints.shape == (16, 2)
    assert np.flatnonzero(photo.visible).tolist() == [0, 2, 9]  # nobody said of 9
    assert photo.head_px == pytest.approx(0.6 * 50) and photo.box == (50.0, 0.0, 100.0, 100.0)
    assert photo.attributes == {"category": "winter"}
    other = data[1]  # one point, no head, no place
    assert (other.head_px, other.box) == (None, None) and other.joints is not None
    assert other.joints[6].tolist() == [1, 2] and np.isfinite(other.joints).sum() == 2
    assert len(data.JOINTS) == 16 and data.JOINTS[9] == "head_top"


def test_mpii_test_split_has_boxes_and_no_joints(mpii: Path) -> None:
    data = Mpii(root=mpii, split="test")
    assert len(data) == 2 and data[0].joints is None and data[0].head_px is None
    assert data[0].box == (-100.0, -150.0, 400.0, 400.0)
    assert [p.name for p in Mpii(root=mpii, people="single").labels] == ["images/0.jpg#3"]
    alone = Mpii(root=mpii, split="test", people="single")
    assert [labels.name for labels in alone.labels] == ["images/3.jpg#2"]
    people, files = data.check()
    assert people.found == 2 and (files.found, files.published) == (1, 6_908)


def json_entry(**other: object) -> dict[str, Any]:
    joints = [[11.0, 21.0], [-1.0, -1.0], [0.0, 30.0]] + [[5.0, 6.0]] * 13
    entry = {"image": "0.jpg", "joints": joints, "joints_vis": [1, 0, 0] + [1] * 13}
    return entry | {"center": [101.0, 51.0], "scale": 0.5} | other


def test_mpii_json_form_takes_head_sizes_from_the_matrix_beside_it(mpii: Path) -> None:
    write(mpii / "annot/valid.json", [json_entry(), json_entry(image="1.jpg")])
    data = Mpii(root=mpii, form="json", split="valid")
    assert data[0].head_px is None and data[0].box == (50.0, 0.0, 100.0, 100.0)
    joints = data[0].joints
    assert joints is not None and joints[[0, 2]].tolist() == [[10, 20], [-1, 29]]
    assert np.isnan(joints[1]).all() and data.activities == ()
    boxes = np.zeros((2, 2, 2))
    boxes[1, :, 0] = 30, 40
    scipy.io.savemat(mpii / "annot/gt_valid.mat", {"headboxes_src": boxes})
    data = Mpii(root=mpii, form="json", split="valid")
    assert data[0].head_px == pytest.approx(30.0) and data[1].head_px is None
    assert [count.found for count in data.check()] == [2, 2]
    assert data.check()[0].published == 2_958
    write(mpii / "annot/valid.json", [json_entry()])
    with pytest.raises(BadInput, match=r"headboxes_src with shape \(2, 2, 1\)"):
        len(Mpii(root=mpii, form="json", split="valid"))
    write(mpii / "annot/test.json", [json_entry()])
    assert Mpii(root=mpii, form="json", split="test")[0].joints is None


def test_mpii_names_what_is_wrong(mpii: Path) -> None:
    path = mpii / "mpii_human_pose_v1_u12_1.mat"
    for change, message in (
        (lambda c: c.update(img_train=np.array([[1]])), "img_train for 4 entries"),
        (lambda c: c["annolist"][0, 1].__setitem__("image", np.empty((0, 0))), r"annolist\(2\)"),
        (lambda c: c["annolist"][0, 0]["annorect"][0, 2].__setitem__(
            "annopoints", structs({"point": structs(point(16, 1, 1, 1))})), "id of 0 to 15"),
    ):  # fmt: skip
        release(path, change)
        with pytest.raises(BadInput, match=message):
            len(Mpii(root=mpii))
    path.write_bytes(path.read_bytes()[:400])
    with pytest.raises(BadInput, match=r"whole \.mat file"):
        len(Mpii(root=mpii))
    scipy.io.savemat(path, {"other": 1})
    with pytest.raises(BadInput, match="struct RELEASE"):
        len(Mpii(root=mpii))
    for entry, message in (
        (json_entry(joints=[[1, 2]]), r"joints of .*train\.json, entry 1"),
        (json_entry(center=None), r"center of .*entry 1"),
        (json_entry(scale="x"), r"scale of .*entry 1"),
        (json_entry(image=3), "entry 1"),
    ):
        write(mpii / "annot/train.json", [json_entry(), entry])
        with pytest.raises(BadInput, match=message):
            len(Mpii(root=mpii, form="json"))


def test_photo_collections_read_nothing_until_asked_and_refuse_wrong_options() -> None:
    nowhere = Path("nowhere")
    for data in (CocoKeypoints, HumanArt, Vispr, Mpii):
        with pytest.raises(BadInput, match="nowhere"):
            len(data(root=nowhere))
    for options in (
        {"form": "xml"},
        {"split": "valid"},
        {"people": "some"},
        {"form": "json", "people": "single"},
    ):
        with pytest.raises(ValueError, match=r"Unknown|Expected people"):
            Mpii(root=nowhere, **options)  # type: ignore[arg-type]
