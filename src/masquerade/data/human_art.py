"""Human-Art: people in photographs, paintings, sculptures and drawings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal, get_args

from masquerade import _check
from masquerade.collection import About, Collection, Count, Kind, Labels
from masquerade.data import coco_pose
from masquerade.errors import BadInput
from masquerade.recordings import Photo

Split = Literal["training", "validation"]

_PREFIX = "HumanArt/"
_SOURCE = "its README: 50,000 images in 20 scenarios, not told apart by split"


@dataclass(frozen=True, kw_only=True)
class HumanArt(Collection[Photo]):
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
        split: of the publisher.
        scenario: only pictures whose ``category`` is this one, such as ``cartoon``; empty for all.
    """

    ABOUT: ClassVar[About] = About(
        title="Human-Art",
        kind=Kind.PHOTOS,
        licence="a CC licence, for non-commercial use and on request; the version is not stated",
        home="https://idea-research.github.io/HumanArt",
        citation="ju2023",
    )
    JOINTS: ClassVar[tuple[str, ...]] = coco_pose.JOINTS

    root: Path
    split: Split = "validation"
    scenario: str = ""

    def __post_init__(self) -> None:
        if self.split not in get_args(Split):
            raise ValueError(_check.unknown("split", self.split, get_args(Split)))

    @property
    def activities(self) -> tuple[str, ...]:
        """None: the pictures have scenarios, which are an attribute."""
        return ()

    def check(self) -> tuple[Count, ...]:
        """Count pictures listed, scenarios, people and picture files of the whole split."""
        people = self._people
        names = [_below_root(name) for name in people.pictures]
        return (
            Count(what="pictures listed", found=len(names), source=_SOURCE),
            Count(what="scenarios", found=len(people.categories), published=20, source="[ju2023]"),
            Count(what="people with joints", found=len(people.persons), source=_SOURCE),
            coco_pose.count_files(
                self.root / "images",
                [name.removeprefix("images/") for name in names],
                published=None,
                source=_SOURCE,
            ),
        )

    @property
    def _list(self) -> Path:
        return self.root / "annotations" / f"{self.split}_humanart.json"

    @cached_property
    def _people(self) -> coco_pose.People:
        return coco_pose.read(self._list)

    @cached_property
    def _chosen(self) -> tuple[coco_pose.Person, ...]:
        people = self._people
        if not self.scenario:
            return people.persons
        wanted = _plain(self.scenario)
        if wanted not in map(_plain, people.categories):
            message = _check.unknown("scenario", self.scenario, people.categories)
            raise BadInput(f"{message} Those are the ones in {self._list}.")
        return tuple(person for person in people.persons if _plain(person.category) == wanted)

    def _find(self) -> Sequence[Labels]:
        return [
            Labels(
                name=f"{_below_root(person.file_name)}#{person.key}",
                attributes={
                    "image_id": person.image_key,
                    "annotation_id": person.key,
                    "category": person.category,
                },
            )
            for person in self._chosen
        ]

    def _load(self, index: int) -> Photo:
        person = self._chosen[index]
        return coco_pose.photo(person, self.root / _below_root(person.file_name))


def _below_root(name: str) -> str:
    return name.removeprefix(_PREFIX)


def _plain(name: str) -> str:
    return name.lower().replace("_", " ")


EXAMPLE = HumanArt(root=Path("HumanArt"))
