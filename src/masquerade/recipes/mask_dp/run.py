"""Measure MaskDP's tables: recordings are read once, in all views; each cell is trained and tested.

Needs no camera, no ledger and no screen: numpy, scipy, torch, torchvision and safetensors, and what
the accountant and the noise need.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import delayed

from masquerade import _json
from masquerade.collection import Collection
from masquerade.data.stage import Stage
from masquerade.recipes import bench, public_alone, seen
from masquerade.recipes.mask_dp import members
from masquerade.recipes.mask_dp.copies import copied
from masquerade.recipes.mask_dp.rows import (
    ALONE,
    DP,
    FREE,
    MASK_DP,
    MULTI_CLIP,
    RELATIONS,
    ROWS,
    SCRATCH,
    SHARED,
    Cell,
    Found,
)
from masquerade.recipes.membership import MembersFound
from masquerade.train.method import planned
from masquerade.train.rows import Rows

if TYPE_CHECKING:
    from masquerade.recipes.mask_dp import MaskDpTables

Views = Mapping[str, Rows]  # by the row whose method has this view
_TOGETHER = 8  # recordings that are held at once as they are
_PHYSICAL = 192  # units whose gradients are computed at once: most batches of 128 on average
_SCRATCH_PHYSICAL = {"cpu": 8, "cuda": 64}
_SMALL = 1 << 26  # bytes of rows that go to other processes
_COPIED = " in copies"  # after the name of a view


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A cell that is to be measured."""

    name: str
    epsilon: float
    relation: str

    @property
    def is_free(self) -> bool:
        """Whether it is the same at every epsilon and under every relation."""
        return self.name in FREE

    @property
    def is_copied(self) -> bool:
        """Whether it learns from copies, where there are some."""
        return self.epsilon == math.inf and not self.is_free

    @property
    def said(self) -> str:
        """Its name in the journal; what has no noise has no relation."""
        if self.is_free:
            return self.name
        if self.epsilon == math.inf:
            return f"{self.name}, no noise"
        return f"{self.name}, {self.relation}, epsilon {self.epsilon:g}"


def measure(
    plan: MaskDpTables,
    wanted: Mapping[str, tuple[float, ...]],
    data: Collection[Any],
    *,
    journal: bench.Journal,
    told: bench.Told = bench.quiet,
) -> Found:
    """Every cell, unless the journal has it.

    Args:
        plan: that all share, settled.
        wanted: the epsilons of each row.
        data: with a training and a test split.
        journal: of the run.
        told: how far it is.
    """
    asked = [
        Asked(name=name, epsilon=epsilon, relation=relation)
        for relation in plan.relations
        for name, several in wanted.items()
        for epsilon in several
        if name != ALONE or isinstance(data, Stage)
    ]
    cells: list[Cell] = []
    for correlation in plan.correlations or (None,):
        world = _world(data, correlation)
        work = partial(_measured, plan, world, told=told)
        cells += _of_world(asked, correlation, journal, work)
    units, tested = (len(part) for part in bench.parts(data))
    return Found(
        cells=tuple(cells),
        members=_members(plan, data, journal, told) if plan.membership else (),
        plan=plan,
        about=_about(data, plan),
        units=min(units, plan.taught or units),
        tested=tested,
    )


def _members(
    plan: MaskDpTables, data: Collection[Any], journal: bench.Journal, told: bench.Told
) -> tuple[MembersFound, ...]:
    """Some recordings are read again, in the view that all rows share."""
    taught, tested = bench.parts(_world(data, (*plan.correlations, None)[0]))
    most = min(members.MOST, plan.taught or members.MOST)
    rows = read(plan, taught, {MASK_DP}, told, most=most)[MASK_DP]
    exam = read(plan, tested, {DP}, told)[DP]
    return members.measured(plan, rows, exam, taught, journal=journal, told=told)


def _world(data: Collection[Any], correlation: float | None) -> Collection[Any]:
    if correlation is None or not isinstance(data, Stage):
        return data
    return replace(data, correlation=correlation)


def _of_world(
    asked: list[Asked],
    correlation: float | None,
    journal: bench.Journal,
    work: Callable[[list[Asked]], Iterator[Cell]],
) -> list[Cell]:
    """The cells of one world: those that are not noted are measured, each once."""
    prefix = "" if correlation is None else f"place {correlation:g}, "
    new = {prefix + one.said: one for one in asked if prefix + one.said not in journal.held}
    if new:
        for name, cell in zip(new, work(list(new.values())), strict=True):
            journal.note(name, cell)
    held = [(one, _json.decode(Cell, journal.held[prefix + one.said])) for one in asked]
    return [
        replace(cell, epsilon=one.epsilon, relation=one.relation, correlation=correlation)
        for one, cell in held
    ]


