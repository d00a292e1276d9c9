"""COCO 2017, people with labelled joints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from masquerade.collection import About, Count, Medium, PublishedCounts
from masquerade.datasets.coco_pose import CocoPhotos

Split = Literal["train", "val"]

_IMAGES = {"train": 118_287, "val": 5_000}
_PERSONS = {"train": 149_813, "val": 6_352}
_SOURCE = "counted by users of the 2017 files; the publisher rounds to 118K and 5K images"


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

    ABOUT: ClassVar[About] = About(
        title="Microsoft COCO 2017, person keypoints",
        kind=Medium.PHOTOS,
        licence="CC BY 4.0 for the annotations; the pictures under their own Flickr licences",
        home="https://cocodataset.org",
        citation="lin2014",
    )
    USUAL: ClassVar[str] = "val"
    split: Split | None = None

    @property
    def published(self) -> PublishedCounts:
        """The numbers of the split."""
        return {
            "pictures listed": (_IMAGES[self.part_name], _SOURCE),
            "people with joints": (_PERSONS[self.part_name], _SOURCE),
            "picture files": (_IMAGES[self.part_name], _SOURCE),
        }

    def check(self) -> tuple[Count, ...]:
        """Count pictures listed, people listed and picture files."""
        people = self._people
        return (
            self._count("pictures listed", len(people.pictures)),
            self._count("people with joints", len(people.persons)),
            self._count_files(self._folder, people.pictures),
        )

    @property
    def _folder(self) -> Path:
        return self.root / f"{self.part_name}2017"

    @property
    def _list(self) -> Path:
        return self.root / "annotations" / f"person_keypoints_{self.part_name}2017.json"
