"""What attackers tell of the people in Video-DPRP's releases: cMAP and F1, row by row.

The people are of a world of their own, with many more of them than the tables' tests have, since
intervals are over people. Recordings have the size and length of the tables', and are released as
wholes. What does not depend on a release is made once, such as who has learned from raw ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np

from masquerade import _json
from masquerade.attacks.attack import Case, Recording, silent
from masquerade.collection import Collection
from masquerade.datasets.stage import Stage
from masquerade.io import devices
from masquerade.mechanism import Mechanism, Shape, arrays_of
from masquerade.noise import Noise
from masquerade.recipes import bench
from masquerade.recipes.video_dprp.results import LooksTold
from masquerade.recordings import Video
from masquerade.scores import Attacked

if TYPE_CHECKING:
    from masquerade.attacks.attribute_inference import PreparedAttack
    from masquerade.recipes.video_dprp import VideoDprpTables


_SEED = 3_000  # of a world in which nothing else is measured
_WORLD = {"subjects": 420, "videos": 1_260, "bystanders": 0.0, "seed": _SEED}
_FEW = {"subjects": 60, "videos": 120}
_STEPS, _QUICK_STEPS = 1_000, 100
_ABOUT = "looks"


@dataclass(frozen=True, kw_only=True, eq=False)
class PeopleFilmed(Sequence[Recording]):
    """Films in few arrays, which processes share."""

    frames: np.ndarray
    masks: np.ndarray
    joints: np.ndarray
    labels: Sequence[tuple[str, Mapping[str, Any]]]
    rate_hz: float

    @classmethod
    def of(cls, films: Iterator[Video], count: int, told: bench.Told) -> PeopleFilmed:
        """All of them, read one after the other."""
        held = []
        for number, film in enumerate(films):
            held.append(film)
            told("filming people", number + 1, count)
        return cls(
            frames=np.stack([film.frames for film in held]),
            masks=np.stack([np.asarray(film.person_mask) for film in held]),
            joints=np.stack([np.asarray(film.joints) for film in held]),
            labels=[(str(film.subject), film.attributes) for film in held],
            rate_hz=held[0].rate_hz,
        )

    def __len__(self) -> int:
        return len(self.frames)

    def __getitem__(self, index: int) -> Video:  # type: ignore[override]  # no slices
        subject, attributes = self.labels[index]
        return Video(
            frames=np.array(self.frames[index]),
            rate_hz=self.rate_hz,
            subject=subject,
            attributes=attributes,
            person_mask=np.array(self.masks[index]),
            is_decoded=False,
            joints=np.array(self.joints[index]),
        )

    def __iter__(self) -> Iterator[Recording]:
        return (self[index] for index in range(len(self)))


@dataclass(frozen=True, kw_only=True, eq=False)
class BothSides:
    """Both sides of the attack before anything is released."""

    known: PeopleFilmed
    raw: PeopleFilmed

    @classmethod
    def of(cls, plan: VideoDprpTables, shape: Shape, told: bench.Told) -> BothSides:
        """People of a world of their own, filmed like the tables'."""
        length, height, width, _ = shape
        sizes = {"frames": length, "height": height, "width": width}
        world: dict[str, Any] = _WORLD | (_FEW if plan.quick else {}) | sizes
        parts = []
        for split in ("public", "train"):
            stage = Stage(**world, split=split)
            films = stage.drawn(len(stage), num_processes=plan.processes)
            parts.append(PeopleFilmed.of(films, len(stage), told))
        return cls(known=parts[0], raw=parts[1])


def told_of(
    plan: VideoDprpTables,
    data: Collection[Any],
    mechanisms: Sequence[Mechanism],
    shape: Shape,
    *,
    journal: bench.Journal,
    told: bench.Told,
) -> dict[str, LooksTold]:
    """By mechanism, what both attackers tell; nothing where the data set is not Stage.

    Rows of other data sets would need labels of their people.
    """
    if not isinstance(data, Stage) or not plan.looks:
        return {}
    named = {_name(each): each for each in mechanisms}
    missing = [name for name in named if name not in journal.held]
    if missing:
        sides = BothSides.of(plan, shape, told)
        ready = _prepared(plan, sides, told)
        calls = (
            joblib.delayed(_attacked)(ready, sides, named[name], plan.device) for name in missing
        )
        for done, found in enumerate(bench.together(calls, jobs=plan.processes)):
            journal.note(missing[done], found)
            told("telling people's looks", done + 1, len(missing))
    return {
        repr(each): LooksTold(
            attacks=tuple(_json.decode(Attacked, one) for one in journal.held[name])
        )
        for name, each in named.items()
    }


def _name(mechanism: Mechanism) -> str:
    return f"{_ABOUT}: {mechanism!r}"


def _prepared(plan: VideoDprpTables, sides: BothSides, told: bench.Told) -> PreparedAttack:
    from masquerade.attacks.attribute_inference import AttributeInference  # torch: not for flags

    attack = AttributeInference(steps=_QUICK_STEPS if plan.quick else _STEPS)
    case = Case(known=sides.known, targets=sides.raw, raw=sides.raw)
    with devices.on(plan.device):
        return attack.prepared(case, told=told)


def _attacked(
    ready: PreparedAttack, sides: BothSides, mechanism: Mechanism, where: str
) -> list[dict[str, Any]]:
    """One mechanism, in a process of its own."""
    release = partial(_released, mechanism)
    targets = [release(film) for film in sides.raw]
    case = Case(known=sides.known, targets=targets, raw=sides.raw, release=release)
    with devices.on(where):
        return [_json.encode(each) for each in ready.against(case, told=silent)]


def _released(mechanism: Mechanism, film: Recording) -> Recording:
    assert isinstance(film, Video)  # of Stage
    with devices.on("cpu"):  # processes that learn on a GPU release beside it
        [frames] = arrays_of(mechanism.apply(film, Noise()))
    return replace(film, frames=frames)
