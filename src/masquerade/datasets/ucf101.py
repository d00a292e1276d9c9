"""UCF101: 13,320 web videos of 101 kinds of action."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from masquerade.collection import CountLine, DataSource, Labels, Medium, PublishedCounts
from masquerade.datasets import recording_files
from masquerade.datasets.recording_files import ListedVideos
from masquerade.errors import BadInput

_NAME = re.compile(r"v_(?P<activity>\w+)_g(?P<group>\d+)_c(?P<clip>\d+)\.avi")
_LAYOUT = "give the folder that holds UCF-101 and ucfTrainTestlist"
# The paper names the lists; how many lines each has is what TensorFlow Datasets counted in them.
_SIZES = {1: (9537, 3783), 2: (9586, 3734), 3: (9624, 3696)}
_LIST_SOURCE = "the official lists, as counted by TensorFlow Datasets (ucf101 2.0.0)"


@dataclass(frozen=True, kw_only=True)
class UCF101(ListedVideos):
    """UCF101 with its three official folds [soomro2012].

    ::

        root/
          UCF-101/                       from UCF101.rar; or its folders right below the root
            ApplyEyeMakeup/v_ApplyEyeMakeup_g01_c01.avi
          ucfTrainTestlist/              from UCF101TrainTestSplits-RecognitionTask.zip; or its
            classInd.txt                 files right below the root
            trainlist01.txt              one "ApplyEyeMakeup/v_..._g08_c01.avi 1" a line
            testlist01.txt               the same without the number

    The clips of a group (``g01`` to ``g25`` of each class) were cut from videos that share
    something, such as the actor or the background. It is no name of a person: the same group of
    two classes need not show the same people, and one group can show several. So a recording has
    no ``subject`` here and its group is an attribute. The official folds keep groups together.

    Not certain: the page of the data set states no licence. Names are found whatever their
    letter case, since copies differ in ``HandstandPushups``.

    Args:
        root: the folder that holds both.
        split: that of the command if not given, else train; ``all`` is every video on disk, listed
            or not.
        fold: of the official three.
    """

    ABOUT: ClassVar[DataSource] = DataSource(
        title="UCF101: a dataset of 101 human actions classes from videos in the wild",
        kind=Medium.VIDEOS,
        licence="not stated",
        home="https://www.crcv.ucf.edu/data/UCF101.php",
        citation="soomro2012",
    )
    PUBLISHED: ClassVar[PublishedCounts] = {
        "videos": (13_320, "[soomro2012]"),
        "classes": (101, "[soomro2012]"),
    } | {
        f"fold {fold}, {part}": (size, _LIST_SOURCE)
        for fold, sizes in _SIZES.items()
        for part, size in zip(("train", "test"), sizes, strict=True)
    }

    @cached_property
    def base_folder(self) -> Path:
        """Where the folders of the classes lie."""
        return recording_files.find_root(
            self.root,
            ("UCF-101", "UCF101"),
            lambda place: any(place.glob("*/v_*.avi")),
            what="the videos of UCF101",
            layout=_LAYOUT,
        )

    @cached_property
    def _split_folder(self) -> Path:
        inner = "UCF101TrainTestSplits-RecognitionTask"
        return recording_files.find_root(
            self.root,
            ("ucfTrainTestlist", f"{inner}/ucfTrainTestlist"),
            lambda place: (place / "classInd.txt").is_file(),
            what="the lists of UCF101 (classInd.txt)",
            layout=_LAYOUT,
        )

    @cached_property
    def activities(self) -> tuple[str, ...]:
        """The classes in the order of ``classInd.txt``."""
        path = self._split_folder / "classInd.txt"
        found: list[str] = []
        for number, line in recording_files.read_list_lines(path, what="the list of classes"):
            words = line.split()
            if len(words) != 2 or words[0] != str(len(found) + 1):
                rule = f"the number {len(found) + 1} and a class"
                recording_files.refuse_row(path, number, line, rule)
            found.append(words[1])
        return tuple(found)

    def find_path(self, index: int) -> Path:
        """Where a recording lies, whether or not it is there."""
        wanted = super().find_path(index)
        if wanted.exists() or not wanted.parent.is_dir():
            return wanted
        name = wanted.name.lower()
        return next((each for each in wanted.parent.iterdir() if each.name.lower() == name), wanted)

    def check(self) -> tuple[CountLine, ...]:
        """Count the videos on disk and the lines of all lists."""
        there = self._on_disk()
        listed, folds = self._count_folds()
        known = {name.lower() for name in there}
        lost = dict.fromkeys(name for name in listed if name.lower() not in known)
        videos = self._count_line("videos", len(there), lost)
        return (videos, self._count_line("classes", len(self.activities)), *folds)

    def _on_disk(self) -> list[str]:
        return [path.as_posix() for path in recording_files.list_videos(self.base_folder)]

    def _lists_of(self, fold: int, part: str) -> list[Path]:
        return [self._split_folder / f"{part}list0{fold}.txt"]

    def _read_split_list(self, path: Path) -> list[tuple[str, Labels]]:
        """A list; that of training videos has the number of the class behind each name."""
        found = []
        part = "train" if path.name.startswith("train") else "test"
        for number, line in recording_files.read_list_lines(path, what="a list of videos"):
            name, _, code = line.partition(" ") if part == "train" else (line, "", "")
            known = self._parse_labels(name, f"{path}, line {number}")
            place = str(self.activities.index(known.activity or "") + 1)
            if part == "train" and code.strip() != place:
                recording_files.refuse_row(
                    path, number, line, "a video and the number of its class"
                )
            found.append((part, known))
        return found

    def _parse_labels(self, name: str, where: str) -> Labels:
        folder, _, file = name.partition("/")
        match = _NAME.fullmatch(file)
        if match is None or folder not in self.activities:
            raise BadInput(
                "Expected Class/v_Class_gXX_cYY.avi with a class of classInd.txt, got "
                f"{name!r} ({where}); move other files away, or fetch the list again."
            )
        numbers = {"group": int(match["group"]), "clip": int(match["clip"])}
        return Labels(name=name, activity=folder, attributes=numbers)