def _measured(
    plan: MaskDpTables, data: Collection[Any], asked: list[Asked], *, told: bench.Told
) -> Iterator[Cell]:
    """Read the recordings, then train and test cell after cell."""
    if plan.device == "cuda" and isinstance(data, Stage):
        data.make(progress=partial(told, "drawing"), device="cuda")
    names = [one.name for one in asked if one.name != ALONE]
    views = {view(plan, name) for name in names}
    if (plan.copies or 1) > 1:
        views |= {view(plan, one.name) + _COPIED for one in asked if one.is_copied}
    taught, tested = bench.parts(data)
    lessons = read(plan, taught, views, told, most=plan.taught)
    exams = read(plan, tested, {view(plan, one.name, is_test=True) for one in asked}, told)
    done = 0
    for cell in _trained(plan, data, asked, lessons, exams):
        done += 1
        told("training", done, len(asked))
        yield cell


def _trained(
    plan: MaskDpTables, data: Collection[Any], asked: list[Asked], lessons: Views, exams: Views
) -> Iterator[Cell]:
    """Cell after cell, several at once where rows are small enough to send about."""
    jobs, is_small = _jobs(plan), all(map(_is_small, (*lessons.values(), *exams.values())))

    def call(one: Asked) -> Callable[[], Cell]:
        exam = exams[view(plan, one.name, is_test=True)]
        if one.name == ALONE and isinstance(data, Stage):
            return partial(_alone, plan, data, exam)
        return partial(_cell, plan, one, _lesson(plan, one, lessons), exam, data.activities)

    calls = map(call, asked)
    if jobs == 1 or not is_small:
        return (each() for each in calls)
    return bench.together((delayed(each)() for each in calls), jobs=jobs)


def _jobs(plan: MaskDpTables) -> int:
    return 1 if plan.device == "cuda" else plan.jobs or len(os.sched_getaffinity(0))


def _is_small(rows: Rows) -> bool:
    return rows.private.nbytes <= _SMALL


def _lesson(plan: MaskDpTables, asked: Asked, lessons: Views) -> Rows:
    """What a cell learns from."""
    name = view(plan, asked.name)
    copies = name + _COPIED
    rows = lessons[copies if asked.is_copied and copies in lessons else name]
    return rows if ROWS[asked.name].learner.HAS_PUBLIC else replace(rows, public=None)


def view(plan: MaskDpTables, name: str, *, is_test: bool = False) -> str:
    """The row whose view of the recordings serves this one: whole, and for learning filled too."""
    if is_test:
        return ALONE if name == ALONE and plan.part != "head" else _tested(name)
    if name == DP:
        return MASK_DP if plan.view == "whole" else DP
    return name if name in (SCRATCH, MULTI_CLIP, SHARED) else MASK_DP


def _tested(name: str) -> str:
    return name if name == SCRATCH else DP


def read(
    plan: MaskDpTables,
    data: Collection[Any],
    names: set[str],
    told: bench.Told = bench.quiet,
    *,
    most: int | None = None,
) -> Views:
    """Read recordings of a split once, in the views of these rows; all, or the first ``most``."""
    count = min(len(data), most or len(data))
    starts = range(0, count, _TOGETHER)
    calls = (
        partial(_read_some, plan, data, tuple(sorted(names)), range(s, min(s + _TOGETHER, count)))
        for s in starts
    )
    found: dict[str, list[Rows]] = {name: [] for name in sorted(names)}
    for some in _each(calls, _jobs(plan)):
        for name, rows in some.items():
            found[name].append(rows)
        done = len(next(iter(found.values())))
        told("reading", min(done * _TOGETHER, count), count)
    return {name: seen.joined(parts) for name, parts in found.items()}


def _each(calls: Iterable[Callable[[], Views]], jobs: int) -> Iterator[Views]:
    if jobs == 1:
        return (call() for call in calls)
    return bench.together((delayed(call)() for call in calls), jobs=jobs)


