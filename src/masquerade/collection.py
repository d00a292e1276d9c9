"""Collections: recordings on disk or made on demand, one at a time, with what is known of each.

A data set is a frozen dataclass on `Collection` whose fields say where
it lies and which part of it is meant. Making one reads nothing; ``labels`` reads the lists that the
publisher ships, and only an index reads a recording.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, cached_property
from pathlib import Path
from types import NoneType
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    Self,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from masquerade import _check
from masquerade.errors import BadInput
from masquerade.recordings import Attributes, Photo, Signal, Video

Recording: TypeAlias = Video | Photo | Signal
PublishedCounts: TypeAlias = Mapping[str, tuple[int | None, str]]
Item = TypeVar("Item", Video, Photo, Signal, Recording)


class Medium(StrEnum):
    """What a collection holds."""

    VIDEOS = "videos"
    PHOTOS = "photos"
    SIGNALS = "signals"


@dataclass(frozen=True, kw_only=True)
class DataSource:
    """Where a data set comes from.

    Args:
        title: its full name.
        kind: what it holds.
        licence: under which terms its publisher gives it, as far as known.
        home: where it is described.
        citation: key in ``references.bib``.
        is_made_up: whether it shows people who never lived, so that nothing of it is private.
    """

    title: str
    kind: Medium
    licence: str
    home: str
    citation: str
    is_made_up: bool = False


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
class CountLine:
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
    def is_complete(self) -> bool:
        """Whether nothing is missing and the number, if one is known, is the published one."""
        return not self.missing and self.published in (None, self.found)


READ_CLASSES = (
    "the list of classes, which was read from the recordings' own labels: a class that one of them "
    "alone has is seen in the model (--classes gives a public list)"
)


class Collection(ABC, Generic[Item]):
    """Recordings that can be counted, described and read one by one.

    A subclass is a frozen dataclass. ``labels`` may be costly the first time and is kept. A field
    whose type is a ``Literal`` takes no other value. One that comes in parts has such a field,
    ``split``; where that may be None, nobody has chosen yet: a command takes the part it is for,
    and whoever reads without asking for one gets ``USUAL``.
    """

    ABOUT: ClassVar[DataSource]
    PUBLISHED: ClassVar[PublishedCounts] = {}
    CLASSES: ClassVar[tuple[str, ...]] = ()
    USUAL: ClassVar[str] = "all"

    def __post_init__(self) -> None:
        classes = getattr(self, "classes", ())
        if len(set(classes)) != len(classes):
            raise ValueError(f"Expected each class once in --classes, got {' '.join(classes)}.")
        for name, hint in _hints(type(self)).items():
            if hint is Path and not isinstance(path := getattr(self, name), Path):
                raise TypeError(f"Expected {name} to be a pathlib.Path, got {path!r}; wrap it.")
        for name, choices in _list_choices(type(self)).items():
            if (value := getattr(self, name)) not in choices:
                raise ValueError(_check.describe_unknown(name, value, _list_choice_names(choices)))

    @property
    def kind(self) -> Medium:
        """What it holds."""
        return self.ABOUT.kind

    @property
    def kinds(self) -> tuple[Medium, ...]:
        """What `select_kind` takes."""
        return (self.kind,)

    def select_kind(self, kind: Medium) -> Self:
        """The same people as recordings of another kind, for whoever has several.

        Raises:
            BadInput: if there are no recordings of that kind.
        """
        if kind not in self.kinds:
            raise BadInput(f"Expected a data set of {kind}, got {self.ABOUT.title}.")
        return self if kind == self.kind else self._replace_fields(kind=kind)

    @property
    def parts(self) -> tuple[str, ...]:
        """What `select_part` takes; empty where nothing is split."""
        return _list_choice_names(_list_choices(type(self)).get("split", ()))

    @property
    def explicit_part(self) -> str | None:
        """The part that somebody chose; None where nobody did."""
        found: str | None = getattr(self, "split", None)
        return found

    @property
    def part_name(self) -> str:
        """The part that is read, chosen or usual."""
        return self.explicit_part or self.USUAL

    def select_part(self, name: str) -> Self:
        """The part of this name.

        Raises:
            BadInput: if there is no such part; those that there are are listed.
        """
        if name not in self.parts:
            listed = ", ".join(self.parts) or "which has no parts"
            raise BadInput(f"Expected a part of {self.ABOUT.title} ({listed}), got {name!r}.")
        return self._replace_fields(split=name)

    def select_default_part(self, name: str) -> Self:
        """The part of this name; itself where one was chosen already or nothing is split."""
        return self if self.explicit_part is not None or not self.parts else self.select_part(name)

    @property
    def explicit_subjects(self) -> tuple[str, ...]:
        """Whom somebody chose by name; empty for everybody."""
        return ()

    def select_subjects(self, names: Iterable[str]) -> Self:
        """Only the recordings of these people, for whoever can choose among them.

        Raises:
            BadInput: if it cannot.
        """
        raise BadInput(f"Expected a data set whose people have names, got {self.ABOUT.title}.")

    @cached_property
    def labels(self) -> Sequence[Labels]:
        """What is known of each recording, in a fixed order."""
        return tuple(self._find())

    @property
    def activities(self) -> tuple[str, ...]:
        """The list of classes: public, the same for every split; empty if there are none."""
        return self.CLASSES

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The body points of its recordings, in order: public; empty if there are none."""
        return ()

    @property
    def mask_source(self) -> str:
        """Where its masks come from, in public words for a receipt; empty where they are its own.

        Whoever brings masks and recordings together says it, after they were read.
        """
        return ""

    @property
    def class_source(self) -> str:
        """Where its classes come from, in public words for a receipt; empty if a list is public."""
        return ""

    @property
    def publisher_counts(self) -> PublishedCounts:
        """What its publisher counts: how many there are of it, and where that stands."""
        return self.PUBLISHED

    @abstractmethod
    def check(self) -> tuple[CountLine, ...]:
        """Count what is there beside what was published; read lists, not recordings."""

    @abstractmethod
    def _find(self) -> Sequence[Labels]:
        """Read the lists."""

    @abstractmethod
    def _load(self, index: int) -> Item:
        """Read recording ``index``, which is within range."""

    def _count_line(self, what: str, found: int, missing: Iterable[str] = ()) -> CountLine:
        """One line of a check, beside what ``publisher_counts`` has of it."""
        number, source = self.publisher_counts.get(what, (None, "not known"))
        return CountLine(
            what=what, found=found, published=number, source=source, missing=tuple(missing)
        )

    def _replace_fields(self, **changes: object) -> Self:
        changed: Self = replace(cast(Any, self), **changes)
        return changed

    def _normalize_index(self, index: int) -> int:
        """An index counted from the beginning."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"Expected an index below {len(self)}, got {index}.")
        return index % len(self)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Item:
        return self._load(self._normalize_index(index))

    def __iter__(self) -> Iterator[Item]:
        return (self[index] for index in range(len(self)))


_hints = cache(get_type_hints)


@cache
def _list_choices(kind: type) -> Mapping[str, tuple[object, ...]]:
    """The values of each field whose type is a ``Literal``, or one or None."""
    found = {}
    for name, hint in _hints(kind).items():
        either = get_args(hint) if get_origin(hint) is Union else (hint,)
        values = [one for each in either if get_origin(each) is Literal for one in get_args(each)]
        if values:
            found[name] = (*values, *([None] if NoneType in either else []))
    return found


def _list_choice_names(choices: tuple[object, ...]) -> tuple[str, ...]:
    return tuple(str(each) for each in choices if each is not None)


def format_citation(key: str) -> str:
    """The entry of ``references.bib`` in one line.

    Example:
        >>> format_citation("soomro2012")[:21]
        'Soomro, Khurram and Z'
    """
    text = (Path(__file__).parent / "references.bib").read_text(encoding="utf-8")
    found = re.search(rf"@\w+\{{{key}, (.*)\}}\n", text)
    if found is None:
        raise ValueError(f"Expected a key of references.bib, got {key!r}.")
    fields: Mapping[str, str] = dict(re.findall(r"(\w+)=\{(.*?)\}(?:, |$)", found[1]))
    return ". ".join(fields[name] for name in ("author", "title", "year") if name in fields)
