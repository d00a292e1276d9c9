"""Videos and pictures of your own, one folder a class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

from masquerade.collection import READ_CLASSES, CountLine, DataSource, Labels, Medium
from masquerade.datasets import recording_files
from masquerade.datasets.recording_files import VideoFiles
from masquerade.errors import BadInput

Split = Literal["all", "train", "val", "test"]
_SPLITS = ("train", "val", "test")


@dataclass(frozen=True, kw_only=True)
class Folder(VideoFiles):
    """Any tree of videos, one folder a class; a picture is a video of one frame.

    ::

        root/                root/
          train/               wave/
            wave/a.mp4           a.mp4
            walk/c/d.avi         more/b.png
          test/                walk/
            wave/e.mov           c/d.avi

    Below the folder of a class, folders may nest. If the root holds a folder ``train`` or
    ``test``, then ``train``, ``test`` and ``val`` are the splits and other folders are left
    alone; else there is only ``all``. Hidden files and files of no kind that we know are left
    alone. A class is in ``activities`` if any split has a folder of its name.

    Args:
        root: the folder that holds the classes or the splits.
        split: that of the command if not given, else ``all``, which is every split together.
        classes: the public list, in the order of a model's outputs; if not given the folders'
            names, which are then assumed to be public.
    """

    ABOUT: ClassVar[DataSource] = DataSource(
        title="Videos in folders, one a class",
        kind=Medium.VIDEOS,
        licence="that of your own files",
        home="",
        citation="",
    )
    split: Split | None = None
    classes: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """The splits, if the root holds train and test folders rather than classes."""
        return super().parts if self._split_names else ()

    @property
    def activities(self) -> tuple[str, ...]:
        """The public list; if there is none, the names of all class folders, sorted."""
        places = [self.root / name for name in self._split_names] or [self.root]
        return self.classes or tuple(
            sorted({name for each in places for name in _list_folders(each)})
        )

    @property
    def class_source(self) -> str:
        """The labels themselves, unless a list was given."""
        return "" if self.classes else READ_CLASSES

    def check(self) -> tuple[CountLine, ...]:
        """Count the videos of each class; a class without any is missing."""
        found = Counter(known.activity or "" for known in self.labels)
        empty = recording_files.list_absent(self.activities, found)
        counts = [self._count_line(f"videos of {name}", many) for name, many in found.items()]
        return (
            self._count_line("videos", len(self.labels)),
            self._count_line("classes", len(found), empty),
            *counts,
        )

    @cached_property
    def _split_names(self) -> tuple[str, ...]:
        """The splits that are there; none if the root holds the classes themselves."""
        if not self.root.is_dir():
            got = "a file" if self.root.exists() else "nothing"
            raise BadInput(
                f"Expected a folder of videos at {self.root}, got {got}; give one that holds a "
                "folder for each class."
            )
        found = tuple(name for name in _SPLITS if (self.root / name).is_dir())
        return found if {"train", "test"} & set(found) else ()

    @property
    def _part_folders(self) -> tuple[Path, ...]:
        """The folders of the chosen splits."""
        if self.part_name == "all":
            return tuple(self.root / name for name in self._split_names) or (self.root,)
        if self.part_name not in self._split_names:
            has = ", ".join(self._split_names) or "no splits"
            raise BadInput(
                f"Expected a folder {self.part_name} in {self.root}, got {has}; choose another "
                "split."
            )
        return (self.root / self.part_name,)

    def _find(self) -> Sequence[Labels]:
        found: list[Labels] = []
        for part in self._part_folders:
            for path in recording_files.list_videos(part):
                if len(path.parts) < 2:
                    raise BadInput(
                        f"Expected each video in the folder of its class, got {part / path}; move "
                        "it into one, or give the folder above as root."
                    )
                if self.classes and path.parts[0] not in self.classes:
                    raise BadInput(
                        f"Expected videos of --classes {' '.join(self.classes)}, got "
                        f"{part / path}; add its folder to the list, or move it away."
                    )
                name = (part.relative_to(self.root) / path).as_posix()
                found.append(Labels(name=name, activity=path.parts[0]))
        if not found:
            raise BadInput(
                f"Expected videos in class folders below {self.root}, got none; is this the root?"
            )
        return found


def _list_folders(place: Path) -> list[str]:
    return [path.name for path in place.iterdir() if path.is_dir() and path.name[0] != "."]
