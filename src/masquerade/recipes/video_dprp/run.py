"""Measure Video-DPRP's rows: release recordings, learn from what was released, test on both.

Learning from a release is post-processing, so it gets no further noise. Each recording is released
once a mechanism, as a whole; segments are cut from the release. The trunk is frozen and runs once.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np

from masquerade._torch import torch
from masquerade.collection import Collection
from masquerade.compute import device
from masquerade.errors import BadInput, MissingExtra
from masquerade.mechanism import Heuristic, Mechanism, Shape, Streams
from masquerade.nets import mvit
from masquerade.noise import Noise
from masquerade.recipes import bench, seen
from masquerade.recipes.video_dprp import promises
from masquerade.recipes.video_dprp.promises import RowPromise
from masquerade.recipes.video_dprp.rows import SEGMENTS, ResultRow, Score, Spec
from masquerade.recordings import Video
from masquerade.train.plan import Plan
from masquerade.train.rows import Rows

if TYPE_CHECKING:
    from masquerade.recipes.video_dprp import VideoDprpTables

_CHUNK, _CHUNK_BYTES = 12, 1 << 26  # the most that a process treats before it reports
_MOST_BYTES = 2 << 30  # of recordings that are kept; what is beyond is read again


@dataclass(frozen=True, kw_only=True, eq=False)
class Kept:
    """Some recordings of a data set, kept in memory once they were read, up to a limit.

    Args:
        origin: the data set.
        numbers: which of its recordings.
        held: those that were read.
    """

    origin: Collection[Any]
    numbers: tuple[int, ...]
    held: dict[int, Video] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> Video:
        if index in self.held:
            return self.held[index]
        video = self.origin[self.numbers[index]]
        if not isinstance(video, Video):
            raise BadInput(f"Expected videos, got {type(video).__name__}s.")
        video = replace(video, person_mask=None, joints=None, joints_3d=None)
        if sum(one.frames.nbytes for one in (*self.held.values(), video)) <= _MOST_BYTES:
            self.held[index] = video
        return video


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """What the frozen trunk gives of recordings, released or not.

    Args:
        rows: a row a segment, one recording after the other.
        shapes: of the recordings.
        changed: share of their numbers that the release changed; empty without one.
    """

    rows: Rows
    shapes: frozenset[Shape]
    changed: tuple[float, ...]


def see(
    plan: VideoDprpTables,
    films: Kept,
    mechanism: Mechanism | None,
    *,
    segments: int,
    told: bench.Told = bench.quiet,
) -> Seen:
    """Release every recording once, and run the trunk over its segments."""
    what = "reading" if mechanism is None else f"releasing by {mechanism.name}"
    size = max(1, min(_CHUNK, _CHUNK_BYTES // films[0].frames.nbytes))
    chunks = (
        [films[index] for index in range(start, min(start + size, len(films)))]
        for start in range(0, len(films), size)
    )
    classes, found = films.origin.activities, []
    calls = (joblib.delayed(_see)(plan, some, classes, mechanism, segments) for some in chunks)
    for part in bench.together(calls, jobs=plan.processes):
        found.append(part)
        told(what, sum(one.rows.units for one in found), len(films))
    return Seen(
        rows=seen.joined([part.rows for part in found]),
        shapes=frozenset[Shape]().union(*(part.shapes for part in found)),
        changed=tuple(share for part in found for share in part.changed),
    )


def _see(
    plan: VideoDprpTables,
    films: list[Video],
    classes: tuple[str, ...],
    mechanism: Mechanism | None,
    segments: int,
) -> Seen:
    """The same for a few, in a process of its own; noise is live there as everywhere."""
    trunk = _frozen(plan, len(classes))
    method = plan.method(Spec(table=0, name="", segments=segments))
    changed: tuple[float, ...] = ()
    with device.on(plan.device):
        shown = films
        if mechanism is not None:
            noise = Noise()
            shown = [_released(film, mechanism, noise) for film in films]
            pairs = zip(shown, films, strict=True)
            changed = tuple(float(np.mean(new.frames != old.frames)) for new, old in pairs)
        some = seen.InMemory(films=shown, classes=classes)
        rows = seen.rows_of(some, method, plan.begun, trunk, device=plan.device)
    return Seen(rows=rows, shapes=frozenset(film.frames.shape for film in films), changed=changed)


def _released(film: Video, mechanism: Mechanism, noise: Noise) -> Video:
    """With its label, which is public here."""
    made = mechanism.apply(film, noise)
    if not isinstance(made, Video):
        raise TypeError(f"Expected a video, got {type(made).__name__}.")
    return replace(made, activity=film.activity)


@lru_cache(maxsize=1)
def _frozen(plan: VideoDprpTables, classes: int) -> Any:
    return mvit.split(copy.deepcopy(_begun(plan, classes, 0)), plan.part)[0]


@lru_cache(maxsize=4)
def _begun(plan: VideoDprpTables, classes: int, seed: int) -> Any:
    """A network as it is before it learns; to be copied."""
    return plan.begun.make(classes, seed=seed).to(plan.device)


@lru_cache(maxsize=16)
def _steps(plan: VideoDprpTables, epsilon: float, units: int) -> Plan:
    """Steps and noise: the same for every method here, since each has a unit's norm bounded."""
    found: Plan = plan.method(Spec(table=0, name="", epsilon=epsilon)).plan(units)
    return found


