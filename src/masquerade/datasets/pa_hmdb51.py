"""PA-HMDB51: 515 clips of HMDB51 with five private attributes for each frame."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

from masquerade.collection import About, Count, Labels, Medium, PublishedCounts
from masquerade.datasets import recording_files
from masquerade.datasets.hmdb51 import ACTIVITIES, HMDB51, labels_of
from masquerade.datasets.recording_files import VideoFiles
from masquerade.errors import BadInput

Split = Literal["train", "test"]
# The number of a frame's label is the place of its meaning. Where a frame shows people of several
# kinds, the publisher's viewer gives the numbers that follow those of one kind.
MEANINGS: Mapping[str, tuple[str, ...]] = {
    "skin_color": (
        *("not identifiable", "white", "brown or yellow", "black"),
        *("white; brown or yellow", "white; black", "brown or yellow; black"),
        "white; brown or yellow; black",
    ),
    "face": ("invisible", "partly visible", "completely visible"),
    "gender": ("not identifiable", "male", "female", "male; female"),
    "nudity": ("none", "partial", "semi"),
    "relationship": ("not identifiable", "identifiable"),
}
_SEVERAL: Mapping[str, Mapping[tuple[int, ...], int]] = {
    "skin_color": {(1, 2): 4, (1, 3): 5, (2, 3): 6, (1, 2, 3): 7},
    "gender": {(1, 2): 3},
}


@dataclass(frozen=True, kw_only=True)
class PAHMDB51(VideoFiles):
    """PA-HMDB51: who can be told from a clip of HMDB51, frame by frame [wu2020].

    ::

        root/                  as for HMDB51; its lists are not needed
          brush_hair/*.avi
        annotations/           the folder PrivacyAttributes of VITA-Group/PA-HMDB51, or the one
          brush_hair.json      above it
          cartwheel.json

    A file maps each clip to its attributes, and each attribute to stretches ``[first, last,
    value]``, both ends included and counted from 0; a value may be a list if people differ. They
    become one number a frame (``MEANINGS`` says which is what), -1 where no stretch covers the
    frame; the first of several wins, as in the publisher's viewer. Labels of a recording end where
    the last stretch does; those of a `Video` have one number for each frame decoded. Clips in
    ``test`` have the attributes of HMDB51 as well, those in ``train`` have only these.

    As published, all labelled clips are the test set, and all others of HMDB51 train.

    Not certain: some files leave out frames (such as the first), and the last frame labelled need
    not be the last that is decoded.

    Args:
        root: of HMDB51.
        annotations: the folder of the labels.
        split: that of the command if not given, else test, which are the labelled clips.
    """

    ABOUT: ClassVar[About] = About(
        title="PA-HMDB51: privacy attributes of HMDB51",
        kind=Medium.VIDEOS,
        licence="labels: for research that is not commercial; clips: CC BY 4.0",
        home="https://github.com/VITA-Group/PA-HMDB51",
        citation="wu2020",
    )
    CLASSES: ClassVar[tuple[str, ...]] = ACTIVITIES
    PUBLISHED: ClassVar[PublishedCounts] = {
        "files of labels": (51, "[wu2020]: one a class"),
        "labelled clips (test)": (515, "[wu2020]"),
        "labelled clips on disk": (515, "[wu2020]"),
        "other clips on disk (train)": (6766 - 515, "the lists of HMDB51, less [wu2020]"),
    }
    USUAL: ClassVar[str] = "test"
    annotations: Path
    split: Split | None = None

    @property
    def folder(self) -> Path:
        """Where the folders of the classes lie."""
        return self._clips.folder

    def check(self) -> tuple[Count, ...]:
        """Count the labelled clips, and how many of them are on disk."""
        there = {known.name for known in self._clips.labels}
        files = [path.stem for path in self._label_folder.glob("*.json")]
        lost = recording_files.absent(self._labelled, there)
        return (
            self._count("files of labels", len(files), recording_files.absent(ACTIVITIES, files)),
            self._count("labelled clips (test)", len(self._labelled)),
            self._count("labelled clips on disk", len(self._labelled) - len(lost), lost),
            self._count("other clips on disk (train)", len(there - set(self._labelled))),
        )

    @cached_property
    def _clips(self) -> HMDB51:
        return HMDB51(root=self.root, split="all")

    @cached_property
    def _label_folder(self) -> Path:
        return recording_files.locate(
            self.annotations,
            ("PrivacyAttributes",),
            lambda place: any((place / f"{name}.json").is_file() for name in ACTIVITIES),
            what="the labels of PA-HMDB51 (brush_hair.json and others)",
            layout="give the folder PrivacyAttributes of VITA-Group/PA-HMDB51 as annotations",
        )

    @cached_property
    def _labelled(self) -> dict[str, Labels]:
        found: dict[str, Labels] = {}
        for activity in ACTIVITIES:
            path = self._label_folder / f"{activity}.json"
            for file, said in _read(path).items() if path.is_file() else ():
                known = labels_of(f"{activity}/{file}")
                attributes = {**known.attributes, **_by_frame(path, file, said)}
                found[known.name] = replace(known, attributes=attributes)
        return found

    def _find(self) -> Sequence[Labels]:
        if self.part_name == "test":
            _ = self._clips.folder  # a wrong root is told at once
            return tuple(self._labelled.values())
        return [known for known in self._clips.labels if known.name not in self._labelled]


def _read(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        raise BadInput(
            f"Expected JSON in {path}, got a mistake in line {error.lineno} ({error.msg}); fetch "
            "the labels again."
        ) from error
    except UnicodeDecodeError as error:
        raise BadInput(f"Expected JSON in {path}, got no text; fetch the labels again.") from error
    if not isinstance(found, dict):
        raise BadInput(
            f"Expected a clip and its labels in {path}, got a {type(found).__name__}; fetch the "
            "labels again."
        )
    return found


def _by_frame(path: Path, file: str, said: Any) -> dict[str, tuple[int, ...]]:
    """One number a frame for each attribute, as many as the last stretch reaches to."""
    stretches = {
        name: [_stretch(path, file, name, each) for each in _listed(path, file, name, said)]
        for name in MEANINGS
    }
    length = max((last + 1 for each in stretches.values() for _, last, _ in each), default=0)
    found = {}
    for name, each in stretches.items():
        values = [-1] * length
        for first, last, value in reversed(each):  # so that the first of several stays
            values[first : last + 1] = [value] * max(last + 1 - first, 0)
        found[name] = tuple(values)
    return found


def _listed(path: Path, file: str, name: str, said: Any) -> list[Any]:
    each = said.get(name) if isinstance(said, dict) else None
    if not isinstance(each, list):
        raise BadInput(
            f"Expected a list for {name} of {file!r} in {path}, got {each!r}; fetch the labels "
            "again."
        )
    return each


def _stretch(path: Path, file: str, name: str, said: Any) -> tuple[int, int, int]:
    """The first and the last frame of a stretch and its value, checked."""
    if isinstance(said, list) and len(said) == 3:
        first, last, value = said
        if isinstance(value, list) and all(isinstance(each, int) for each in value):
            kinds = tuple(sorted(set(value) - {0}))  # one who cannot be told beside one who can
            value = kinds[0] if len(kinds) == 1 else _SEVERAL.get(name, {}).get(kinds)
        numbers = (first, last, value)
        if all(type(each) is int and each >= 0 for each in numbers) and value < len(MEANINGS[name]):
            return first, last, value
    raise BadInput(
        f"Expected [first frame, last frame, value below {len(MEANINGS[name])}] for {name} of "
        f"{file!r} in {path}, got {said!r}; fetch the labels again."
    )
