"""People in the COCO form of JSON: images, annotations, joints as x, y and how visible.

Also the two steps that every photo collection takes: read a JSON file, read a picture.

Convention:
    joints: x right, y down, the first pixel is 0. Visible 2 is seen, 1 is labelled but hidden and
    keeps its coordinates, 0 is not labelled and becomes NaN.
"""

from __future__ import annotations

import json
from collections.abc import Collection as Group
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from masquerade.collection import Count
from masquerade.errors import BadInput
from masquerade.recordings import Photo
from masquerade.video.read import frames

JOINTS = (
    "nose",
    "left_eye",
    "right_eye",
    "left_ear",
    "right_ear",
    "left_shoulder",
    "right_shoulder",
    "left_elbow",
    "right_elbow",
    "left_wrist",
    "right_wrist",
    "left_hip",
    "right_hip",
    "left_knee",
    "right_knee",
    "left_ankle",
    "right_ankle",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Person:
    """One annotated person.

    Args:
        key: the annotation's own number.
        image_key: the number of the picture.
        file_name: of the picture, as the file spells it.
        size: width and height of the picture; None if the file does not tell.
        joints: (J, 3) x, y and how visible, as published.
        box: x, y, width, height in pixels; None if it has no area.
        area: of the person in square pixels.
        category: what the file says of the picture; empty if nothing.
    """

    key: int
    image_key: int
    file_name: str
    size: tuple[int, int] | None
    joints: np.ndarray
    box: tuple[float, float, float, float] | None
    area: float
    category: str


@dataclass(frozen=True, kw_only=True, eq=False)
class People:
    """What one file of annotations holds.

    Args:
        pictures: file names of all pictures, with people or without.
        persons: those with at least one labelled joint who are no crowd, in the file's order.
        categories: of the pictures, sorted.
    """

    pictures: tuple[str, ...]
    persons: tuple[Person, ...]
    categories: tuple[str, ...]


def read_json(path: Path) -> Any:
    """The content of a JSON file.

    Raises:
        BadInput: if it is missing or is not JSON; the message names file and line.
    """
    if not path.is_file():
        raise BadInput(f"Expected a JSON file at {path}; there is none. Check the root folder.")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise BadInput(
            f"Expected JSON in {path}, line {error.lineno}, got: {error.msg}; fetch it again."
        ) from error
    except UnicodeDecodeError as error:
        raise BadInput(f"Expected UTF-8 in {path}, got other bytes; fetch it again.") from error


def read_picture(path: Path) -> np.ndarray:
    """The picture as an upright (H, W, 3) uint8 RGB array.

    Raises:
        BadInput: if it is missing, damaged or no picture.
    """
    with closing(frames(path)) as every:
        for frame in every:
            return frame
    raise BadInput(f"Expected a picture at {path}, got none; fetch it again.")


def read(path: Path) -> People:
    """Read a file of annotations.

    Raises:
        BadInput: if it is missing or not of this form; the message names file, list and entry.
    """
    content = read_json(path)
    if not isinstance(content, Mapping):
        raise _wrong(path, "an object with images and annotations", "the whole", content)
    pictures: dict[int, Mapping[str, Any]] = {}
    for place, entry in enumerate(_list(path, content, "images")):
        where = f"images[{place}]"
        key = _whole(path, entry, where, "id")
        name = entry.get("file_name")
        if not isinstance(name, str) or not name:
            raise _wrong(path, "a file name", f"{where}.file_name", name)
        pictures[key] = entry
    persons = []
    for place, entry in enumerate(_list(path, content, "annotations")):
        where = f"annotations[{place}]"
        if _whole(path, entry, where, "num_keypoints") > 0 and not entry.get("iscrowd", 0):
            persons.append(_person(path, entry, where, pictures))
    return People(
        pictures=tuple(entry["file_name"] for entry in pictures.values()),
        persons=tuple(persons),
        categories=tuple(
            sorted({str(entry["category"]) for entry in pictures.values() if entry.get("category")})
        ),
    )


def photo(person: Person, picture: Path) -> Photo:
    """The person in the picture, by the rules of this file.

    Raises:
        BadInput: if the picture cannot be read or has another size than the annotations say, in
            which case the joints would lie elsewhere.
    """
    image = read_picture(picture)
    size = image.shape[1], image.shape[0]
    if person.size is not None and size != person.size:
        raise BadInput(
            f"Expected {person.size[0]} by {person.size[1]} pixels in {picture}, got {size[0]} by "
            f"{size[1]}; use the picture as published, not resized or turned."
        )
    joints = person.joints[:, :2].copy()
    joints[person.joints[:, 2] == 0] = np.nan
    attributes: dict[str, str | int | tuple[int, ...]] = {
        "image_id": person.image_key,
        "annotation_id": person.key,
        "area_px": round(person.area),
    }
    if person.category:
        attributes["category"] = person.category
    return Photo(
        image=image,
        joints=joints,
        visible=person.joints[:, 2] == 2,
        box=person.box,
        attributes=attributes,
    )


def count_files(folder: Path, names: Sequence[str], *, published: int | None, source: str) -> Count:
    """How many of the named pictures lie in ``folder``; looks at names, opens nothing."""
    there: Group[str] = (
        {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        if folder.is_dir()
        else ()
    )
    missing = tuple(name for name in names if name not in there)
    return Count(
        what="picture files",
        found=len(names) - len(missing),
        published=published,
        source=source,
        missing=missing,
    )


def _person(
    path: Path, entry: Mapping[str, Any], where: str, pictures: Mapping[int, Mapping[str, Any]]
) -> Person:
    image_key = _whole(path, entry, where, "image_id")
    if image_key not in pictures:
        raise _wrong(path, "the id of one of the images", f"{where}.image_id", image_key)
    flat = _numbers(path, entry, where, "keypoints", 3 * len(JOINTS))
    joints = np.asarray(flat, np.float32).reshape(-1, 3)  # (J, 3)
    if not np.isin(joints[:, 2], (0, 1, 2)).all():
        raise _wrong(path, "0, 1 or 2 as every third number", f"{where}.keypoints", flat[2::3])
    x, y, width, height = _numbers(path, entry, where, "bbox", 4)
    area = entry.get("area", 0.0)
    picture = pictures[image_key]
    size = picture.get("width", 0), picture.get("height", 0)
    return Person(
        key=_whole(path, entry, where, "id"),
        image_key=image_key,
        file_name=picture["file_name"],
        size=(int(size[0]), int(size[1])) if all(map(_is_number, size)) and all(size) else None,
        joints=joints,
        box=(x, y, width, height) if width > 0 and height > 0 else None,
        area=float(area) if _is_number(area) else 0.0,
        category=str(picture.get("category", "")),
    )


def _list(path: Path, content: Mapping[str, Any], key: str) -> list[Any]:
    found = content.get(key)
    if not isinstance(found, list):
        raise _wrong(path, "a list", key, found)
    for place, entry in enumerate(found):
        if not isinstance(entry, Mapping):
            raise _wrong(path, "an object", f"{key}[{place}]", entry)
    return found


def _whole(path: Path, entry: Mapping[str, Any], where: str, key: str) -> int:
    found = entry.get(key)
    if not isinstance(found, int) or isinstance(found, bool):
        raise _wrong(path, "a whole number", f"{where}.{key}", found)
    return found


def _numbers(
    path: Path, entry: Mapping[str, Any], where: str, key: str, length: int
) -> list[float]:
    found = entry.get(key)
    if not isinstance(found, list) or len(found) != length or not all(map(_is_number, found)):
        raise _wrong(path, f"{length} numbers", f"{where}.{key}", found)
    return [float(value) for value in found]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value)


def _wrong(path: Path, rule: str, where: str, found: object) -> BadInput:
    shown = repr(found)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return BadInput(
        f"Expected {rule} at {where} of {path}, got {shown}; use the publisher's own file."
    )
