"""Measure Video-DPRP's rows: release recordings, learn from what was released, test on both.

Learning from a release is post-processing, so it gets no further noise. Each recording is released
once a mechanism, as a whole; segments are cut from the release. The trunk is frozen and runs once.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import joblib
import numpy as np

from masquerade.collection import Collection
from masquerade.compute import device
from masquerade.doors.training import Network, make_method, torch
from masquerade.errors import BadInput, MissingExtra
from masquerade.mechanism import Heuristic, Mechanism, Shape, Streams
from masquerade.nets import mvit
from masquerade.noise import Noise
from masquerade.recipes import bench, seen
from masquerade.recipes.video_dprp import promises
from masquerade.recipes.video_dprp.promises import Promise
from masquerade.recipes.video_dprp.rows import DELTA, SEGMENTS, Row, Score, Spec
from masquerade.recordings import Video
from masquerade.train import loop
from masquerade.train.plan import Plan
from masquerade.train.rows import Rows

_CHUNK, _CHUNK_BYTES = 12, 1 << 26  # the most that a process treats before it reports
_MOST_BYTES = 2 << 30  # of recordings that are kept; what is beyond is read again


@dataclass(frozen=True, kw_only=True)
class Course:
    """How every row learns.

    Args:
        network: which one, from which public weights; its head begins with zeros.
        part: what is trained.
        batch: recordings in a batch, on average.
        epochs: how often each is drawn, on average.
        seeds: runs of each row, on the same release.
        device: cpu or cuda.
        jobs: processes.
    """

    network: Network
    part: str = "head"
    batch: int = 128
    epochs: float = 20.0
    seeds: int = 1
    device: str = "cpu"
    jobs: int = 1

    def method(self, spec: Spec) -> Any:
        """A row's training method; its noise meets epsilon under replace_one, like releases."""
        return make_method(
            spec.method,
            epsilon=spec.epsilon,
            delta=DELTA,
            unit="video",
            relation="replace_one",
            batch=self.batch,
            epochs=self.epochs,
            part=self.part,
            segments=spec.segments,
        )

    @property
    def said(self) -> str:
        """How, in words."""
        method = self.method(Spec(table=0, name=""))
        return (
            f"{method.optimiser}, learning rate {method.learning_rate:g}, {method.epochs:g} "
            f"epochs, batches of {method.batch}, norms clipped at {method.clip_norm:g}"
        )


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
    course: Course,
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
    calls = (joblib.delayed(_see)(course, some, classes, mechanism, segments) for some in chunks)
    for part in bench.together(calls, jobs=course.jobs):
        found.append(part)
        told(what, sum(one.rows.units for one in found), len(films))
    return Seen(
        rows=seen.joined([part.rows for part in found]),
        shapes=frozenset[Shape]().union(*(part.shapes for part in found)),
        changed=tuple(share for part in found for share in part.changed),
    )


def _see(
    course: Course,
    films: list[Video],
    classes: tuple[str, ...],
    mechanism: Mechanism | None,
    segments: int,
) -> Seen:
    """The same for a few, in a process of its own; noise is live there as everywhere."""
    net, trunk = _frozen(course, len(classes))
    method = course.method(Spec(table=0, name="", segments=segments))
    changed: tuple[float, ...] = ()
    with device.on(course.device):
        shown = films
        if mechanism is not None:
            noise = Noise()
            shown = [_released(film, mechanism, noise) for film in films]
            pairs = zip(shown, films, strict=True)
            changed = tuple(float(np.mean(new.frames != old.frames)) for new, old in pairs)
        some = seen.Films(films=shown, classes=classes)
        rows = seen.rows_of(some, method, net, trunk, device=course.device)
    return Seen(rows=rows, shapes=frozenset(film.frames.shape for film in films), changed=changed)


def _released(film: Video, mechanism: Mechanism, noise: Noise) -> Video:
    """With its label, which is public here."""
    made = mechanism.apply(film, noise)
    if not isinstance(made, Video):
        raise TypeError(f"Expected a video, got {type(made).__name__}.")
    return replace(made, activity=film.activity)


@lru_cache(maxsize=1)
def _frozen(course: Course, classes: int) -> tuple[Any, Any]:
    net = copy.deepcopy(_begun(course, classes, 0))
    return net, mvit.split(net, course.part)[0]


@lru_cache(maxsize=4)
def _begun(course: Course, classes: int, seed: int) -> Any:
    """A network as it is before it learns; to be copied."""
    return course.network.make(classes, seed=seed).to(course.device)


