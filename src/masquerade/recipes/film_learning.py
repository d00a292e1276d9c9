"""Release every recording, learn from what was released, test on both: a row becomes a result.

Learning from a release is post-processing, so it gets no further noise. Each recording is released
once a mechanism, as a whole; segments are cut from the release. The trunk is frozen and runs once.
Work goes to as many processes as there are cores, each with one thread: small products that
several threads share take far longer wherever the cores have other work.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import joblib
import numpy as np

from masquerade._torch import torch
from masquerade.collection import Collection
from masquerade.compute import device
from masquerade.doors.models import make_method
from masquerade.errors import BadInput, MissingExtra
from masquerade.mechanism import Heuristic, Mechanism, Shape, Streams
from masquerade.nets import mvit
from masquerade.nets.network import Network
from masquerade.noise import Noise
from masquerade.recipes import film_promises
from masquerade.recipes.film_promises import Promise
from masquerade.recipes.film_releases import Released
from masquerade.recipes.film_rows import DELTA, SEGMENTS, Spec
from masquerade.recordings import Video
from masquerade.train import learner, loop
from masquerade.train.films import Films
from masquerade.train.memory import Memory
from masquerade.train.plan import Plan
from masquerade.train.rows import Rows

_CHUNK, _CHUNK_BYTES = 12, 1 << 26  # the most that a process treats before it reports
_TOGETHER = 64  # units, or test recordings, that are computed at once


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

    def together(self, calls: Iterable[Any]) -> Iterator[Any]:
        """What the calls give, in their order, computed side by side."""
        with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
            found: Iterator[Any] = joblib.Parallel(n_jobs=self.jobs, return_as="generator")(calls)
        return found


@dataclass(frozen=True, kw_only=True)
class Score:
    """How often a row's models are right.

    Args:
        top_1: share of the test recordings, one number a seed; empty where nothing was tested.
        by_class: the same for each class that has test recordings, mean over seeds.
    """

    top_1: tuple[float, ...] = ()
    by_class: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row, measured.

    Args:
        spec: what it is.
        promise: what holds.
        raw: on the test recordings as they are (protocol 1).
        released: on the released test recordings (protocol 2).
        changed: share of the released test set's numbers that the release changed.
        missing: why it could not be measured.
    """

    spec: Spec
    promise: Promise
    raw: Score = Score()
    released: Score = Score()
    changed: float | None = None
    missing: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Bench:
    """What all rows share.

    Args:
        course: how they learn.
        train: recordings, which play the private ones.
        test: recordings of the test.
        tell: called with what is done and to how many recordings.
    """

    course: Course
    train: Collection[Any]
    test: Collection[Any]
    tell: Callable[[str, int], None]


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


def see(bench: Bench, films: Collection[Any], mechanism: Mechanism | None, segments: int) -> Seen:
    """Release every recording once, and run the trunk over its segments."""
    classes, course = bench.train.activities, bench.course
    what = "reading" if mechanism is None else f"releasing by {mechanism.name}"
    size = max(1, min(_CHUNK, _CHUNK_BYTES // films[0].frames.nbytes))
    chunks = (
        [films[index] for index in range(start, min(start + size, len(films)))]
        for start in range(0, len(films), size)
    )
    found = []
    calls = (joblib.delayed(_see)(course, some, classes, mechanism, segments) for some in chunks)
    for part in course.together(calls):
        found.append(part)
        bench.tell(what, len(part.rows.slots))
    slots = np.arange(len(films) * segments).reshape(len(films), segments)
    return Seen(
        rows=Rows(
            private=torch.cat([part.rows.private for part in found]),
            public=None,
            targets=torch.cat([part.rows.targets for part in found]),
            slots=slots,
        ),
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
    trunk = _frozen(course, len(classes))
    source = Released(films=films, classes=classes, mechanism=mechanism, noise=Noise())
    method = course.method(Spec(table=0, name="", segments=segments))
    reader, memory = Films(method, course.network, classes), Memory(device=course.device)
    with (
        device.on(course.device),
        learner.rows_of(source, reader, trunk, memory=memory) as (rows, _),
    ):
        return Seen(
            rows=rows,
            shapes=frozenset(source.shapes),
            changed=tuple(source.changed),
        )


@lru_cache(maxsize=1)
def _frozen(course: Course, classes: int) -> Any:
    return mvit.split(copy.deepcopy(_begun(course, classes, 0)), course.part)[0]


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
        dataclasses.replace(rows, slots=middle(rows.slots, spec.segments)),
        dataclasses.replace(course.method(spec), public_seed=seed),
        plan,
        noise=Noise(),
        work=loop.Workload(physical=_TOGETHER),
        progress=lambda done, total: None,
    )
    return tail


def middle(slots: np.ndarray, segments: int) -> np.ndarray:
    """All segments of each recording, or the one in the middle."""
    return slots if segments == slots.shape[1] else slots[:, [slots.shape[1] // 2]]


def score(tails: Sequence[Any], rows: Rows, tested: int) -> Score:
    """How often tails are right, by the mean output over ``tested`` segments of a recording."""
    slots = middle(rows.slots, tested)
    wanted = rows.targets[torch.from_numpy(slots[:, 0])].cpu().numpy()
    right = np.empty((len(tails), len(slots)))
    with torch.no_grad():
        for number, tail in enumerate(tails):
            for start in range(0, len(slots), _TOGETHER):
                part = slice(start, start + _TOGETHER)
                some = torch.from_numpy(slots[part])
                out = tail(rows.private[some.flatten()]).unflatten(0, some.shape).mean(dim=1)
                right[number, part] = out.argmax(dim=1).cpu().numpy() == wanted[part]
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


def measure(bench: Bench, work: Work) -> dict[Spec, Row]:
    """Every row: both splits are released once a mechanism, then its rows learn."""
    found = dict(work.missing)
    raw = see(bench, bench.test, None, SEGMENTS)
    for mechanism, group in work.groups.items():
        segments = max((max(spec.segments, spec.tested) for spec in group), default=1)
        learned = see(bench, bench.train, mechanism, segments)
        tests, promise, changed = {"raw": raw.rows}, None, None
        if mechanism is not None:
            released = see(bench, bench.test, mechanism, segments)
            tests["released"] = released.rows
            promise = film_promises.of_release(mechanism, learned.shapes | released.shapes)
            changed = float(np.mean(released.changed))
        for row in _rows(bench, group, learned.rows, tests):
            own = row.promise if promise is None else promise
            found[row.spec] = dataclasses.replace(row, promise=own, changed=changed)
    return found


def _rows(
    bench: Bench, group: Sequence[Spec], learned: Rows, tests: dict[str, Rows]
) -> Iterator[Row]:
    """Learn once for each way of learning, then test every row."""
    course, classes = bench.course, len(bench.train.activities)
    ways = {(spec.method, spec.epsilon, spec.segments): spec for spec in group}
    plans = {key: _plan(course, spec.epsilon, learned.units) for key, spec in ways.items()}
    calls = [
        joblib.delayed(learn)(course, spec, learned, plans[key], classes, seed)
        for key, spec in ways.items()
        for seed in range(course.seeds)
    ]
    tails = list(course.together(calls))
    for spec in group:
        key = (spec.method, spec.epsilon, spec.segments)
        first = list(ways).index(key) * course.seeds
        own = tails[first : first + course.seeds]
        scores = {name: score(own, rows, spec.tested) for name, rows in tests.items()}
        yield Row(
            spec=spec,
            promise=film_promises.of_training(course.method(spec), plans[key]),
            raw=scores["raw"],
            released=scores.get("released", Score()),
        )
