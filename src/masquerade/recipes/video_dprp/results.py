"""What Video-DPRP's rows came out as, and on what they were measured."""

from __future__ import annotations

from dataclasses import dataclass

from masquerade.mechanism import Shape
from masquerade.recipes.verdict import Runs
from masquerade.recipes.video_dprp.promises import RowPromise
from masquerade.recipes.video_dprp.rows import Spec
from masquerade.scores import Attacked


@dataclass(frozen=True, kw_only=True)
class LooksTold:
    """What attackers tell of the people in a release.

    Args:
        attacks: of the one who has learned from raw recordings, and of the one who adapts.
    """

    attacks: tuple[Attacked, ...]

    @property
    def strongest(self) -> Attacked:
        """The attack of the highest headline."""
        return max(self.attacks, key=lambda one: one.published[0].value)


@dataclass(frozen=True, kw_only=True)
class ResultRow:
    """One row, measured.

    Args:
        spec: what it is.
        promise: what holds.
        raw: on the test recordings as they are (protocol 1); None where nothing was measured.
        released: on released test recordings (protocol 2), a part of them in each run.
        changed: share of the released recordings' numbers that the release changed.
        missing: why it could not be measured.
        looks: what attackers tell of the people in the release; None where nothing is released.
    """

    spec: Spec
    promise: RowPromise
    raw: Runs | None = None
    released: Runs | None = None
    changed: float | None = None
    missing: str | None = None
    looks: LooksTold | None = None


@dataclass(frozen=True, kw_only=True)
class TimedRow:
    """How long a release of one video takes.

    Args:
        name: of the mechanism.
        seconds: a video.
        paper: the seconds that the paper prints for UCF101, on its own GPU.
    """

    name: str
    seconds: float
    paper: float | None = None


@dataclass(frozen=True, kw_only=True)
class FaceCount:
    """Faces that a detector could see, and those that it found.

    Args:
        visible: with nose and both eyes in sight.
        found: of them.
    """

    visible: int
    found: int


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the numbers were measured on.

    Args:
        name: of the setting.
        shape: of the first training recording, (T, H, W, 3).
        seen: frames that the network sees.
        train: recordings.
        test: recordings.
        classes: activities.
        seeds: runs of each row.
        network: its name.
        part: of the network that was trained.
        course: how, in words.
        epsilons: of the tables.
        delta: beside each.
        left_open: what the paper does not say, and what was taken.
    """

    name: str
    shape: Shape
    seen: int
    train: int
    test: int
    classes: int
    seeds: int
    network: str
    part: str
    course: str
    epsilons: tuple[float, ...]
    delta: float
    left_open: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Measured:
    """All that a run of the recipe found.

    Args:
        rows: of Tables 1 to 4.
        timed: of Table 5.
        timed_shape: of the video that was timed.
        faces: that face_blur found; None where the truth is not known.
        is_gpu: whether that ran on a GPU.
    """

    rows: tuple[ResultRow, ...]
    timed: tuple[TimedRow, ...] = ()
    timed_shape: Shape = ()
    faces: FaceCount | None = None
    is_gpu: bool = False
