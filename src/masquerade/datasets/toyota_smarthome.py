"""Toyota Smarthome: 16,115 clips of 18 seniors who live in a flat with seven cameras."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

from masquerade.collection import CountLine, DataSource, Labels, Medium, PublishedCounts
from masquerade.datasets import recording_files
from masquerade.datasets.recording_files import VideoFiles

Split = Literal["train", "validation", "test", "all"]
Protocol = Literal["cross_subject", "cross_view_1", "cross_view_2"]
ACTIVITIES = tuple(
    """Cook.Cleandishes Cook.Cleanup Cook.Cut Cook.Stir Cook.Usestove Cutbread Drink.Frombottle
    Drink.Fromcan Drink.Fromcup Drink.Fromglass Eat.Attable Eat.Snack Enter Getup Laydown Leave
    Makecoffee.Pourgrains Makecoffee.Pourwater Maketea.Boilwater Maketea.Insertteabag
    Pour.Frombottle Pour.Fromcan Pour.Fromkettle Readbook Sitdown Takepills Uselaptop Usetablet
    Usetelephone Walk WatchTV""".split()
)
CROSS_VIEW_ACTIVITIES = tuple(
    """Cutbread Drink.Frombottle Drink.Fromcan Drink.Fromcup Drink.Fromglass Eat.Attable Eat.Snack
    Enter Getup Leave Pour.Frombottle Pour.Fromcan Readbook Sitdown Takepills Uselaptop Usetablet
    Usetelephone Walk""".split()
)
_NAME = re.compile(
    rf"(?P<activity>{'|'.join(map(re.escape, ACTIVITIES))})_p(?P<subject>\d+)"
    r"_r(?P<r>\d+)_(?P<v>[a-z]?\d+)_c(?P<camera>\d+)\.mp4"
)
_TRAIN_SUBJECTS = frozenset([3, 4, 6, 7, 9, 12, 13, 15, 17, 19, 25])
_TRAIN_CAMERAS = {"cross_view_1": frozenset([1]), "cross_view_2": frozenset([1, 3, 4, 6, 7])}
_VALIDATION_CAMERA, _TEST_CAMERA = 5, 2


@dataclass(frozen=True, kw_only=True)
class ToyotaSmarthome(VideoFiles):
    """The trimmed clips of Toyota Smarthome [das2019].

    ::

        root/
          mp4/Cook.Cleandishes_p02_r00_v02_c03.mp4       or right below the root

    A name tells the activity, the person (``p``) and the camera (``c``). Protocols:
    ``cross_subject`` trains on 11 people and tests on the other 7, all 31 activities;
    ``cross_view_1`` trains on camera 1, ``cross_view_2`` on cameras 1, 3, 4, 6 and 7; both
    validate on camera 5 and test on camera 2, and keep only the 19 activities that these see.

    Not certain: people, cameras and the 19 activities are taken from the code of the data set's
    skeleton baseline (2s-AGCN for daily living) and two other public readers, which agree; the
    paper could not be checked for them. That code picks the training clips of ``cross_view_2`` by
    the number of the person instead of the camera; this follows the cameras, so numbers reported
    with that code are of another split. What ``r`` and ``v`` in a name count is not described;
    they are attributes of these names. The sizes of the splits are not published.

    Args:
        root: the folder that holds ``mp4``.
        split: that of the command if not given, else train; ``validation`` only for cross-view;
            ``all`` is every clip of the protocol's activities.
        protocol: which people or cameras train.
    """

    ABOUT: ClassVar[DataSource] = DataSource(
        title="Toyota Smarthome: real-world activities of daily living",
        kind=Medium.VIDEOS,
        licence="on request, for research",
        home="https://project.inria.fr/toyotasmarthome/",
        citation="das2019",
    )
    PUBLISHED: ClassVar[PublishedCounts] = {
        "clips": (16_115, "[das2019]"),
        "activities": (31, "[das2019]"),
        "people": (18, "[das2019]"),
        "cameras": (7, "[das2019]"),
    }
    USUAL: ClassVar[str] = "train"
    split: Split | None = None
    protocol: Protocol = "cross_subject"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.part_name not in self.parts:
            raise ValueError(
                "Expected split train, test or all for protocol='cross_subject', got "
                "split='validation'; hold out some of the people who train."
            )

    @property
    def parts(self) -> tuple[str, ...]:
        """Two by people, three by cameras, and all."""
        is_by_people = self.protocol == "cross_subject"
        return tuple(each for each in super().parts if not is_by_people or each != "validation")

    @cached_property
    def base_folder(self) -> Path:
        """Where the clips lie."""
        return recording_files.find_root(
            self.root,
            ("mp4",),
            lambda place: any(place.glob("*_p*_r*_c*.mp4")),
            what="clips of Toyota Smarthome (Activity_p00_r00_v00_c00.mp4)",
            layout="give the folder that holds mp4",
        )

    @property
    def activities(self) -> tuple[str, ...]:
        """The 31 activities, or the 19 of the cross-view protocols."""
        return ACTIVITIES if self.protocol == "cross_subject" else CROSS_VIEW_ACTIVITIES

    def check(self) -> tuple[CountLine, ...]:
        """Count the clips on disk, who and what is in them, and both parts of the protocol."""
        every = self._on_disk
        activities = {match["activity"] for match in every}
        cameras = {int(match["camera"]) for match in every}
        no_camera = [f"c{each:02}" for each in range(1, 8) if each not in cameras]
        found = [self._find_part(match) for match in every if match["activity"] in self.activities]
        parts = [part for part in self.parts if part != "all"]
        return (
            self._count_line("clips", len(every)),
            self._count_line(
                "activities", len(activities), recording_files.list_absent(ACTIVITIES, activities)
            ),
            self._count_line("people", len({int(match["subject"]) for match in every})),
            self._count_line("cameras", len(cameras), no_camera),
            *(self._count_line(f"{self.protocol}, {part}", found.count(part)) for part in parts),
        )

    @cached_property
    def _on_disk(self) -> list[re.Match[str]]:
        rule = "Activity_p00_r00_v00_c00.mp4 with one of the 31 activities"
        return recording_files.match_file_names(self.base_folder, "*.mp4", _NAME, rule=rule)

    def _find(self) -> Sequence[Labels]:
        return [
            Labels(
                name=match.string,
                subject=f"p{match['subject']}",
                activity=match["activity"],
                view=f"c{match['camera']}",
                attributes={"r": match["r"], "v": match["v"]},
            )
            for match in self._on_disk
            if match["activity"] in self.activities
            and self.part_name in ("all", self._find_part(match))
        ]

    def _find_part(self, match: re.Match[str]) -> str:
        """The split of a clip; "none" for cameras that a protocol leaves out."""
        if self.protocol == "cross_subject":
            return "train" if int(match["subject"]) in _TRAIN_SUBJECTS else "test"
        camera = int(match["camera"])
        if camera in _TRAIN_CAMERAS[self.protocol]:
            return "train"
        return {_VALIDATION_CAMERA: "validation", _TEST_CAMERA: "test"}.get(camera, "none")
