"""Measure MaskDP's tables: recordings are read once, in all views; each cell is trained and tested.

Needs no camera, no ledger and no screen: numpy, scipy, torch, torchvision and safetensors, and what
the accountant and the noise need.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import delayed

from masquerade import _json
from masquerade.collection import Collection
from masquerade.datasets.stage import Stage
from masquerade.recipes import bench, seen
from masquerade.recipes.mask_dp import members
from masquerade.recipes.mask_dp.blocks import TableBlock, blocks_of
from masquerade.recipes.mask_dp.cells import Asked, ExamRows, alone, cell_of
from masquerade.recipes.mask_dp.copies import copied
from masquerade.recipes.mask_dp.rows import (
    ALONE,
    DP,
    MASK_DP,
    MULTI_CLIP,
    ROWS,
    SCRATCH,
    SHARED,
    Cell,
    Found,
)
from masquerade.recipes.membership import MembersFound
from masquerade.training.rows import Rows

if TYPE_CHECKING:
    from masquerade.recipes.mask_dp import MaskDpTables


Views = Mapping[str, Rows]  # by the row whose method has this view
_TOGETHER = 8  # recordings that are held at once as they are
_SMALL = 1 << 26  # bytes of rows that go to other processes
_COPIED = " in copies"  # after the name of a view


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
    blocks = blocks_of(plan, data, told)
    cells = [
        cell
        for block in blocks
        for cell in _of_block(asked, block, journal, partial(_measured, plan, block, told=told))
    ]
    units, tested = (len(part) for part in bench.parts(data))
    return Found(
        cells=tuple(cells),
        members=_members(plan, blocks[0].data, journal, told) if plan.membership else (),
        plan=plan,
        about=about(data, plan),
        units=min(units, plan.taught or units),
        tested=tested,
    )


def _members(
    plan: MaskDpTables, data: Collection[Any], journal: bench.Journal, told: bench.Told
) -> tuple[MembersFound, ...]:
    """Some recordings are read again, in the view that all rows share."""
    taught, tested = bench.parts(data)
    most = min(members.MOST, plan.taught or members.MOST)
    rows = read(plan, taught, {MASK_DP}, told, most=most)[MASK_DP]
    exam = read(plan, tested, {DP}, told)[DP]
    return members.measured(plan, rows, exam, taught, journal=journal, told=told)


def _of_block(
    asked: list[Asked],
    block: TableBlock,
    journal: bench.Journal,
    work: Callable[[list[Asked]], Iterator[tuple[Cell, ...]]],
) -> list[Cell]:
    """The cells of one block: those that are not noted are measured, each once."""
    names = {one.said: [block.named(one.said, films) for films in block.tested] for one in asked}
    new = {one.said: one for one in asked if set(names[one.said]) - set(journal.held)}
    if new:
        for said, cells in zip(new, work(list(new.values())), strict=True):
            for name, cell in zip(names[said], cells, strict=True):
                journal.note(name, cell)
    return [
        replace(
            _json.decode(Cell, journal.held[names[one.said][place]]),
            epsilon=one.epsilon,
            relation=one.relation,
            correlation=block.correlation,
            films=films,
        )
        for place, films in enumerate(block.tested)
        for one in asked
    ]


def _measured(
    plan: MaskDpTables, block: TableBlock, asked: list[Asked], *, told: bench.Told
) -> Iterator[tuple[Cell, ...]]:
    """Read the recordings, then train and test cell after cell."""
    if plan.device == "cuda" and isinstance(block.data, Stage):
        block.data.make(progress=partial(told, "drawing"), device="cuda")
    names = [one.name for one in asked if one.name != ALONE]
    views = {view(plan, name) for name in names}
    if (plan.copies or 1) > 1:
        views |= {view(plan, one.name) + _COPIED for one in asked if one.is_copied}
    taught = bench.parts(block.data)[0]
    lessons = read(plan, taught, views, told, most=plan.taught)
    wanted = {view(plan, one.name, is_test=True) for one in asked}
    found = [read(plan, bench.parts(of)[1], wanted, told) for of in block.tested.values()]
    exams = {name: ExamRows.of([views[name] for views in found]) for name in wanted}
    done = 0
    for cells in _trained(plan, block, asked, lessons, exams):
        done += 1
        told("training", done, len(asked))
        yield cells


def _trained(
    plan: MaskDpTables,
    block: TableBlock,
    asked: list[Asked],
    lessons: Views,
    exams: Mapping[str, ExamRows],
) -> Iterator[tuple[Cell, ...]]:
    """Cell after cell, several at once where rows are small enough to send about."""
    held = (*lessons.values(), *(exam.rows for exam in exams.values()))
    jobs, is_small = _jobs(plan), all(map(_is_small, held))

    def call(one: Asked) -> Callable[[], tuple[Cell, ...]]:
        exam = exams[view(plan, one.name, is_test=True)]
        if one.name == ALONE and block.stage is not None:
            return partial(alone, plan, block.stage, exam)
        return partial(cell_of, plan, one, _lesson(plan, one, lessons), exam, block.data.activities)

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


def about(data: Collection[Any], plan: MaskDpTables) -> str:
    """The data in words."""
    if not isinstance(data, Stage):
        return data.ABOUT.title
    world = data.world
    chances = ", ".join(f"{one:g}" for one in plan.correlations or (world.correlation,))
    return (
        f"Stage, {world.subjects} people in {world.videos} videos of {world.frames} frames, "
        f"{world.height} x {world.width}, world {world.seed}, activity and place together with "
        f"chance {chances}"
    )