def learn(
    plan: VideoDprpTables, spec: Spec, rows: Rows, steps: Plan, classes: int, seed: int
) -> Any:
    """The trained part of a network, after it has learned."""
    net = copy.deepcopy(_begun(plan, classes, seed))
    some = replace(rows, slots=seen.middle(rows.slots, spec.segments))
    return seen.taught(net, some, replace(plan.method(spec), public_seed=seed), steps)


def score(tails: Sequence[Any], rows: Rows, tested: int) -> Score:
    """How often tails are right, by the mean output over ``tested`` segments of a recording."""
    right = np.stack([seen.is_right(tail, rows, tested=tested) for tail in tails])
    wanted = rows.targets[torch.from_numpy(rows.slots[:, 0])].cpu().numpy()
    return Score(
        top_1=tuple(right.mean(axis=1).tolist()),
        by_class=tuple(float(right[:, wanted == c].mean()) for c in np.unique(wanted)),
    )


@dataclass(frozen=True, kw_only=True)
class ReleasePlan:
    """Rows that share a release, and rows that cannot be measured here."""

    groups: dict[Mechanism | None, list[Spec]]
    missing: dict[Spec, ResultRow]


def planned(specs: Sequence[Spec], shape: Shape) -> ReleasePlan:
    """What is to be done: recordings are released once a mechanism, however many rows it has."""
    work = ReleasePlan(groups={None: []}, missing={})
    for spec in specs:
        made, why = available(spec, shape)
        if made is not None or spec.mechanism is None:
            work.groups.setdefault(made, []).append(spec)
        elif why:
            work.missing[spec] = ResultRow(
                spec=spec, promise=RowPromise(said="not measured"), missing=why
            )
    return work


def available(spec: Spec, shape: Shape) -> tuple[Mechanism | None, str]:
    """A row's mechanism, or why it cannot be used here; neither where it is not for videos.

    A heuristic may want a library or a network that is not here: it is tried on a grey film.
    """
    try:
        made = spec.made()
        if isinstance(made, Heuristic):
            made.apply(np.full((2, *shape[1:]), 128, np.uint8), Noise())
        elif made is not None and not isinstance(made, Streams):
            return None, ""
    except (MissingExtra, BadInput, OSError) as error:
        return None, f"not available: {error}"
    return made, ""


def measure(
    plan: VideoDprpTables,
    splits: tuple[Kept, Kept],
    specs: Sequence[Spec],
    *,
    journal: bench.Journal,
    told: bench.Told = bench.quiet,
) -> list[ResultRow]:
    """Every row, unless the journal has it: both splits are released once, then its rows learn."""
    train, test = splits
    work = planned(specs, train[0].frames.shape)
    found = dict(work.missing)
    raw = see(plan, test, None, segments=SEGMENTS, told=told)
    for mechanism, group in work.groups.items():
        rows = partial(_group, plan, mechanism, group, splits, raw.rows, told)
        for spec, held in zip(group, journal.measured(f"release {mechanism!r}", rows), strict=True):
            found[spec] = ResultRow.of(spec, held)
    return [found[spec] for spec in specs if spec in found]


def _group(
    plan: VideoDprpTables,
    mechanism: Mechanism | None,
    group: Sequence[Spec],
    splits: tuple[Kept, Kept],
    raw: Rows,
    told: bench.Told,
) -> list[dict[str, Any]]:
    """The rows of one mechanism, or of none, as a journal holds them."""
    train, test = splits
    segments = max((max(spec.segments, spec.tested) for spec in group), default=1)
    learned = see(plan, train, mechanism, segments=segments, told=told)
    released, promise, changed = None, None, None
    if mechanism is not None:
        released = see(plan, test, mechanism, segments=segments, told=told)
        promise = promises.of_release(mechanism, learned.shapes | released.shapes)
        changed = float(np.mean(released.changed))
    taught = _taught(plan, group, learned.rows, len(train.origin.activities))
    rows = []
    for spec in group:
        steps, tails = taught[_way(spec)]
        row = ResultRow(
            spec=spec,
            promise=promise or promises.of_training(plan.method(spec), steps),
            raw=score(tails, raw, spec.tested),
            released=Score() if released is None else score(tails, released.rows, spec.tested),
            changed=changed,
        )
        rows.append(row.held)
    return rows


def _way(spec: Spec) -> tuple[str, float, int]:
    """Rows that are alike in this share their models."""
    return spec.method, spec.epsilon, spec.segments


def _taught(
    plan: VideoDprpTables, group: Sequence[Spec], rows: Rows, classes: int
) -> dict[tuple[str, float, int], tuple[Plan, list[Any]]]:
    """The plan of each way of learning and a model a seed, learned side by side."""
    ways = {_way(spec): spec for spec in group}
    plans = {way: _steps(plan, spec.epsilon, rows.units) for way, spec in ways.items()}
    calls = [
        joblib.delayed(learn)(plan, spec, rows, plans[way], classes, seed)
        for way, spec in ways.items()
        for seed in range(plan.repeats)
    ]
    tails = bench.together(calls, jobs=plan.processes)
    return {way: (plans[way], [next(tails) for _ in range(plan.repeats)]) for way in ways}
