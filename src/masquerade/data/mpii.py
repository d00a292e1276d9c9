"""MPII Human Pose: people doing 410 activities, with 16 joints and the size of the head."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

from masquerade import _check
from masquerade.collection import About, Count, Medium, PublishedCounts
from masquerade.data import mpii_lists
from masquerade.data.photo_files import Annotated, PeoplePhotos
from masquerade.joints import MPII

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

    ABOUT: ClassVar[About] = About(
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
                _check.unknown(f"split of form {self.form}", self.part_name, self.parts)
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
        return mpii_lists.activities(self._content) if self.form == "mat" else ()

    @property
    def published(self) -> PublishedCounts:
        """What is known of the form and the split."""
        if self.form == "json":
            source = "its users, who count the same in each file"
            return {"people": (_JSON_PEOPLE[self.part_name], source)}
        if self.part_name == "train" or self.people == "single":
            return {}
        return {"picture files": (_TEST_PICTURES, "its evaluation code")}

    def check(self) -> tuple[Count, ...]:
        """Count people or pictures listed, and picture files."""
        names = dict.fromkeys(person.file_name for person in self._persons)
        return (
            self._count("people", len(self._persons)),
            self._count_files(self._folder, names),
        )

    @property
    def _folder(self) -> Path:
        return self.root / "images"

    @cached_property
    def _content(self) -> mpii_lists.MatLists:
        return mpii_lists.read_mat(self.root / _MAT)

    @cached_property
    def _persons(self) -> tuple[Annotated, ...]:
        if self.form == "mat":
            return mpii_lists.people_of_mat(
                self._content, is_train=self.part_name == "train", is_single=self.people == "single"
            )
        return mpii_lists.people_of_json(
            self.root / "annot" / f"{self.part_name}.json",
            heads=self.root / "annot" / "gt_valid.mat" if self.part_name == "valid" else None,
            has_joints=self.part_name != "test",
        )


EXAMPLE = Mpii(root=Path("mpii"))
