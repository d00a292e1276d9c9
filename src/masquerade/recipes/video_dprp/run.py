"""Measure Video-DPRP's rows: release recordings, learn from what was released, test on both.

Learning from a release is post-processing, so it gets no further noise. In each run a recording is
released once a mechanism, as a whole; segments are cut from the release. The trunk is frozen.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np

from masquerade.errors import BadInput, MissingExtra
from masquerade.mechanism import Heuristic, Mechanism, Streams
from masquerade.noise import Noise
from masquerade.recipes import bench, seen
from masquerade.recipes.verdict import Runs
from masquerade.recipes.video_dprp import alone, looks, promises, views
from masquerade.recipes.video_dprp import films as recordings
from masquerade.recipes.video_dprp.films import Kept
from masquerade.recipes.video_dprp.promises import RowPromise
from masquerade.recipes.video_dprp.results import ResultRow
from masquerade.recipes.video_dprp.rows import SEGMENTS, Spec
from masquerade.recordings import Video
from masquerade.training.plan import TrainingPlan
from masquerade.training.rows import Rows

if TYPE_CHECKING:
    from masquerade.recipes.video_dprp import VideoDprpTables


@lru_cache(maxsize=16)
def _steps(plan: VideoDprpTables, epsilon: float, units: int) -> TrainingPlan:
    """Steps and noise: the same for every method here, since each has a unit's norm bounded."""
    found: TrainingPlan = plan.method(Spec(table=0, name="", epsilon=epsilon)).plan_run(units)
    return found


def learn(
    plan: VideoDprpTables, spec: Spec, rows: Rows, steps: TrainingPlan, classes: int, seed: int
) -> Any:
    """The trained part of a network, after it has learned."""
    net = copy.deepcopy(views.begun(plan, classes, seed))
    some = replace(rows, slots=seen.middle(rows.slots, spec.segments))
    return seen.taught(net, some, replace(plan.method(spec), public_seed=seed), steps)


@dataclass(frozen=True, kw_only=True, eq=False)
class Group:
    """Rows that learn from the same recordings, released or not.

    Args:
        mechanism: that releases them.
        is_noisy: whether there is noise in the training instead.
        specs: the rows.
    """

    mechanism: Mechanism | None
    is_noisy: bool
    specs: list[Spec]

    @property
    def segments(self) -> int:
        """That the rows need of each recording."""
        return max(max(spec.segments, spec.tested) for spec in self.specs)

    @property
    def is_tested_released(self) -> bool:
        """Whether a row is of Table 1, the only one of both protocols."""
        return self.mechanism is not None and any(spec.table == 1 for spec in self.specs)


@dataclass(frozen=True, kw_only=True)
class ReleasePlan:
    """Rows that share a release, and rows that cannot be measured here."""

    groups: list[Group]
    missing: dict[Spec, ResultRow]


def planned(specs: Sequence[Spec], film: Video) -> ReleasePlan:
    """What is to be done with recordings like one: each is released once a mechanism and run."""
    groups: dict[tuple[Mechanism | None, bool], Group] = {}
    missing = {}
    for spec in specs:
        made, why = available(spec, film)
        if spec.method and (made is not None or spec.mechanism is None):
            key = made, spec.epsilon < math.inf
            groups.setdefault(key, Group(mechanism=made, is_noisy=key[1], specs=[]))
            groups[key].specs.append(spec)
        elif why:
            promise = RowPromise(said="not measured")
            missing[spec] = ResultRow(spec=spec, promise=promise, missing=why)
    return ReleasePlan(groups=list(groups.values()), missing=missing)


