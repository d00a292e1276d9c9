"""NTU RGB+D: 56,880 (or 114,480) filmed actions of 40 (or 106) people, from three sides."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from masquerade.collection import CountLine, DataSource, Labels, Medium, PublishedCounts
from masquerade.datasets import recording_files
from masquerade.datasets.recording_files import Split, VideoFiles
from masquerade.errors import BadInput

Protocol = Literal["cross_subject", "cross_view", "cross_setup"]
Actions = Literal[60, 120]
# A001 to A060 [shahroudy2016], then what 120 added [liu2020]; spelt as by the publisher.
_ACTIONS = """
drink water; eat meal/snack; brushing teeth; brushing hair; drop; pickup; throw; sitting down;
standing up (from sitting position); clapping; reading; writing; tear up paper; wear jacket; take
off jacket; wear a shoe; take off a shoe; wear on glasses; take off glasses; put on a hat/cap; take
off a hat/cap; cheer up; hand waving; kicking something; reach into pocket; hopping (one foot
jumping); jump up; make a phone call/answer phone; playing with phone/tablet; typing on a keyboard;
pointing to something with finger; taking a selfie; check time (from watch); rub two hands
together; nod head/bow; shake head; wipe face; salute; put the palms together; cross hands in front
(say stop); sneeze/cough; staggering; falling; touch head (headache); touch chest
(stomachache/heart pain); touch back (backache); touch neck (neckache); nausea or vomiting
condition; use a fan (with hand or paper)/feeling warm; punching/slapping other person; kicking
other person; pushing other person; pat on back of other person; point finger at the other person;
hugging other person; giving something to other person; touch other person's pocket; handshaking;
walking towards each other; walking apart from each other; put on headphone; take off headphone;
shoot at the basket; bounce ball; tennis bat swing; juggling table tennis balls; hush (quite);
flick hair; thumb up; thumb down; make ok sign; make victory sign; staple book; counting money;
cutting nails; cutting paper (using scissors); snapping fingers; open bottle; sniff (smell); squat
down; toss a coin; fold paper; ball up paper; play magic cube; apply cream on face; apply cream on
hand back; put on bag; take off bag; put something into a bag; take something out of a bag; open a
box; move heavy objects; shake fist; throw up cap/hat; hands up (both hands); cross arms; arm
circles; arm swings; running on the spot; butt kicks (kick backward); cross toe touch; side kick;
yawn; stretch oneself; blow nose; hit other person with something; wield knife towards other
person; knock over other person (hit with body); grab other person's stuff; shoot at other person
with a gun; step on foot; high-five; cheers and drink; carry something with other person; take a
photo of other person; follow other person; whisper in other person's ear; exchange things with
other person; support somebody with hand; finger-guessing game (playing rock-paper-scissors)
"""
ACTIONS = tuple(" ".join(name.split()) for name in _ACTIONS.split(";"))
_SAMPLE = re.compile(r"S\d{3}C\d{3}P\d{3}R\d{3}A\d{3}")
_VIDEO = re.compile(
    r"(?P<sample>S(?P<setup>\d{3})C(?P<camera>\d{3})P(?P<person>\d{3})"
    r"R(?P<replication>\d{3})A(?P<action>(?!000)(?:0\d\d|1[01]\d|120)))_rgb\.avi"
)
_SUBJECTS = {60: frozenset([1, 2, 4, 5, 8, 9, *range(13, 20), 25, 27, 28, 31, 34, 35, 38])}
_SUBJECTS[120] = _SUBJECTS[60] | {45, 46, 47, 49, 50, *range(52, 60), 70, 74, 78}
_SUBJECTS[120] |= {*range(80, 87), 89, *range(91, 96), 97, 98, 100, 103}
_JOINTS = 25
_PARTS = ("train", "test")
_MISSING_LABEL = "samples listed as without skeleton"
_SIZES = {60: 56_880, 120: 114_480}
_SPLITS = {"cross_subject": (40_320, 16_560), "cross_view": (37_920, 18_960)}
_MISSING = {
    60: ("NTU_RGBD_samples_with_missing_skeletons.txt", 302),
    120: ("NTU_RGBD120_samples_with_missing_skeletons.txt", 535),
}


@dataclass(frozen=True, kw_only=True)
class NtuRgbd(VideoFiles):
    """The colour videos of NTU RGB+D 60 [shahroudy2016] or 120 [liu2020].

    ::

        root/
          nturgb+d_rgb/S001C001P001R001A001_rgb.avi      or right below the root
          nturgb+d_skeletons/S001C001P001R001A001.skeleton       if you have them
          NTU_RGBD_samples_with_missing_skeletons.txt            for ``needs_skeleton``
          NTU_RGBD120_samples_with_missing_skeletons.txt         the same for 120

    A name tells the setup (height and distance of the cameras), the camera, the performer, the
    replication and the action. ``subject`` is the performer; actions 50 to 60 and 106 to 120 show
    two people, of whom only one is named. Where the skeleton is there, ``joints`` are the 25 of
    the Kinect in pixels of the video and ``joints_3d`` in metres before the camera, of the body
    that is seen first; NaN where it is lost. In a skeleton that is shorter than its video, the
    last frames are NaN.

    Protocols: ``cross_subject`` trains on 20 (53) people; ``cross_view`` (60 only) trains on
    cameras 2 and 3 and tests on 1; ``cross_setup`` (120 only) trains on even setups.

    Not certain: that each take holds all 60 of its actions follows from the published numbers
    (56,880 is 60 times 948) and is not stated. The sizes of the splits of 60 are those that the
    literature gives; none of 120 could be found. The people who train are as several public
    readers have them.

    Args:
        root: the folder that holds these.
        actions: 60 leaves out what 120 added: setups 18 to 32.
        split: that of the command if not given, else train; ``all`` is every video on disk.
        protocol: which people, cameras or setups train.
        needs_skeleton: leave out the samples that the publisher lists as without skeleton.
    """

    ABOUT: ClassVar[DataSource] = DataSource(
        title="NTU RGB+D and NTU RGB+D 120 action recognition datasets",
        kind=Medium.VIDEOS,
        licence="on request, for academic research that is not commercial",
        home="https://rose1.ntu.edu.sg/dataset/actionRecognition/",
        citation="shahroudy2016",
    )
    USUAL: ClassVar[str] = "train"
    actions: Actions = 60
    split: Split | None = None
    protocol: Protocol = "cross_subject"
    needs_skeleton: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        unfit = {60: "cross_setup", 120: "cross_view"}[self.actions]
        if self.protocol == unfit:
            raise ValueError(
                f"Expected a protocol of NTU RGB+D {self.actions}, got protocol={unfit!r}, which "
                f"is one of {180 - self.actions}; choose another, or actions={180 - self.actions}."
            )

    @cached_property
    def base_folder(self) -> Path:
        """Where the videos lie."""
        return recording_files.find_root(
            self.root,
            ("nturgb+d_rgb",),
            lambda place: any(place.glob("S*_rgb.avi")),
            what="videos of NTU RGB+D (S...A..._rgb.avi)",
            layout="give the folder that holds nturgb+d_rgb",
        )

    @property
    def activities(self) -> tuple[str, ...]:
        """The names of the actions, A001 first."""
        return ACTIONS[: self.actions]

    @property
    def publisher_counts(self) -> PublishedCounts:
        """The size of the chosen set and its splits, and of the list of missing skeletons."""
        source = "[shahroudy2016]" if self.actions == 60 else "[liu2020]"
        found = {
            "videos": (_SIZES[self.actions], source),
            _MISSING_LABEL: (_MISSING[self.actions][1], "the page of the publisher's code"),
        }
        if self.actions == 60:
            sizes = zip(_PARTS, _SPLITS[self.protocol], strict=True)
            found |= {f"{self.protocol}, {part}": (size, source) for part, size in sizes}
        return found

    def check(self) -> tuple[CountLine, ...]:
        """Count the videos on disk, those of both splits, and the list of missing skeletons."""
        every = [match["sample"] for match in self._on_disk]
        takes = dict.fromkeys(name[:16] for name in every)
        whole = [f"{take}A{a:03}" for take in takes for a in _actions_of(take)]
        lost = recording_files.list_absent(whole, every)
        found = [self._find_part(match) for match in self._on_disk]
        name, _ = _MISSING[self.actions]
        is_there = (self.root / name).is_file()
        listed = len(self._without_skeleton) if is_there else 0
        return (
            self._count_line("videos", len(every), (f"{each}_rgb.avi" for each in lost)),
            *(self._count_line(f"{self.protocol}, {part}", found.count(part)) for part in _PARTS),
            self._count_line(_MISSING_LABEL, listed, () if is_there else (name,)),
        )

    @cached_property
    def _on_disk(self) -> list[re.Match[str]]:
        """The videos of the chosen set."""
        rule = "SsssCcccPpppRrrrAaaa_rgb.avi"
        found = recording_files.match_file_names(self.base_folder, "*.avi", _VIDEO, rule=rule)
        return [each for each in found if self.actions == 120 or int(each["setup"]) <= 17]

    @cached_property
    def _without_skeleton(self) -> frozenset[str]:
        """The publisher's list: names, below some lines that say what they are."""
        path = self.root / _MISSING[self.actions][0]
        found: list[str] = []
        for number, line in recording_files.read_list_lines(
            path, what="the list of missing skeletons"
        ):
            if _SAMPLE.fullmatch(line):
                found.append(line)
            elif found:
                recording_files.refuse_row(
                    path, number, line, "a sample such as S001C002P005R002A008"
                )
        if not found:
            raise BadInput(f"Expected samples in {path}, got none; fetch the list again.")
        return frozenset(found)

    def _find(self) -> Sequence[Labels]:
        return [
            Labels(
                name=match.string,
                subject=f"P{match['person']}",
                activity=ACTIONS[int(match["action"]) - 1],
                view=f"C{match['camera']}",
                attributes={name: int(match[name]) for name in ("setup", "replication")},
            )
            for match in self._on_disk
            if self.part_name in ("all", self._find_part(match))
            and not (self.needs_skeleton and match["sample"] in self._without_skeleton)
        ]

    def _find_part(self, match: re.Match[str]) -> str:
        is_train = {
            "cross_subject": int(match["person"]) in _SUBJECTS[self.actions],
            "cross_view": match["camera"] != "001",
            "cross_setup": int(match["setup"]) % 2 == 0,
        }
        return "train" if is_train[self.protocol] else "test"

    def _find_joints(
        self, index: int, start: int, stop: int
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        sample = self.labels[index].name.removesuffix("_rgb.avi")
        path = self.root / "nturgb+d_skeletons" / f"{sample}.skeleton"
        if not path.is_file():
            return None, None
        values = read_skeleton(path)  # (T, J, 5)
        out = np.full((stop - start, *values.shape[1:]), np.nan)
        there = values[start:stop]
        out[: len(there)] = there
        return out[..., :2], out[..., 2:]


def read_skeleton(path: Path) -> np.ndarray:
    """The 25 joints of the body that is seen first in a ``.skeleton`` file.

    A file has the number of frames; for each frame the number of bodies; for each body a line
    with its tracking number and nine more, the number of joints, and a line for each joint: x, y,
    z, two for the depth picture, two for the colour picture, four of its turn, and a state.

    Returns:
        (T, 25, 5): x and y in pixels of the colour video, then x, y, z in metres; NaN where the
        body is not tracked.

    Raises:
        BadInput: if a line is not what it should be; names the file and the line.
    """
    lines = iter(recording_files.read_list_lines(path, what="a skeleton"))

    def take_lines(many: int, what: str) -> list[str]:
        number, line = next(lines, (0, ""))
        if number == 0:
            raise BadInput(f"Expected {what} in {path}, got the end of the file; copy it again.")
        words = line.split()
        is_right = str.isdecimal if many == 1 else _is_number  # alone in a line, it is a count
        if len(words) != many or not all(map(is_right, words)):
            recording_files.refuse_row(path, number, line, what)
        return words

    found, first = [], ""
    for _ in range(int(take_lines(1, "the number of frames")[0])):
        shown = np.full((_JOINTS, 5), np.nan)
        for _ in range(int(take_lines(1, "the number of bodies")[0])):
            body = take_lines(10, "the ten numbers of a body")[
                0
            ]  # a float would mix up such numbers
            take_lines(1, "the number of joints")
            joints = [take_lines(12, "the twelve numbers of a joint") for _ in range(_JOINTS)]
            first = first or body
            if body == first:
                shown = np.asarray(joints, float)[:, [5, 6, 0, 1, 2]]
        found.append(shown)
    values = np.stack(found) if found else np.full((0, _JOINTS, 5), np.nan)
    return np.where(np.isfinite(values), values, np.nan)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _actions_of(take: str) -> range:
    return range(1, 61) if int(take[1:4]) <= 17 else range(61, 121)
