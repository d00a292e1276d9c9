"""MPII Human Pose: people doing 410 activities, with 16 joints and the size of the head.

The annotations of MPII Human Pose: the publisher's .mat and the JSON made from it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from masquerade import _check
from masquerade._optional import scipy
from masquerade.collection import CountLine, DataSource, Medium, PublishedCounts
from masquerade.datasets.recording_files import (
    PeoplePhotos,
    PersonAnnotation,
    not_published,
    read_json,
)
from masquerade.errors import BadInput
from masquerade.joints import MPII

# The share of the head box's diagonal that counts as the head [andriluka2014, evaluation code].
SC_BIAS = 0.6
_BOX_SIDE_PX = 200.0
_FIRST_PIXEL = 1.0  # MATLAB's
_UNREADABLE = (
    *(zlib.error, ArithmeticError, EOFError, LookupError, MemoryError),
    *(NotImplementedError, OSError, TypeError, ValueError),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class MatLists:
    """The publisher's struct and where it was read."""

    path: Path
    pictures: list[Any]
    is_train: np.ndarray
    acts: list[Any]
    singles: list[Any]


def read_mat(path: Path) -> MatLists:
    """Read the publisher's file.

    Raises:
        BadInput: if it is missing, damaged or holds something else.
    """
    release = _load_mat(path).get("RELEASE")
    if not isinstance(release, scipy.io.matlab.mat_struct):
        raise BadInput(f"Expected a struct RELEASE in {path}; use the publisher's own file.")
    pictures = _list_entries(_read_field(release, "annolist"))
    is_train = np.atleast_1d(np.asarray(_read_field(release, "img_train")))
    if not pictures or len(is_train) != len(pictures):
        raise BadInput(
            f"Expected img_train for {len(pictures)} entries of annolist in {path}, got "
            f"{len(is_train)}; use the publisher's own file."
        )
    acts, singles = (
        _list_entries(_read_field(release, "act")),
        _read_field(release, "single_person"),
    )
    return MatLists(
        path=path,
        pictures=pictures,
        is_train=is_train.astype(bool),
        acts=acts if len(acts) == len(pictures) else [None] * len(pictures),
        singles=[singles] if len(pictures) == 1 else _list_entries(singles),
    )


def list_activities(release: MatLists) -> tuple[str, ...]:
    """All names of activities in the file, sorted."""
    return tuple(sorted({name for act in release.acts if (name := _read_text(act, "act_name"))}))


def people_of_mat(
    release: MatLists, *, is_train: bool, is_single: bool
) -> tuple[PersonAnnotation, ...]:
    """Those of one part: in train whoever has joints, in test whoever is listed."""
    if is_single and len(release.singles) != len(release.pictures):
        count = len(release.singles)
        raise not_published(release.path, "an entry a picture", "single_person", count)
    found = []
    for number, entry in enumerate(release.pictures):
        if release.is_train[number] != is_train:
            continue
        name = _read_text(_read_field(entry, "image"), "name")
        if not name:
            where = f"annolist({number + 1}).image.name"
            raise not_published(release.path, "an image name", where, name)
        chosen = _read_places(release.singles[number]) if is_single else None
        act, kind = release.acts[number], _read_text(release.acts[number], "cat_name")
        for place, rect in enumerate(_list_entries(_read_field(entry, "annorect")), 1):
            if chosen is not None and place not in chosen:
                continue
            where = f"{release.path}, annolist({number + 1}).annorect({place})"
            joints, visible = _read_corners(rect, where) if is_train else (None, None)
            if is_train and joints is None:
                continue
            found.append(
                PersonAnnotation(
                    file_name=name,
                    key=place,
                    joints=joints,
                    visible=visible,
                    head_px=_read_head_px(rect, where) if is_train else None,
                    box=_read_box(_read_field(rect, "objpos"), _read_field(rect, "scale"), where),
                    activity=_read_text(act, "act_name") or None,
                    attributes={"category": kind} if kind else {},
                )
            )
    return tuple(found)


def people_of_json(
    path: Path, *, heads: Path | None, has_joints: bool
) -> tuple[PersonAnnotation, ...]:
    """Those of one JSON list, with head sizes from ``heads`` where that file is."""
    entries = read_json(path)
    if not isinstance(entries, list):
        raise not_published(path, "a list of people", "the whole", type(entries).__name__)
    sizes = _head_sizes(heads, len(entries)) if heads is not None and heads.is_file() else None
    found = []
    for place, entry in enumerate(entries):
        where = f"{path}, entry {place}"
        if not isinstance(entry, Mapping) or not isinstance(entry.get("image"), str):
            raise BadInput(f"Expected an object with an image in {where}; use the usual file.")
        joints, visible = _json_points(entry, where) if has_joints else (None, None)
        center = _read_floats(entry.get("center"), (2,), f"center of {where}")
        found.append(
            PersonAnnotation(
                file_name=entry["image"],
                key=place + 1,
                joints=joints,
                visible=visible,
                head_px=float(sizes[place]) if sizes is not None and sizes[place] > 0 else None,
                box=_compute_square(
                    center, float(_read_floats(entry.get("scale"), (), f"scale of {where}"))
                ),
            )
        )
    return tuple(found)


