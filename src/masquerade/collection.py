"""Collections: recordings on disk or made on demand, one at a time, with what is known of each.

A data set is a file of the room ``data``: a frozen dataclass on `Collection` whose fields say where
it lies and which part of it is meant. Making one reads nothing; ``labels`` reads the lists that the
publisher ships, and only an index reads a recording.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Generic, TypeAlias, TypeVar

from masquerade.recordings import Attributes, Photo, Signal, Video

Recording: TypeAlias = Video | Photo | Signal
Item = TypeVar("Item", Video, Photo, Signal, Recording)


class Kind(StrEnum):
    """What a collection holds."""

    VIDEOS = "videos"
    PHOTOS = "photos"
    SIGNALS = "signals"


@dataclass(frozen=True, kw_only=True)
class About:
    """Where a data set comes from.

    Args:
        title: its full name.
        kind: what it holds.
        licence: under which terms its publisher gives it, as far as known.
        home: where it is described.
        citation: key in ``references.bib``.
    """

    title: str
    kind: Kind
    licence: str
    home: str
    citation: str


@dataclass(frozen=True, kw_only=True)
class Labels:
    """What is known of a recording before it is read.

    Args:
        name: its own within the collection, such as its path below the root.
        subject: who is seen or wore the sensor, if it is one person.
        activity: what is done, if it is one thing.
        place: where.
        view: from which camera.
        attributes: other labels; a tuple gives one a frame.
    """

    name: str
    subject: str | None = None
    activity: str | None = None
    place: str | None = None
    view: str | None = None
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Count:
    """One line of a check: what was found beside what was published.

    Args:
        what: is counted, such as "videos".
        found: how many.
        published: how many there should be; None if that is not known.
        source: where the published number stands.
        missing: names of what should be there and is not.
    """

    what: str
    found: int
    published: int | None = None
    source: str = "not known"
    missing: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        """Whether nothing is missing and the number, if one is known, is the published one."""
        return not self.missing and self.published in (None, self.found)


class Collection(ABC, Generic[Item]):
    """Recordings that can be counted, described and read one by one.

    A subclass is a frozen dataclass. ``labels`` may be costly the first time and is kept.
    """

    ABOUT: ClassVar[About]

    @cached_property
    def labels(self) -> Sequence[Labels]:
        """What is known of each recording, in a fixed order."""
        return tuple(self._find())

    @property
    @abstractmethod
    def activities(self) -> tuple[str, ...]:
        """The list of classes: public, the same for every split; empty if there are none."""

    @abstractmethod
    def check(self) -> tuple[Count, ...]:
        """Count what is there beside what was published; read lists, not recordings."""

    @abstractmethod
    def _find(self) -> Sequence[Labels]:
        """Read the lists."""

    @abstractmethod
    def _load(self, index: int) -> Item:
        """Read recording ``index``, which is within range."""

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Item:
        if not -len(self) <= index < len(self):
            raise IndexError(f"Expected an index below {len(self)}, got {index}.")
        return self._load(index % len(self))

    def __iter__(self) -> Iterator[Item]:
        return (self[index] for index in range(len(self)))


def cite(key: str) -> str:
    """The entry of ``references.bib`` in one line.

    Example:
        >>> cite("soomro2012")[:21]
        'Soomro, Khurram and Z'
    """
    text = (Path(__file__).parent / "references.bib").read_text(encoding="utf-8")
    found = re.search(rf"@\w+\{{{key}, (.*)\}}\n", text)
    if found is None:
        raise ValueError(f"Expected a key of references.bib, got {key!r}.")
    fields: Mapping[str, str] = dict(re.findall(r"(\w+)=\{(.*?)\}(?:, |$)", found[1]))
    return ". ".join(fields[name] for name in ("author", "title", "year") if name in fields)