def available(spec: Spec, film: Video) -> tuple[Mechanism | None, str]:
    """A row's mechanism, or why it cannot be used here; neither where it is not for videos.

    A heuristic may want a library, a network or masks that are not here: it is tried on two frames.
    """
    try:
        made = spec.made()
        if isinstance(made, Heuristic):
            made.apply(recordings.cut(film, slice(0, 2)), Noise())
        elif made is not None and not isinstance(made, Streams):
            return None, ""
    except (MissingExtra, BadInput, OSError) as error:
        return None, f"not available: {error}"
    return made, ""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Trial:
    """One group's runs.

    Args:
        plan: of the experiment.
        group: of rows.
        splits: training and test recordings.
        raw: what the trunk gives of the test recordings as they are.
        told: is told how far the work is.
    """

    plan: VideoDprpTables
    group: Group
    splits: tuple[Kept, Kept]
    raw: Rows
    told: bench.Told

    def run(self, seed: int) -> dict[str, Any]:
        """A fresh release, fresh models, both tests, as a journal holds them."""
        train, test = self.splits
        learned = self._learned(seed)
        released = None
        if self.group.is_tested_released:
            part = test.every(self.plan.repeats, start=seed)
            released = views.see(self.plan, part, self._view(None), told=self.told)
        tails = self._taught(learned.rows, len(train.origin.activities), seed)
        rows = []
        for spec in self.group.specs:
            tail = tails[_way(spec)]
            row = {"raw": _share(tail, self.raw, spec.tested), "released": None}
            if released is not None:
                row["released"] = _share(tail, released.rows, spec.tested)
            rows.append(row)
        return {
            "rows": rows,
            "shapes": sorted(learned.shapes | (released.shapes if released else set())),
            "changed": list(released.changed if released else learned.changed),
            "tested": released.rows.units if released else 0,
        }

    def _view(self, seed: int | None) -> views.View:
        is_cropped = self.plan.crop == "random" and not self.group.is_noisy
        return views.View(
            mechanism=self.group.mechanism,
            segments=self.group.segments,
            crop_seed=seed if is_cropped else None,
        )

    def _learned(self, seed: int) -> views.Seen:
        view = self._view(seed)
        if view.crop_seed is None and not self._is_random:
            return self._once
        return views.see(self.plan, self.splits[0], view, told=self.told)

    @cached_property
    def _once(self) -> views.Seen:
        return views.see(self.plan, self.splits[0], self._view(None), told=self.told)

    @cached_property
    def _is_random(self) -> bool:
        """Whether two releases of a recording differ."""
        made = self.group.mechanism
        if not isinstance(made, Heuristic):
            return made is not None
        [film] = recordings.cropped(
            self.splits[0][0], count=1, span=2, rng=np.random.default_rng(0)
        )
        one, other = (views.released(film, made, Noise()).frames for _ in range(2))
        return not np.array_equal(one, other)

    def _taught(self, rows: Rows, classes: int, seed: int) -> dict[tuple[str, float, int], Any]:
        """A model for each way of learning, side by side."""
        ways = {_way(spec): spec for spec in self.group.specs}
        calls = [
            joblib.delayed(learn)(
                *(self.plan, spec, rows, _steps(self.plan, spec.epsilon, rows.units)),
                *(classes, seed),
            )
            for spec in ways.values()
        ]
        jobs = self.plan.processes if len(calls) > 1 else 1
        return dict(zip(ways, bench.together(calls, jobs=jobs), strict=True))


def _way(spec: Spec) -> tuple[str, float, int]:
    """Rows that are alike in this share their models."""
    return spec.method, spec.epsilon, spec.segments


def _share(tail: Any, rows: Rows, tested: int) -> float:
    """How often it is right, by the mean output over ``tested`` segments of a recording."""
    return float(seen.is_right(tail, rows, tested=tested).mean())


def measure(
    plan: VideoDprpTables,
    splits: tuple[Kept, Kept],
    specs: Sequence[Spec],
    *,
    journal: bench.Journal,
    told: bench.Told = bench.quiet,
) -> list[ResultRow]:
    """Every row, unless the journal has its runs."""
    train, test = splits
    work = planned(specs, train[0])
    found = dict(work.missing)
    for films in splits:
        films.read(jobs=plan.processes, told=told)
    raw = views.see(plan, test, views.View(segments=SEGMENTS), told=told).rows
    for group in work.groups:
        trial = _Trial(plan=plan, group=group, splits=splits, raw=raw, told=told)
        name = f"{group.mechanism!r}, {'with' if group.is_noisy else 'without'} noise in training"
        held = [
            journal.measured(f"{name}, run {seed}", partial(trial.run, seed))
            for seed in range(plan.repeats)
        ]
        for number, spec in enumerate(group.specs):
            found[spec] = _row(plan, group, number, held, splits)
    _add_looks(plan, work, found, splits, journal=journal, told=told)
    for spec in specs:
        if not spec.method:
            known = journal.measured("public weights", partial(alone.known, plan, test, raw))
            found[spec] = alone.row(spec, known, len(test))
    return [found[spec] for spec in specs if spec in found]


def _add_looks(
    plan: VideoDprpTables,
    work: ReleasePlan,
    found: dict[Spec, ResultRow],
    splits: tuple[Kept, Kept],
    *,
    journal: bench.Journal,
    told: bench.Told,
) -> None:
    """What attackers tell of the people in each row's release, where people's looks are known."""
    made = {repr(group.mechanism): group.mechanism for group in work.groups if group.mechanism}
    data, shape = splits[0].origin, splits[0][0].frames.shape
    every = list(made.values())
    known = looks.told_of(plan, data, every, shape, journal=journal, told=told)
    for group in work.groups:
        for spec in group.specs:
            found[spec] = replace(found[spec], looks=known.get(repr(group.mechanism)))


def _row(
    plan: VideoDprpTables,
    group: Group,
    number: int,
    held: Sequence[dict[str, Any]],
    splits: tuple[Kept, Kept],
) -> ResultRow:
    """A row from all its runs."""
    spec, (train, test) = group.specs[number], splits
    rows = [run["rows"][number] for run in held]
    is_released = group.is_tested_released and spec.table == 1
    if group.mechanism is None:
        promise = promises.of_training(plan.method(spec), _steps(plan, spec.epsilon, len(train)))
    else:
        shapes = {tuple(shape) for run in held for shape in run["shapes"]}
        promise = promises.of_release(group.mechanism, shapes)
    changed = [share for run in held for share in run["changed"]]
    least = min(run["tested"] for run in held)
    return ResultRow(
        spec=spec,
        promise=promise,
        raw=Runs(tuple(row["raw"] for row in rows), len(test)),
        released=Runs(tuple(row["released"] for row in rows), least) if is_released else None,
        changed=float(np.mean(changed)) if changed else None,
    )
