"""People in the COCO form of JSON: images, annotations, joints as x, y and how visible.

Convention:
    joints: x right, y down, the first pixel is 0. Visible 2 is seen, 1 is labelled but hidden and
    keeps its coordinates, 0 is not labelled and becomes NaN.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from masquerade.datasets.recording_files import Annotated, PeoplePhotos, not_published, read_json
from masquerade.joints import COCO


@dataclass(frozen=True, kw_only=True, eq=False)
class People:
    """What one file of annotations holds.

    Args:
        pictures: file names of all pictures, with people or without.
        persons: those with at least one labelled joint who are no crowd, in the file's order.
        categories: of the pictures, sorted.
    """

    pictures: tuple[str, ...]
    persons: tuple[Annotated, ...]
    categories: tuple[str, ...]


class CocoPhotos(PeoplePhotos):
    """One photo for each person in a file of the COCO form who has a labelled joint."""

    JOINTS: ClassVar[tuple[str, ...]] = COCO

    @property
    @abstractmethod
    def _list(self) -> Path:
        """The file of annotations."""

    @cached_property
    def _people(self) -> People:
        return read(self._list)

    @property
    def _persons(self) -> Sequence[Annotated]:
        return self._people.persons


def read(path: Path) -> People:
    """Read a file of annotations.

    Raises:
        BadInput: if it is missing or not of this form; the message names file, list and entry.
    """
    content = read_json(path)
    if not isinstance(content, Mapping):
        raise not_published(path, "an object with images and annotations", "the whole", content)
    pictures: dict[int, Mapping[str, Any]] = {}
    for place, entry in enumerate(_list(path, content, "images")):
        where = f"images[{place}]"
        key = _whole(path, entry, where, "id")
        name = entry.get("file_name")
        if not isinstance(name, str) or not name:
            raise not_published(path, "a file name", f"{where}.file_name", name)
        pictures[key] = entry
    persons = []
    for place, entry in enumerate(_list(path, content, "annotations")):
        where = f"annotations[{place}]"
        if _whole(path, entry, where, "num_keypoints") > 0 and not entry.get("iscrowd", 0):
            persons.append(_person(path, entry, where, pictures))
    categories = {str(entry["category"]) for entry in pictures.values() if entry.get("category")}
    return People(
        pictures=tuple(entry["file_name"] for entry in pictures.values()),
        persons=tuple(persons),
        categories=tuple(sorted(categories)),
    )


def _person(
    path: Path, entry: Mapping[str, Any], where: str, pictures: Mapping[int, Mapping[str, Any]]
) -> Annotated:
    image_key = _whole(path, entry, where, "image_id")
    if image_key not in pictures:
        raise not_published(path, "the id of one of the images", f"{where}.image_id", image_key)
    flat = _numbers(path, entry, where, "keypoints", 3 * len(COCO))
    points = np.asarray(flat, np.float32).reshape(-1, 3)  # (J, 3)
    if not np.isin(points[:, 2], (0, 1, 2)).all():
        rule = "0, 1 or 2 as every third number"
        raise not_published(path, rule, f"{where}.keypoints", flat[2::3])
    x, y, width, height = _numbers(path, entry, where, "bbox", 4)
    key, picture, area = _whole(path, entry, where, "id"), pictures[image_key], entry.get("area", 0)
    size, kind = (picture.get("width", 0), picture.get("height", 0)), picture.get("category")
    return Annotated(
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


def _list(path: Path, content: Mapping[str, Any], key: str) -> list[Any]:
    found = content.get(key)
    if not isinstance(found, list):
        raise not_published(path, "a list", key, found)
    for place, entry in enumerate(found):
        if not isinstance(entry, Mapping):
            raise not_published(path, "an object", f"{key}[{place}]", entry)
    return found


def _whole(path: Path, entry: Mapping[str, Any], where: str, key: str) -> int:
    found = entry.get(key)
    if not isinstance(found, int) or isinstance(found, bool):
        raise not_published(path, "a whole number", f"{where}.{key}", found)
    return found


def _numbers(
    path: Path, entry: Mapping[str, Any], where: str, key: str, length: int
) -> list[float]:
    found = entry.get(key)
    if not isinstance(found, list) or len(found) != length or not all(map(_is_number, found)):
        raise not_published(path, f"{length} numbers", f"{where}.{key}", found)
    return [float(value) for value in found]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value)