def _read_some(
    plan: MaskDpTables, data: Collection[Any], names: tuple[str, ...], numbers: range
) -> dict[str, Rows]:
    """Some recordings, in several views."""
    films = seen.InMemory(films=[data[one] for one in numbers], classes=data.activities)
    found = {}
    for name in names:
        row, is_copied = name.removesuffix(_COPIED), name.endswith(_COPIED)
        method = plan.method(DP if row == ALONE else row)
        method = replace(method, part="head") if row == ALONE else method
        trunk = _trunk(plan, method.part, len(data.activities))
        some = _copies(films, numbers, plan.copies or 1) if is_copied else films
        found[name] = seen.rows_of(some, method, plan.begun(), trunk, device=plan.device)
    return found


@lru_cache(maxsize=4)
def _trunk(plan: MaskDpTables, part: str, classes: int) -> Any:
    network = plan.begun()
    return network.split(network.make(classes, seed=0).to(plan.device), part)[0]


def _copies(films: seen.InMemory, numbers: range, count: int) -> seen.InMemory:
    found = [
        copied(film, rng=np.random.default_rng((number, turn)))
        for number, film in zip(numbers, films.films, strict=True)
        for turn in range(count)
    ]
    return replace(films, films=found)


def _cell(
    plan: MaskDpTables, asked: Asked, rows: Rows, exam: Rows, classes: tuple[str, ...]
) -> Cell:
    row = ROWS[asked.name]
    method = plan.method(asked.name, asked.epsilon, relation=asked.relation)
    if asked.is_copied:  # each recording is several units, and is seen as often
        method = replace(method, epochs=method.epochs / (plan.copies or 1))
    physical = _SCRATCH_PHYSICAL[plan.device] if row.from_scratch else _PHYSICAL
    steps, scores, weights = planned(method, rows.units), [], 0
    for seed in range(plan.seeds or 1):
        net = plan.begun(from_scratch=row.from_scratch).make(len(classes), seed=seed)
        again = replace(method, public_seed=seed)
        tail = seen.taught(net.to(plan.device), rows, again, steps, physical=physical)
        weights = sum(held.numel() for held in tail.parameters() if held.requires_grad)
        scores.append(seen.is_right(tail, exam))
    truth = exam.targets.cpu().numpy()
    return Cell(
        method=asked.name,
        epsilon=asked.epsilon,
        relation=asked.relation,
        top_1=tuple(float(right.mean()) for right in scores),
        per_class={
            classes[one]: tuple(float(right[truth == one].mean()) for right in scores)
            for one in np.unique(truth)
        },
        proved={r.value: steps.epsilon(r) for r in RELATIONS} if steps.noise_multiplier > 0 else {},
        noise_multiplier=steps.noise_multiplier,
        noise_norm=steps.sigma * math.sqrt(weights) / steps.sampler.expected,
        steps=steps.steps,
        tested=exam.units,
    )


def _alone(plan: MaskDpTables, data: Stage, exam: Rows) -> Cell:
    """What the public weights know already, from a handful of public examples of each class."""
    shown = public_alone.examples(data)
    draws = [
        public_alone.handful(shown, each=public_alone.EACH, seed=s) for s in range(plan.seeds or 1)
    ]
    numbers = sorted({number for some in draws for number in some})
    known = public_alone.features(plan.begun(), shown, numbers, device=plan.device)
    handfuls = [[numbers.index(number) for number in some] for some in draws]
    values, truth = exam.private.cpu().numpy(), exam.targets.cpu().numpy()

    def shares(is_meant: np.ndarray) -> tuple[float, ...]:
        asked = public_alone.Features(values=values[is_meant], targets=truth[is_meant])
        return tuple(public_alone.nearest(known, handfuls, asked).shares)

    return Cell(
        method=ALONE,
        epsilon=math.inf,
        top_1=shares(truth >= 0),
        per_class={data.activities[one]: shares(truth == one) for one in np.unique(truth)},
        proved={},
        noise_multiplier=0.0,
        steps=0,
        tested=exam.units,
    )


def _about(data: Collection[Any], plan: MaskDpTables) -> str:
    if not isinstance(data, Stage):
        return data.ABOUT.title
    world = data.world
    chances = ", ".join(f"{one:g}" for one in plan.correlations or (world.correlation,))
    return (
        f"Stage, {world.subjects} people in {world.videos} videos of {world.frames} frames, "
        f"{world.height} x {world.width}, world {world.seed}, activity and place together with "
        f"chance {chances}"
    )
