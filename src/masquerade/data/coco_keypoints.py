"""COCO 2017, people with labelled joints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal, get_args

from masquerade import _check
from masquerade.collection import About, Collection, Count, Kind, Labels
from masquerade.data import coco_pose
from masquerade.recordings import Photo

Split = Literal["train", "val"]

_IMAGES = {"train": 118_287, "val": 5_000}
_PERSONS = {"train": 149_813, "val": 6_352}
_SOURCE = "counted by users of the 2017 files; the publisher rounds to 118K and 5K images"


@dataclass(frozen=True, kw_only=True)
class CocoKeypoints(Collection[Photo]):
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

    ABOUT: ClassVar[About] = About(
        title="Microsoft COCO 2017, person keypoints",
        kind=Kind.PHOTOS,
        licence="CC BY 4.0 for the annotations; the pictures under their own Flickr licences",
        home="https://cocodataset.org",
        citation="lin2014",
    )
    JOINTS: ClassVar[tuple[str, ...]] = coco_pose.JOINTS

    root: Path
    split: Split = "val"

    def __post_init__(self) -> None:
        if self.split not in get_args(Split):
            raise ValueError(_check.unknown("split", self.split, get_args(Split)))

    @property
    def activities(self) -> tuple[str, ...]:
        """None: the pictures have no classes."""
        return ()

    def check(self) -> tuple[Count, ...]:
        """Count pictures listed, people listed and picture files."""
        people = self._people
        images = _IMAGES[self.split]
        return (
            Count(
                what="pictures listed",
                found=len(people.pictures),
                published=images,
                source=_SOURCE,
            ),
            Count(
                what="people with joints",
                found=len(people.persons),
                published=_PERSONS[self.split],
                source=_SOURCE,
            ),
            coco_pose.count_files(self._folder, people.pictures, published=images, source=_SOURCE),
        )

    @property
    def _folder(self) -> Path:
        return self.root / f"{self.split}2017"

    @cached_property
    def _people(self) -> coco_pose.People:
        return coco_pose.read(self.root / "annotations" / f"person_keypoints_{self.split}2017.json")

    def _find(self) -> Sequence[Labels]:
        return [
            Labels(
                name=f"{self.split}2017/{person.file_name}#{person.key}",
                attributes={"image_id": person.image_key, "annotation_id": person.key},
            )
            for person in self._people.persons
        ]

    def _load(self, index: int) -> Photo:
        person = self._people.persons[index]
        return coco_pose.photo(person, self._folder / person.file_name)


EXAMPLE = CocoKeypoints(root=Path("coco"))