@lru_cache(maxsize=16)
def _plan(course: Course, epsilon: float, units: int) -> Plan:
    """Steps and noise: the same for every method here, since each has a unit's norm bounded."""
    plan: Plan = course.method(Spec(table=0, name="", epsilon=epsilon)).plan(units)
    return plan


def learn(course: Course, spec: Spec, rows: Rows, plan: Plan, classes: int, seed: int) -> Any:
    """The trained part of a network, after it has learned."""
    _, tail = mvit.split(copy.deepcopy(_begun(course, classes, seed)), course.part)
    loop.run(
        tail,
        replace(rows, slots=seen.middle(rows.slots, spec.segments)),
        replace(course.method(spec), public_seed=seed),
        plan,
        noise=Noise(),
        work=loop.Work(physical=64),
        progress=lambda done, total: None,
    )
    return tail


def score(tails: Sequence[Any], rows: Rows, tested: int) -> Score:
    """How often tails are right, by the mean output over ``tested`` segments of a recording."""
    right = np.stack([seen.is_right(tail, rows, tested=tested) for tail in tails])
    wanted = rows.targets[torch.from_numpy(rows.slots[:, 0])].cpu().numpy()
    return Score(
        top_1=tuple(right.mean(axis=1).tolist()),
        by_class=tuple(float(right[:, wanted == c].mean()) for c in np.unique(wanted)),
    )


@dataclass(frozen=True, kw_only=True)
class Work:
    """Rows that share a release, and rows that cannot be measured here."""

    groups: dict[Mechanism | None, list[Spec]]
    missing: dict[Spec, Row]


def planned(specs: Sequence[Spec], shape: Shape) -> Work:
    """What is to be done: recordings are released once a mechanism, however many rows it has."""
    work = Work(groups={None: []}, missing={})
    for spec in specs:
        made, why = available(spec, shape)
        if made is not None or spec.mechanism is None:
            work.groups.setdefault(made, []).append(spec)
        elif why:
            work.missing[spec] = Row(spec=spec, promise=Promise(said="not measured"), missing=why)
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
    course: Course,
    splits: tuple[Kept, Kept],
    specs: Sequence[Spec],
    *,
    journal: bench.Journal,
    told: bench.Told = bench.quiet,
) -> list[Row]:
    """Every row, unless the journal has it: both splits are released once, then its rows learn."""
    train, test = splits
    work = planned(specs, train[0].frames.shape)
    found = dict(work.missing)
    raw = see(course, test, None, segments=SEGMENTS, told=told)
    for place, (mechanism, group) in enumerate(work.groups.items()):
        rows = partial(_group, course, mechanism, group, splits, raw.rows, told)
        for spec, held in zip(group, journal.measured(f"release {place}", rows), strict=True):
            found[spec] = Row.of(spec, held)
    return [found[spec] for spec in specs if spec in found]


def _group(
    course: Course,
    mechanism: Mechanism | None,
    group: Sequence[Spec],
    splits: tuple[Kept, Kept],
    raw: Rows,
    told: bench.Told,
) -> list[dict[str, Any]]:
    """The rows of one mechanism, or of none, as a journal holds them."""
    train, test = splits
    segments = max((max(spec.segments, spec.tested) for spec in group), default=1)
    learned = see(course, train, mechanism, segments=segments, told=told)
    released, promise, changed = None, None, None
    if mechanism is not None:
        released = see(course, test, mechanism, segments=segments, told=told)
        promise = promises.of_release(mechanism, learned.shapes | released.shapes)
        changed = float(np.mean(released.changed))
    taught = _taught(course, group, learned.rows, len(train.origin.activities))
    rows = []
    for spec in group:
        plan, tails = taught[_way(spec)]
        row = Row(
            spec=spec,
            promise=promise or promises.of_training(course.method(spec), plan),
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
    course: Course, group: Sequence[Spec], rows: Rows, classes: int
) -> dict[tuple[str, float, int], tuple[Plan, list[Any]]]:
    """The plan of each way of learning and a model a seed, learned side by side."""
    ways = {_way(spec): spec for spec in group}
    plans = {way: _plan(course, spec.epsilon, rows.units) for way, spec in ways.items()}
    calls = [
        joblib.delayed(learn)(course, spec, rows, plans[way], classes, seed)
        for way, spec in ways.items()
        for seed in range(course.seeds)
    ]
    tails = bench.together(calls, jobs=course.jobs)
    return {way: (plans[way], [next(tails) for _ in range(course.seeds)]) for way in ways}
