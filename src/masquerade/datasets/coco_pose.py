"""People in the COCO form of JSON: images, annotations, joints as x, y and how visible.

Convention:
    joints: x right, y down, the first pixel is 0. Visible 2 is seen, 1 is labelled but hidden and
    keeps its coordinates, 0 is not labelled and becomes NaN.

COCO 2017, people with labelled joints.

Human-Art: people in photographs, paintings, sculptures and drawings.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from masquerade import _check
from masquerade.collection import CountLine, DataSource, Medium, PublishedCounts
from masquerade.datasets.recording_files import (
    PeoplePhotos,
    PersonAnnotation,
    not_published,
    read_json,
)
from masquerade.errors import BadInput
from masquerade.joints import COCO


@dataclass(frozen=True, kw_only=True, eq=False)
class AnnotationFile:
    """What one file of annotations holds.

    Args:
        pictures: file names of all pictures, with people or without.
        persons: those with at least one labelled joint who are no crowd, in the file's order.
        categories: of the pictures, sorted.
    """

    pictures: tuple[str, ...]
    persons: tuple[PersonAnnotation, ...]
    categories: tuple[str, ...]


class CocoPhotos(PeoplePhotos):
    """One photo for each person in a file of the COCO form who has a labelled joint."""

    JOINTS: ClassVar[tuple[str, ...]] = COCO

    @property
    @abstractmethod
    def _annotation_path(self) -> Path:
        """The file of annotations."""

    @cached_property
    def _annotation_file(self) -> AnnotationFile:
        return read_annotations(self._annotation_path)

    @property
    def _person_annotations(self) -> Sequence[PersonAnnotation]:
        return self._annotation_file.persons


def read_annotations(path: Path) -> AnnotationFile:
    """Read a file of annotations.

    Raises:
        BadInput: if it is missing or not of this form; the message names file, list and entry.
    """
    content = read_json(path)
    if not isinstance(content, Mapping):
        raise not_published(path, "an object with images and annotations", "the whole", content)
    pictures: dict[int, Mapping[str, Any]] = {}
    for place, entry in enumerate(_read_list(path, content, "images")):
        where = f"images[{place}]"
        key = _read_integer(path, entry, where, "id")
        name = entry.get("file_name")
        if not isinstance(name, str) or not name:
            raise not_published(path, "a file name", f"{where}.file_name", name)
        pictures[key] = entry
    persons = []
    for place, entry in enumerate(_read_list(path, content, "annotations")):
        where = f"annotations[{place}]"
        if _read_integer(path, entry, where, "num_keypoints") > 0 and not entry.get("iscrowd", 0):
            persons.append(_parse_person(path, entry, where, pictures))
    categories = {str(entry["category"]) for entry in pictures.values() if entry.get("category")}
    return AnnotationFile(
        pictures=tuple(entry["file_name"] for entry in pictures.values()),
        persons=tuple(persons),
        categories=tuple(sorted(categories)),
    )


def _parse_person(
    path: Path, entry: Mapping[str, Any], where: str, pictures: Mapping[int, Mapping[str, Any]]
) -> PersonAnnotation:
    image_key = _read_integer(path, entry, where, "image_id")
    if image_key not in pictures:
        raise not_published(path, "the id of one of the images", f"{where}.image_id", image_key)
    flat = _read_numbers(path, entry, where, "keypoints", 3 * len(COCO))
    points = np.asarray(flat, np.float32).reshape(-1, 3)  # (J, 3)
    if not np.isin(points[:, 2], (0, 1, 2)).all():
        rule = "0, 1 or 2 as every third number"
        raise not_published(path, rule, f"{where}.keypoints", flat[2::3])
    x, y, width, height = _read_numbers(path, entry, where, "bbox", 4)
    key, picture, area = (
        _read_integer(path, entry, where, "id"),
        pictures[image_key],
        entry.get("area", 0),
    )
    size, kind = (picture.get("width", 0), picture.get("height", 0)), picture.get("category")
    return PersonAnnotation(
        file_name=picture["file_name"],
        key=key,
        joints=np.where(points[:, 2:] == 0, np.float32(np.nan), points[:, :2]),
        visible=points[:, 2] == 2,
        box=(x, y, width, height) if width > 0 and height > 0 else None,
        size=(int(size[0]), int(size[1])) if all(map(_is_number, size)) and all(size) else None,
        attributes={
            "image_id": image_key,
            "annotation_id": key,
            "area_px": round(float(area)) if _is_number(area) else 0,
        }
        | ({"category": str(kind)} if kind else {}),
    )


def _read_list(path: Path, content: Mapping[str, Any], key: str) -> list[Any]:
    found = content.get(key)
    if not isinstance(found, list):
        raise not_published(path, "a list", key, found)
    for place, entry in enumerate(found):
        if not isinstance(entry, Mapping):
            raise not_published(path, "an object", f"{key}[{place}]", entry)
    return found


def _read_integer(path: Path, entry: Mapping[str, Any], where: str, key: str) -> int:
    found = entry.get(key)
    if not isinstance(found, int) or isinstance(found, bool):
        raise not_published(path, "a whole number", f"{where}.{key}", found)
    return found


def _read_numbers(
    path: Path, entry: Mapping[str, Any], where: str, key: str, length: int
) -> list[float]:
    found = entry.get(key)
    if not isinstance(found, list) or len(found) != length or not all(map(_is_number, found)):
        raise not_published(path, f"{length} numbers", f"{where}.{key}", found)
    return [float(value) for value in found]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value)


CocoSplit = Literal["train", "val"]

_NUM_IMAGES = {"train": 118_287, "val": 5_000}
_NUM_PERSONS = {"train": 149_813, "val": 6_352}
_SOURCE_COCO_KEYPOINTS = (
    "counted by users of the 2017 files; the publisher rounds to 118K and 5K images"
)


@dataclass(frozen=True, kw_only=True)
class CocoKeypoints(CocoPhotos):
    """One photo per person of COCO 2017 with a labelled joint, crowds left out [lin2014].

    A picture with several people comes once for each of them. Layout::

        root/
          annotations/person_keypoints_train2017.json
          annotations/person_keypoints_val2017.json
          train2017/000000000009.jpg
          val2017/000000000139.jpg

    Coordinates are those of the file, which counts pixels from 0; joints may lie outside the
    picture. The licence of each picture is its photographer's, and is named in the file.

    Args:
        root: the folder that holds ``annotations``.
        split: of the publisher; the annotations of the test pictures are not public.
    """

    ABOUT: ClassVar[DataSource] = DataSource(
        title="Microsoft COCO 2017, person keypoints",
        kind=Medium.PHOTOS,
        licence="CC BY 4.0 for the annotations; the pictures under their own Flickr licences",
        home="https://cocodataset.org",
        citation="lin2014",
    )
    USUAL: ClassVar[str] = "val"
    split: CocoSplit | None = None

    @property
    def publisher_counts(self) -> PublishedCounts:
        """The numbers of the split."""
        return {
            "pictures listed": (_NUM_IMAGES[self.part_name], _SOURCE_COCO_KEYPOINTS),
            "people with joints": (_NUM_PERSONS[self.part_name], _SOURCE_COCO_KEYPOINTS),
            "picture files": (_NUM_IMAGES[self.part_name], _SOURCE_COCO_KEYPOINTS),
        }

    def check(self) -> tuple[CountLine, ...]:
        """Count pictures listed, people listed and picture files."""
        people = self._annotation_file
        return (
            self._count_line("pictures listed", len(people.pictures)),
            self._count_line("people with joints", len(people.persons)),
            self._count_files(self._picture_folder, people.pictures),
        )

    @property
    def _picture_folder(self) -> Path:
        return self.root / f"{self.part_name}2017"

    @property
    def _annotation_path(self) -> Path:
        return self.root / "annotations" / f"person_keypoints_{self.part_name}2017.json"


HumanArtSplit = Literal["training", "validation"]

_PREFIX = "HumanArt/"
_SOURCE_HUMAN_ART = "its README: 50,000 images in 20 scenarios, not told apart by split"


@dataclass(frozen=True, kw_only=True)
class HumanArt(CocoPhotos):
    """One photo per person of Human-Art with at least one labelled joint [ju2023].

    Layout, as its README asks for::

        root/
          annotations/training_humanart.json
          annotations/validation_humanart.json
          images/real_human/dance/000000000274.jpg
          images/2D_virtual_human/cartoon/000000000001.jpg
          images/3D_virtual_human/sculpture/000000000001.jpg

    The paths inside the JSON begin with ``HumanArt/images`` or with ``images``; both are taken as
    below the root. The 17 joints are COCO's; the file's 21 joints and its self-contact points are
    not read. What is not certain: how the file spells each of the 20 scenarios. The names of the
    file decide, capitals aside, and an underscore is as good as a space.

    Args:
        root: the folder that holds ``annotations`` and ``images``.
        split: of the publisher; that of the command if not given, else validation.
        scenario: only pictures whose ``category`` is this one, such as ``cartoon``; empty for all.
    """

    ABOUT: ClassVar[DataSource] = DataSource(
        title="Human-Art",
        kind=Medium.PHOTOS,
        licence="a CC licence, for non-commercial use and on request; the version is not stated",
        home="https://idea-research.github.io/HumanArt",
        citation="ju2023",
    )
    PUBLISHED: ClassVar[PublishedCounts] = {
        "pictures listed": (None, _SOURCE_HUMAN_ART),
        "scenarios": (20, "[ju2023]"),
        "people with joints": (None, _SOURCE_HUMAN_ART),
        "picture files": (None, _SOURCE_HUMAN_ART),
    }
    USUAL: ClassVar[str] = "validation"
    split: HumanArtSplit | None = None
    scenario: str = ""

    def check(self) -> tuple[CountLine, ...]:
        """Count pictures listed, scenarios, people and picture files of the whole split."""
        people = self._annotation_file
        names = [name.removeprefix(_PREFIX).removeprefix("images/") for name in people.pictures]
        return (
            self._count_line("pictures listed", len(names)),
            self._count_line("scenarios", len(people.categories)),
            self._count_line("people with joints", len(people.persons)),
            self._count_files(self.root / "images", names),
        )

    @property
    def _annotation_path(self) -> Path:
        return self.root / "annotations" / f"{self.part_name}_humanart.json"

    @cached_property
    def _person_annotations(self) -> tuple[PersonAnnotation, ...]:
        people, wanted = self._annotation_file, _simplify_name(self.scenario)
        if wanted and wanted not in map(_simplify_name, people.categories):
            message = _check.describe_unknown("scenario", self.scenario, people.categories)
            raise BadInput(f"{message} Those are the ones in {self._annotation_path}.")
        return tuple(
            replace(person, file_name=person.file_name.removeprefix(_PREFIX))
            for person in people.persons
            if wanted in ("", _simplify_name(str(person.attributes.get("category", ""))))
        )


def _simplify_name(name: str) -> str:
    return name.lower().replace("_", " ")
