"""HMDB51: 6,766 clips of films and web videos of 51 kinds of action.

PA-HMDB51: 515 clips of HMDB51 with five private attributes for each frame.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

from masquerade.collection import CountLine, DataSource, Labels, Medium, PublishedCounts
from masquerade.datasets import recording_files
from masquerade.datasets.recording_files import ListedVideos, VideoFiles
from masquerade.errors import BadInput

ACTIVITIES = tuple(
    """brush_hair cartwheel catch chew clap climb climb_stairs dive draw_sword dribble drink eat
    fall_floor fencing flic_flac golf handstand hit hug jump kick kick_ball kiss laugh pick pour
    pullup punch push pushup ride_bike ride_horse run shake_hands shoot_ball shoot_bow shoot_gun
    sit situp smile smoke somersault stand swing_baseball sword sword_exercise talk throw turn
    walk wave""".split()
)
_BODY = {"f": "full", "u": "upper", "h": "head", "l": "lower"}
_MOTION = {"cm": "moving", "nm": "still"}
_VIEW = {"fr": "front", "ba": "back", "le": "left", "ri": "right"}
_QUALITY = {"goo": "good", "med": "medium", "bad": "bad"}
_META = re.compile(
    r".*_(?P<body>[fuhl])_(?P<motion>cm|nm)_np(?P<people>\d+)"
    r"_(?P<view>fr|ba|le|ri)_(?P<quality>goo|med|bad)_(?P<clip>\d+)\.avi",
    re.DOTALL,
)
_CODES = {"0": "neither", "1": "train", "2": "test"}


@dataclass(frozen=True, kw_only=True)
class HMDB51(ListedVideos):
    """HMDB51 with its three official folds [kuehne2011].

    ::

        root/
          brush_hair/*.avi               from hmdb51_org.rar, which holds a .rar for each class;
          cartwheel/*.avi                or in a folder hmdb51_org
          testTrainMulti_7030_splits/    from test_train_splits.rar
            brush_hair_test_split1.txt   one "name.avi 1" a line: 1 train, 2 test, 0 neither

    A name ends in labels of the clip, as in ``..._f_cm_np1_fr_med_0.avi``: the visible part of
    the body, whether the camera moves, the number of people, the side it is seen from, and the
    quality. They become ``view`` and attributes; a name without them gives none. Clips of one
    film share the beginning of their name, but who is seen is not published: no ``subject``.

    Not certain: the paper and the page speak of 6,849 clips; the archive and its lists have 6,766.

    Args:
        root: the folder that holds both.
        split: that of the command if not given, else train; ``all`` is every clip on disk, listed
            or not.
        fold: of the official three.
    """

    ABOUT: ClassVar[DataSource] = DataSource(
        title="HMDB51: a large video database for human motion recognition",
        kind=Medium.VIDEOS,
        licence="CC BY 4.0",
        home="https://serre-lab.clps.brown.edu/resource/hmdb-a-large-human-motion-database/",
        citation="kuehne2011",
    )
    CLASSES: ClassVar[tuple[str, ...]] = ACTIVITIES
    PUBLISHED: ClassVar[PublishedCounts] = {
        "clips": (6766, "the lists that come with the archive"),
        "classes": (51, "[kuehne2011]"),
    } | {
        f"fold {fold}, {part}": (size * len(ACTIVITIES), f"[kuehne2011]: {size} of each class")
        for fold in (1, 2, 3)
        for part, size in (("train", 70), ("test", 30))
    }

    @cached_property
    def base_folder(self) -> Path:
        """Where the folders of the classes lie."""
        return recording_files.find_root(
            self.root,
            ("hmdb51_org",),
            lambda place: any((place / name).is_dir() for name in ACTIVITIES),
            what="the clips of HMDB51 (a folder a class)",
            layout="unpack hmdb51_org.rar and the .rar of each class in it, and give that folder",
        )

    @cached_property
    def _split_folder(self) -> Path:
        inner = "testTrainMulti_7030_splits"
        return recording_files.find_root(
            self.root,
            (inner, f"test_train_splits/{inner}", "test_train_splits"),
            lambda place: any(place.glob("*_test_split[123].txt")),
            what="the lists of HMDB51 (testTrainMulti_7030_splits)",
            layout="unpack test_train_splits.rar beside the folders of the classes",
        )

    def check(self) -> tuple[CountLine, ...]:
        """Count the clips on disk and in all lists."""
        there = self._on_disk()
        classes = {name.partition("/")[0] for name in there}
        listed, folds = self._count_folds()
        return (
            self._count_line("clips", len(there), recording_files.list_absent(listed, there)),
            self._count_line(
                "classes", len(classes), recording_files.list_absent(ACTIVITIES, classes)
            ),
            *folds,
        )

    def _on_disk(self) -> list[str]:
        return [
            f"{activity}/{path.as_posix()}"
            for activity in ACTIVITIES
            for path in recording_files.list_videos(self.base_folder / activity)
        ]

    def _parse_labels(self, name: str, where: str) -> Labels:
        return labels_of(name)

    def _lists_of(self, fold: int, part: str) -> list[Path]:
        return [self._split_folder / f"{name}_test_split{fold}.txt" for name in ACTIVITIES]

    def _read_split_list(self, path: Path) -> list[tuple[str, Labels]]:
        """The rows of a class; a name may hold spaces."""
        activity = path.name.rpartition("_test_split")[0]
        found = []
        for number, line in recording_files.read_list_lines(path, what="a list of clips"):
            name, _, code = line.rpartition(" ")
            if not name.strip().lower().endswith(".avi") or code not in _CODES:
                recording_files.refuse_row(path, number, line, "the name of a clip and 0, 1 or 2")
            found.append((_CODES[code], labels_of(f"{activity}/{name.strip()}")))
        return found


def labels_of(name: str) -> Labels:
    """What the name of a clip, ``class/file.avi``, tells.

    Example:
        >>> labels_of("wave/Hello_wave_u_cm_np1_fr_goo_3.avi").view
        'front'
    """
    activity, _, file = name.partition("/")
    match = _META.fullmatch(file)
    if match is None:
        return Labels(name=name, activity=activity)
    return Labels(
        name=name,
        activity=activity,
        view=_VIEW[match["view"]],
        attributes={
            "body": _BODY[match["body"]],
            "camera": _MOTION[match["motion"]],
            "people": int(match["people"]),
            "quality": _QUALITY[match["quality"]],
        },
    )


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
_MERGED_VALUES: Mapping[str, Mapping[tuple[int, ...], int]] = {
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

    ABOUT: ClassVar[DataSource] = DataSource(
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
    def base_folder(self) -> Path:
        """Where the folders of the classes lie."""
        return self._open_clips.base_folder

    def check(self) -> tuple[CountLine, ...]:
        """Count the labelled clips, and how many of them are on disk."""
        there = {known.name for known in self._open_clips.labels}
        files = [path.stem for path in self._label_folder.glob("*.json")]
        lost = recording_files.list_absent(self._clip_labels, there)
        return (
            self._count_line(
                "files of labels", len(files), recording_files.list_absent(ACTIVITIES, files)
            ),
            self._count_line("labelled clips (test)", len(self._clip_labels)),
            self._count_line("labelled clips on disk", len(self._clip_labels) - len(lost), lost),
            self._count_line("other clips on disk (train)", len(there - set(self._clip_labels))),
        )

    @cached_property
    def _open_clips(self) -> HMDB51:
        return HMDB51(root=self.root, split="all")

    @cached_property
    def _label_folder(self) -> Path:
        return recording_files.find_root(
            self.annotations,
            ("PrivacyAttributes",),
            lambda place: any((place / f"{name}.json").is_file() for name in ACTIVITIES),
            what="the labels of PA-HMDB51 (brush_hair.json and others)",
            layout="give the folder PrivacyAttributes of VITA-Group/PA-HMDB51 as annotations",
        )

    @cached_property
    def _clip_labels(self) -> dict[str, Labels]:
        found: dict[str, Labels] = {}
        for activity in ACTIVITIES:
            path = self._label_folder / f"{activity}.json"
            for file, said in _read_label_file(path).items() if path.is_file() else ():
                known = labels_of(f"{activity}/{file}")
                attributes = {**known.attributes, **_by_frame(path, file, said)}
                found[known.name] = replace(known, attributes=attributes)
        return found

    def _find(self) -> Sequence[Labels]:
        if self.part_name == "test":
            _ = self._open_clips.base_folder  # a wrong root is told at once
            return tuple(self._clip_labels.values())
        return [known for known in self._open_clips.labels if known.name not in self._clip_labels]


def _read_label_file(path: Path) -> Mapping[str, Any]:
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
        name: [
            _parse_stretch(path, file, name, each) for each in _check_list(path, file, name, said)
        ]
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


def _check_list(path: Path, file: str, name: str, said: Any) -> list[Any]:
    each = said.get(name) if isinstance(said, dict) else None
    if not isinstance(each, list):
        raise BadInput(
            f"Expected a list for {name} of {file!r} in {path}, got {each!r}; fetch the labels "
            "again."
        )
    return each


def _parse_stretch(path: Path, file: str, name: str, said: Any) -> tuple[int, int, int]:
    """The first and the last frame of a stretch and its value, checked."""
    if isinstance(said, list) and len(said) == 3:
        first, last, value = said
        if isinstance(value, list) and all(isinstance(each, int) for each in value):
            kinds = tuple(sorted(set(value) - {0}))  # one who cannot be told beside one who can
            value = kinds[0] if len(kinds) == 1 else _MERGED_VALUES.get(name, {}).get(kinds)
        numbers = (first, last, value)
        if all(type(each) is int and each >= 0 for each in numbers) and value < len(MEANINGS[name]):
            return first, last, value
    raise BadInput(
        f"Expected [first frame, last frame, value below {len(MEANINGS[name])}] for {name} of "
        f"{file!r} in {path}, got {said!r}; fetch the labels again."
    )
