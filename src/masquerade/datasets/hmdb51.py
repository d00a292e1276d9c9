"""HMDB51: 6,766 clips of films and web videos of 51 kinds of action."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from masquerade.collection import About, Count, Labels, Medium, PublishedCounts
from masquerade.datasets import recording_files
from masquerade.datasets.recording_files import ListedVideos

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

    ABOUT: ClassVar[About] = About(
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
    def folder(self) -> Path:
        """Where the folders of the classes lie."""
        return recording_files.locate(
            self.root,
            ("hmdb51_org",),
            lambda place: any((place / name).is_dir() for name in ACTIVITIES),
            what="the clips of HMDB51 (a folder a class)",
            layout="unpack hmdb51_org.rar and the .rar of each class in it, and give that folder",
        )

    @cached_property
    def _lists(self) -> Path:
        inner = "testTrainMulti_7030_splits"
        return recording_files.locate(
            self.root,
            (inner, f"test_train_splits/{inner}", "test_train_splits"),
            lambda place: any(place.glob("*_test_split[123].txt")),
            what="the lists of HMDB51 (testTrainMulti_7030_splits)",
            layout="unpack test_train_splits.rar beside the folders of the classes",
        )

    def check(self) -> tuple[Count, ...]:
        """Count the clips on disk and in all lists."""
        there = self._on_disk()
        classes = {name.partition("/")[0] for name in there}
        listed, folds = self._count_folds()
        return (
            self._count("clips", len(there), recording_files.absent(listed, there)),
            self._count("classes", len(classes), recording_files.absent(ACTIVITIES, classes)),
            *folds,
        )

    def _on_disk(self) -> list[str]:
        return [
            f"{activity}/{path.as_posix()}"
            for activity in ACTIVITIES
            for path in recording_files.below(self.folder / activity)
        ]

    def _labels(self, name: str, where: str) -> Labels:
        return labels_of(name)

    def _lists_of(self, fold: int, part: str) -> list[Path]:
        return [self._lists / f"{name}_test_split{fold}.txt" for name in ACTIVITIES]

    def _read(self, path: Path) -> list[tuple[str, Labels]]:
        """The rows of a class; a name may hold spaces."""
        activity = path.name.rpartition("_test_split")[0]
        found = []
        for number, line in recording_files.rows(path, what="a list of clips"):
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
