"""Human-Art: people in photographs, paintings, sculptures and drawings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

from masquerade import _check
from masquerade.collection import About, Count, Medium, PublishedCounts
from masquerade.datasets.coco_pose import CocoPhotos
from masquerade.datasets.recording_files import Annotated
from masquerade.errors import BadInput

Split = Literal["training", "validation"]

_PREFIX = "HumanArt/"
_SOURCE = "its README: 50,000 images in 20 scenarios, not told apart by split"


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

    ABOUT: ClassVar[About] = About(
        title="Human-Art",
        kind=Medium.PHOTOS,
        licence="a CC licence, for non-commercial use and on request; the version is not stated",
        home="https://idea-research.github.io/HumanArt",
        citation="ju2023",
    )
    PUBLISHED: ClassVar[PublishedCounts] = {
        "pictures listed": (None, _SOURCE),
        "scenarios": (20, "[ju2023]"),
        "people with joints": (None, _SOURCE),
        "picture files": (None, _SOURCE),
    }
    USUAL: ClassVar[str] = "validation"
    split: Split | None = None
    scenario: str = ""

    def check(self) -> tuple[Count, ...]:
        """Count pictures listed, scenarios, people and picture files of the whole split."""
        people = self._people
        names = [name.removeprefix(_PREFIX).removeprefix("images/") for name in people.pictures]
        return (
            self._count("pictures listed", len(names)),
            self._count("scenarios", len(people.categories)),
            self._count("people with joints", len(people.persons)),
            self._count_files(self.root / "images", names),
        )

    @property
    def _list(self) -> Path:
        return self.root / "annotations" / f"{self.part_name}_humanart.json"

    @cached_property
    def _persons(self) -> tuple[Annotated, ...]:
        people, wanted = self._people, _plain(self.scenario)
        if wanted and wanted not in map(_plain, people.categories):
            message = _check.unknown("scenario", self.scenario, people.categories)
            raise BadInput(f"{message} Those are the ones in {self._list}.")
        return tuple(
            replace(person, file_name=person.file_name.removeprefix(_PREFIX))
            for person in people.persons
            if wanted in ("", _plain(str(person.attributes.get("category", ""))))
        )


def _plain(name: str) -> str:
    return name.lower().replace("_", " ")
