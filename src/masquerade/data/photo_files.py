"""What collections of photographs share: JSON, pictures, and one photo an annotated person."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from masquerade.collection import Collection, Count, Labels
from masquerade.errors import BadInput
from masquerade.recordings import Attributes, Photo
from masquerade.video.read import frames


@dataclass(frozen=True, kw_only=True)
class PhotoFiles(Collection[Photo]):
    """Photographs on disk.

    Args:
        root: the folder into which the data set was unpacked.
    """

    root: Path

    def _count_files(self, folder: Path, names: Iterable[str]) -> Count:
        """How many of the named pictures lie in ``folder``; looks at names, opens nothing."""
        every = folder.rglob("*") if folder.is_dir() else ()
        there = {path.relative_to(folder).as_posix() for path in every if path.is_file()}
        wanted = tuple(names)
        missing = [name for name in wanted if name not in there]
        return self._count("picture files", len(wanted) - len(missing), missing)


@dataclass(frozen=True, kw_only=True, eq=False)
class Annotated:
    """One annotated person, in pixels counted from 0.

    Args:
        file_name: of the picture.
        key: of the person: a number of the annotation, or the place in the picture or list.
        joints: (J, 2); missing is NaN. None where they are not public.
        visible: (J,) bool.
        box: x, y, width, height.
        size: width and height of the picture; None where nobody says.
        head_px: head size.
        activity: what is done.
        attributes: what else is known.
    """

    file_name: str
    key: int
    joints: np.ndarray | None
    visible: np.ndarray | None
    box: tuple[float, float, float, float] | None
    size: tuple[int, int] | None = None
    head_px: float | None = None
    activity: str | None = None
    attributes: Attributes = field(default_factory=dict)


class PeoplePhotos(PhotoFiles):
    """One photo for each annotated person; a picture of several people comes several times."""

    JOINTS: ClassVar[tuple[str, ...]]

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The body points, in order."""
        return self.JOINTS

    @property
    @abstractmethod
    def _persons(self) -> Sequence[Annotated]:
        """Whom the annotations name."""

    @property
    def _folder(self) -> Path:
        """Where the names of pictures begin."""
        return self.root

    def _find(self) -> Sequence[Labels]:
        below = self._folder.relative_to(self.root)
        return [
            Labels(
                name=f"{(below / person.file_name).as_posix()}#{person.key}",
                activity=person.activity,
                attributes=person.attributes,
            )
            for person in self._persons
        ]

    def _load(self, index: int) -> Photo:
        person = self._persons[index]
        path = self._folder / person.file_name
        image = read_picture(path)
        size = image.shape[1], image.shape[0]
        if person.size is not None and size != person.size:  # the joints would lie elsewhere
            raise BadInput(
                f"Expected {person.size[0]} by {person.size[1]} pixels in {path}, got {size[0]} by "
                f"{size[1]}; use the picture as published, not resized or turned."
            )
        return Photo(
            image=image,
            joints=person.joints,
            visible=person.visible,
            head_px=person.head_px,
            box=person.box,
            attributes=person.attributes,
        )


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


def not_published(path: Path, rule: str, where: str, found: object) -> BadInput:
    """The refusal of something in a file that its publisher cannot have written."""
    shown = repr(found)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return BadInput(
        f"Expected {rule} at {where} of {path}, got {shown}; use the publisher's own file."
    )
