"""What collections of video files share: one decoding a file, pieces of it, and clear refusals.

What collections of photographs share: JSON, pictures, and one photo an annotated person.

What collections of worn sensors share: people who can be chosen by name.
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, Self, get_args

import numpy as np

from masquerade import _check
from masquerade._optional import lazy_module
from masquerade.collection import Collection, CountLine, Labels
from masquerade.errors import BadInput
from masquerade.io.video import is_video
from masquerade.recordings import Attributes, Photo, Signal, Video

if TYPE_CHECKING:
    from masquerade.io.video import read
else:
    read = lazy_module("masquerade.io.video.read")


@dataclass(frozen=True, kw_only=True)
class PhotoFiles(Collection[Photo]):
    """Photographs on disk.

    Args:
        root: the folder into which the data set was unpacked.
    """

    root: Path

    def _count_files(self, folder: Path, names: Iterable[str]) -> CountLine:
        """How many of the named pictures lie in ``folder``; looks at names, opens nothing."""
        every = folder.rglob("*") if folder.is_dir() else ()
        there = {path.relative_to(folder).as_posix() for path in every if path.is_file()}
        wanted = tuple(names)
        missing = [name for name in wanted if name not in there]
        return self._count_line("picture files", len(wanted) - len(missing), missing)


@dataclass(frozen=True, kw_only=True, eq=False)
class PersonAnnotation:
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
    def _person_annotations(self) -> Sequence[PersonAnnotation]:
        """Whom the annotations name."""

    @property
    def _picture_folder(self) -> Path:
        """Where the names of pictures begin."""
        return self.root

    def _find(self) -> Sequence[Labels]:
        below = self._picture_folder.relative_to(self.root)
        return [
            Labels(
                name=f"{(below / person.file_name).as_posix()}#{person.key}",
                activity=person.activity,
                attributes=person.attributes,
            )
            for person in self._person_annotations
        ]

    def _load(self, index: int) -> Photo:
        person = self._person_annotations[index]
        path = self._picture_folder / person.file_name
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
    with closing(read.read_frames(path)) as every:
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


class SignalFiles(Collection[Signal]):
    """Signals of people whom a field ``subjects`` chooses; empty is everybody."""

    subjects: tuple[str, ...]

    @property
    @abstractmethod
    def people(self) -> tuple[str, ...]:
        """Whom the publisher has, by name."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for subject in self.subjects:
            if subject not in self.people:
                raise ValueError(_check.describe_unknown("subject", subject, self.people))

    @property
    def explicit_subjects(self) -> tuple[str, ...]:
        """Whom somebody chose by name; empty for everybody."""
        return self.subjects

    def select_subjects(self, names: Iterable[str]) -> Self:
        """Only the recordings of these people."""
        return self._replace_fields(subjects=tuple(names))


Split = Literal["train", "test", "all"]
Fold = Literal[1, 2, 3]