def _json_points(entry: Mapping[str, Any], where: str) -> tuple[np.ndarray, np.ndarray]:
    joints = _read_floats(entry.get("joints"), (len(MPII), 2), f"joints of {where}")
    seen = _read_floats(entry.get("joints_vis"), (len(MPII),), f"joints_vis of {where}") > 0
    is_missing = ~seen & (joints <= 0).all(axis=1)
    joints = np.where(is_missing[:, None], np.nan, joints - _FIRST_PIXEL)
    return joints.astype(np.float32), seen


def _head_sizes(path: Path, count: int) -> np.ndarray:
    content = _load_mat(path)
    boxes = content.get("headboxes_src")
    wanted = (2, 2, count)
    if not isinstance(boxes, np.ndarray) or boxes.shape[:2] != (2, 2) or boxes.size != 4 * count:
        shape = getattr(boxes, "shape", None)
        raise not_published(path, f"headboxes_src with shape {wanted}", "the whole", shape)
    corners = boxes.reshape(2, 2, -1).astype(np.float64)
    return np.asarray(SC_BIAS * np.linalg.norm(corners[1] - corners[0], axis=0))


def _load_mat(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise BadInput(f"Expected a .mat file at {path}; there is none. Check the root folder.")
    try:
        return dict(scipy.io.loadmat(path, struct_as_record=False, squeeze_me=True))
    except (scipy.io.matlab.MatReadError, *_UNREADABLE) as error:
        raise BadInput(
            f"Expected a whole .mat file at {path}; it cannot be read ({error}). Fetch it again."
        ) from error


def _read_field(struct: Any, name: str) -> Any:
    """A field, or None where there is no such field or nothing in it."""
    found = getattr(struct, name, None)
    return None if isinstance(found, np.ndarray) and found.size == 0 else found


def _list_entries(found: Any) -> list[Any]:
    """A struct array of any length: squeezing makes one entry bare and none empty."""
    if found is None:
        return []
    return list(found.ravel()) if isinstance(found, np.ndarray) else [found]


def _read_text(struct: Any, name: str) -> str:
    found = _read_field(struct, name)
    return found if isinstance(found, str) else ""


def _read_places(found: Any) -> set[int]:
    return set() if found is None else {int(place) for place in np.asarray(found).ravel()}


def _read_corners(rect: Any, where: str) -> tuple[np.ndarray, np.ndarray] | tuple[None, None]:
    points = _list_entries(_read_field(_read_field(rect, "annopoints"), "point"))
    if not points:
        return None, None
    joints = np.full((len(MPII), 2), np.nan, np.float32)
    visible = np.zeros(len(MPII), bool)
    for point in points:
        number = _read_number(point, "id", where)
        if number is None or number not in range(len(MPII)):
            raise BadInput(f"Expected a joint id of 0 to 15 in {where}, got {number}.")
        x, y = _read_number(point, "x", where), _read_number(point, "y", where)
        if x is None or y is None:
            raise BadInput(f"Expected x and y of joint {int(number)} in {where}, got nothing.")
        joints[int(number)] = x - _FIRST_PIXEL, y - _FIRST_PIXEL
        # Empty where nobody said; a text in some entries, a number in others.
        seen = _read_field(point, "is_visible")
        visible[int(number)] = seen is None or str(seen).strip() not in ("0", "0.0")
    return joints, visible


def _read_head_px(rect: Any, where: str) -> float | None:
    x1, y1, x2, y2 = (_read_number(rect, name, where) for name in ("x1", "y1", "x2", "y2"))
    if x1 is None or y1 is None or x2 is None or y2 is None:
        return None
    size = SC_BIAS * float(np.hypot(x2 - x1, y2 - y1))
    return size if size > 0 else None


def _read_box(center: Any, scale: Any, where: str) -> tuple[float, float, float, float] | None:
    if center is None or scale is None:
        return None
    x, y = _read_number(center, "x", where), _read_number(center, "y", where)
    if x is None or y is None:
        return None
    return _compute_square(np.array([x, y]), float(_read_floats(scale, (), f"scale of {where}")))


def _compute_square(center: np.ndarray, scale: float) -> tuple[float, float, float, float] | None:
    """The square of 200 pixels times ``scale`` around ``center``."""
    side = _BOX_SIDE_PX * scale
    if side <= 0:
        return None
    x, y = (float(value) - _FIRST_PIXEL - side / 2 for value in center)
    return x, y, side, side


def _read_number(struct: Any, name: str, where: str) -> float | None:
    found = _read_field(struct, name)
    return None if found is None else float(_read_floats(found, (), f"{name} of {where}"))


def _read_floats(found: Any, shape: tuple[int, ...], where: str) -> np.ndarray:
    try:
        values = np.asarray(found, np.float64)
    except (TypeError, ValueError):
        values = np.full(1, np.nan)
    if values.shape != shape or not np.isfinite(values).all():
        rule = f"numbers of shape {shape}" if shape else "a number"
        raise BadInput(f"Expected {rule} at {where}, got {found!r}; use the usual file.")
    return values


Form = Literal["mat", "json"]
Split = Literal["train", "valid", "trainval", "test"]
People = Literal["all", "single"]

_MAT = "mpii_human_pose_v1_u12_1.mat"
_TEST_PICTURES = 6_908
_JSON_PEOPLE = {"train": 22_246, "valid": 2_958, "trainval": 29_116, "test": 7_247}


@dataclass(frozen=True, kw_only=True)
class Mpii(PeoplePhotos):
    """One photo per annotated person of MPII Human Pose [andriluka2014].

    Two forms are read, the publisher's and the one that most code uses since::

        root/
          images/000001163.jpg
          mpii_human_pose_v1_u12_1.mat     form "mat": splits train and test
          annot/train.json                 form "json": train, valid, trainval, test
          annot/valid.json
          annot/trainval.json
          annot/test.json
          annot/gt_valid.mat               head boxes for valid.json, if there

    The head size is 0.6 times the diagonal of the head box, as in the official evaluation; the
    JSON form has none except by ``gt_valid.mat``. The box is the square of 200 pixels times
    ``scale`` around the person's centre. The annotations of the test pictures are not public:
    the test split has no joints, and what else it says of a person.

    What is not certain: the publisher does not say from where pixels count. As MATLAB, and the
    evaluation code that users share, count from 1, one is subtracted from every coordinate. Neck
    and head top have no ``is_visible`` in the .mat and count as visible; ``joints_vis`` of the
    JSON is taken as it stands, and a joint there that is not visible at or below 0, 0 is missing.

    Args:
        root: the folder that holds ``images``.
        form: of the annotations.
        split: train and test are the publisher's; valid is a part of train that users agreed on.
        people: all, or the ``single`` ones that stand apart from others (form "mat" only).
    """

    ABOUT: ClassVar[DataSource] = DataSource(
        title="MPII Human Pose",
        kind=Medium.PHOTOS,
        licence="Simplified BSD for the annotations; for research, other uses on request",
        home="http://human-pose.mpi-inf.mpg.de",
        citation="andriluka2014",
    )
    JOINTS: ClassVar[tuple[str, ...]] = MPII
    USUAL: ClassVar[str] = "train"

    form: Form = "mat"
    split: Split | None = None
    people: People = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.part_name not in self.parts:
            raise ValueError(
                _check.describe_unknown(f"split of form {self.form}", self.part_name, self.parts)
            )
        if self.form == "json" and self.people == "single":
            raise ValueError(
                "Expected people='all' with form='json', got people='single'; the JSON does not "
                "say who stands apart. Use form='mat'."
            )

    @property
    def parts(self) -> tuple[str, ...]:
        """The publisher's two, or the four that users agreed on."""
        return ("train", "test") if self.form == "mat" else super().parts

    @property
    def activities(self) -> tuple[str, ...]:
        """The names in the .mat, sorted; the JSON form has none."""
        return list_activities(self._mat_lists) if self.form == "mat" else ()

    @property
    def publisher_counts(self) -> PublishedCounts:
        """What is known of the form and the split."""
        if self.form == "json":
            source = "its users, who count the same in each file"
            return {"people": (_JSON_PEOPLE[self.part_name], source)}
        if self.part_name == "train" or self.people == "single":
            return {}
        return {"picture files": (_TEST_PICTURES, "its evaluation code")}

    def check(self) -> tuple[CountLine, ...]:
        """Count people or pictures listed, and picture files."""
        names = dict.fromkeys(person.file_name for person in self._person_annotations)
        return (
            self._count_line("people", len(self._person_annotations)),
            self._count_files(self._picture_folder, names),
        )

    @property
    def _picture_folder(self) -> Path:
        return self.root / "images"

    @cached_property
    def _mat_lists(self) -> MatLists:
        return read_mat(self.root / _MAT)

    @cached_property
    def _person_annotations(self) -> tuple[PersonAnnotation, ...]:
        if self.form == "mat":
            return people_of_mat(
                self._mat_lists,
                is_train=self.part_name == "train",
                is_single=self.people == "single",
            )
        return people_of_json(
            self.root / "annot" / f"{self.part_name}.json",
            heads=self.root / "annot" / "gt_valid.mat" if self.part_name == "valid" else None,
            has_joints=self.part_name != "test",
        )
