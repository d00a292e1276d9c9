"""Several processes that train cells of the pose tables side by side, on one device."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Generator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import joblib

from masquerade.io.workers import WorkerPool
from masquerade.recipes.pose.classroom import AskedPose, Classroom, psi_of
from masquerade.recipes.pose.photos import PoseAlbums, public_pictures
from masquerade.recipes.pose.rows import ALONE, PHOTOS_ONLY, PoseCell
from masquerade.training.views import Psi

if TYPE_CHECKING:
    from masquerade.recipes.pose import PoseTables

Lesson: TypeAlias = "tuple[PoseTables, AskedPose]"  # a settled plan, and a cell


def trained(
    held: PoseAlbums, wanted: Sequence[Lesson], *, workers: int, jobs: int
) -> Generator[tuple[Lesson, PoseCell], None, None]:
    """Cells as they are done, which with several workers is not their order.

    Args:
        held: the photos, which several processes read from one file.
        wanted: cells, each with its plan.
        workers: processes.
        jobs: processes that make public pictures.
    """
    if not wanted:
        return
    if workers == 1:
        room = Classroom(held)
        for lesson in wanted:
            yield lesson, room.cell(*lesson)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "photos"
        rules = {psi.said: psi for psi in map(_psi, wanted) if psi is not None}
        crops = held.private.crops
        shown = {said: public_pictures(crops, psi, jobs=jobs) for said, psi in rules.items()}
        joblib.dump((held, shown), path)
        del shown
        pool = WorkerPool(jobs=workers, threads=1)
        with contextlib.closing(pool.run_tasks(partial(_cell, path), wanted)) as outcomes:
            for outcome in outcomes:
                yield outcome.get_value()


def _psi(lesson: Lesson) -> Psi | None:
    plan, one = lesson
    return None if one.method in (ALONE, PHOTOS_ONLY) else psi_of(plan.method(one))


def _cell(path: Path, lesson: Lesson) -> tuple[Lesson, PoseCell]:
    return lesson, _room(path).cell(*lesson)


@lru_cache(maxsize=1)
def _room(path: Path) -> Classroom:
    held, shown = joblib.load(path, mmap_mode="r")
    return Classroom(held, shown)
