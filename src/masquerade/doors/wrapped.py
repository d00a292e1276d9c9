"""A collection of which only the recordings change on their way: it has its parts and labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from masquerade.collection import About, Collection, Count, Labels, PublishedCounts
from masquerade.recordings import Video


@dataclass(frozen=True, kw_only=True, eq=False)
class WrappedVideos(Collection[Video]):
    """A collection of which only the recordings themselves change on their way.

    Args:
        unmasked: the collection.
    """

    ABOUT: ClassVar[About]  # the collection's
    unmasked: Collection[Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "ABOUT", self.unmasked.ABOUT)

    @property
    def parts(self) -> tuple[str, ...]:
        """The collection's."""
        return self.unmasked.parts

    @property
    def chosen_part(self) -> str | None:
        """The collection's."""
        return self.unmasked.chosen_part

    @property
    def part_name(self) -> str:
        """The collection's."""
        return self.unmasked.part_name

    @property
    def chosen_subjects(self) -> tuple[str, ...]:
        """The collection's."""
        return self.unmasked.chosen_subjects

    @property
    def activities(self) -> tuple[str, ...]:
        """The collection's."""
        return self.unmasked.activities

    @property
    def class_source(self) -> str:
        """The collection's."""
        return self.unmasked.class_source

    @property
    def published(self) -> PublishedCounts:
        """The collection's."""
        return self.unmasked.published

    def part(self, name: str) -> Self:
        """The same of a part of the collection."""
        return replace(self, unmasked=self.unmasked.part(name))

    def check(self) -> tuple[Count, ...]:
        """The collection's."""
        return self.unmasked.check()

    def _find(self) -> Sequence[Labels]:
        return self.unmasked.labels