@dataclass(frozen=True, kw_only=True)
class VideoFiles(Collection[Video]):
    """Videos on disk, each found by its name below a folder.

    Args:
        root: the folder into which the data set was unpacked.
    """

    root: Path

    @property
    def base_folder(self) -> Path:
        """Where the names of recordings begin."""
        return self.root

    def find_path(self, index: int) -> Path:
        """Where a recording lies, whether or not it is there."""
        return self.base_folder / self.labels[index].name

    def read_segment(self, index: int, start: int, stop: int) -> Video:
        """Frames ``start`` to ``stop``, the latter not included, of a recording.

        What is known of each frame is cut alike. Only what is needed is decoded, where the file
        allows it.

        Raises:
            IndexError: if there is no such recording.
            BadInput: if there are fewer than ``stop`` frames, or the file cannot be read.
            ValueError: unless 0 <= start < stop.
        """
        index = self._normalize_index(index)
        frames, rate_hz = read.read_timed_segment(self.find_path(index), start, stop)
        return self._make_video(index, frames, rate_hz, start)

    def _load(self, index: int) -> Video:
        frames, rate_hz = read.read_whole(self.find_path(index))
        return self._make_video(index, frames, rate_hz, 0)

    def _make_video(self, index: int, frames: np.ndarray, rate_hz: float, start: int) -> Video:
        known = self.labels[index]
        joints, joints_3d = self._find_joints(index, start, start + len(frames))
        return Video(
            frames=frames,
            rate_hz=rate_hz,
            subject=known.subject,
            place=known.place,
            activity=known.activity,
            view=known.view,
            attributes=cut_attributes(known.attributes, start, start + len(frames)),
            joints=joints,
            joints_3d=joints_3d,
        )

    def _find_joints(
        self, index: int, start: int, stop: int
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Joints in pixels and in metres for a stretch of frames, if they are known."""
        return None, None


@dataclass(frozen=True, kw_only=True)
class ListedVideos(VideoFiles):
    """Videos of which the publisher lists three folds, each in train and test.

    Args:
        root: the folder that holds videos and lists.
        split: of the fold; ``all`` is every video on disk, listed or not.
        fold: of the official three.
    """

    USUAL: ClassVar[str] = "train"
    split: Split | None = None
    fold: Fold = 1

    @abstractmethod
    def _on_disk(self) -> list[str]:
        """The names of all videos that are there."""

    @abstractmethod
    def _parse_labels(self, name: str, where: str) -> Labels:
        """What a name tells; ``where`` it stands is for the refusal."""

    @abstractmethod
    def _lists_of(self, fold: int, part: str) -> list[Path]:
        """The files that list a part, whether or not they are there."""

    @abstractmethod
    def _read_split_list(self, path: Path) -> list[tuple[str, Labels]]:
        """Each row of a list: its part, and what is known."""

    def _find(self) -> Sequence[Labels]:
        part = self.part_name
        if part == "all":
            return [
                self._parse_labels(name, str(self.base_folder / name)) for name in self._on_disk()
            ]
        rows = (
            row for path in self._lists_of(self.fold, part) for row in self._read_split_list(path)
        )
        return [known for its, known in rows if its == part]

    def _count_folds(self) -> tuple[list[str], list[CountLine]]:
        """The names in all lists, and how many rows each part of each fold has."""
        listed, counts = [], []
        for fold in get_args(Fold):
            for part in ("train", "test"):
                paths = self._lists_of(fold, part)
                rows = [
                    row for path in paths if path.is_file() for row in self._read_split_list(path)
                ]
                listed += [known.name for _, known in rows]
                found = sum(its == part for its, _ in rows)
                lost = [path.name for path in paths if not path.is_file()]
                counts.append(self._count_line(f"fold {fold}, {part}", found, lost))
        return listed, counts


def cut_attributes(
    attributes: Attributes, start: int, stop: int
) -> dict[str, str | int | tuple[int, ...]]:
    """The labels of a stretch of frames; frames beyond what was labelled get -1.

    Example:
        >>> cut_attributes({"quality": "good", "face": (0, 1, 2)}, 1, 4)
        {'quality': 'good', 'face': (1, 2, -1)}
    """
    return {
        name: tuple(value[at] if at < len(value) else -1 for at in range(start, stop))
        if isinstance(value, tuple)
        else value
        for name, value in attributes.items()
    }


def list_videos(folder: Path) -> list[Path]:
    """Paths of the videos in a folder and its folders, relative to it, sorted; none hidden."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if is_video(path))
    return sorted(
        (path for path in found if not any(part.startswith(".") for part in path.parts)),
        key=lambda path: path.as_posix(),
    )


def match_file_names(
    folder: Path, pattern: str, form: re.Pattern[str], *, rule: str
) -> list[re.Match[str]]:
    """The names of all files in a folder like ``pattern`` that are not hidden, taken apart.

    Raises:
        BadInput: if a name has not the ``form``, which the ``rule`` says in words.
    """
    found = []
    for path in sorted(folder.glob(pattern)):
        if path.name.startswith("."):
            continue
        match = form.fullmatch(path.name)
        if match is None:
            raise BadInput(f"Expected {rule}, got {path}; move other files away.")
        found.append(match)
    return found


def find_root(
    root: Path, names: Sequence[str], is_it: Callable[[Path], bool], *, what: str, layout: str
) -> Path:
    """The folder of a data set: one of ``names`` below the root, or the root itself.

    Args:
        root: that the user gave.
        names: as its publisher calls the folder.
        is_it: whether a folder is the one that is looked for.
        what: is looked for, in words.
        layout: what the root should hold, in words.

    Raises:
        BadInput: if it is not there; says so if it is one level further up or down.
    """
    if not root.is_dir():
        got = "a file" if root.exists() else "nothing"
        raise BadInput(f"Expected {what} in the folder {root}, got {got}; {layout}.")
    found = _find_inside(root, names, is_it)
    if found is not None:
        return found
    around = (root.parent, *sorted(path for path in root.iterdir() if path.is_dir()))
    near = [place for place in around if _find_inside(place, names, is_it) is not None]
    hint = f" It seems that you mean {near[0]}." if near else ""
    raise BadInput(f"Expected {what} in {root}, got none; {layout}.{hint}")


def _find_inside(root: Path, names: Sequence[str], is_it: Callable[[Path], bool]) -> Path | None:
    places = (*(root / name for name in names), root)
    return next((place for place in places if place.is_dir() and is_it(place)), None)


def read_list_lines(path: Path, *, what: str) -> list[tuple[int, str]]:
    """The lines of a list with their numbers, from 1 on; empty ones are left out.

    Bytes that are no UTF-8 are kept as Python keeps them in file names, so that both agree.

    Raises:
        BadInput: if there is no such file, or nothing in it.
    """
    if not path.is_file():
        raise BadInput(f"Expected {what} at {path}, got nothing; unpack it there.")
    text = path.read_text(encoding="utf-8-sig", errors="surrogateescape")
    found = [(place, line.strip()) for place, line in enumerate(text.splitlines(), 1)]
    found = [(place, line) for place, line in found if line]
    if not found:
        raise BadInput(f"Expected {what} in {path}, got an empty file; unpack it again.")
    return found


def refuse_row(path: Path, number: int, line: str, rule: str) -> NoReturn:
    """Refuse a line of a list, which is then damaged or not the publisher's."""
    raise BadInput(
        f"Expected {rule} in {path}, line {number}, got {line!r}; fetch the list again from its "
        "publisher."
    )


def list_absent(wanted: Iterable[str], there: Iterable[str]) -> tuple[str, ...]:
    """Those of ``wanted`` that are not ``there``, in their order, each once."""
    known = set(there)
    return tuple(dict.fromkeys(name for name in wanted if name not in known))
