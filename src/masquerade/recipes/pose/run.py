"""Measure the pose tables: photos are read once; each cell is trained and tested.

Needs no camera, no ledger and no screen: numpy, scipy, torch and safetensors, and what the
accountant and the noise need.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from masquerade import _json
from masquerade.collection import Collection
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput
from masquerade.recipes import bench
from masquerade.recipes.pose.classroom import AskedPose
from masquerade.recipes.pose.crew import trained
from masquerade.recipes.pose.photos import first_private, kept_albums, sized
from masquerade.recipes.pose.rows import BOTH, FEATURES_ONLY, FREE, NO_PRIVACY, PoseCell, PoseFound
from masquerade.scores import Success
from masquerade.training.views import Psi

if TYPE_CHECKING:
    from masquerade.recipes.pose import PoseTables


def measure(
    plan: PoseTables,
    data: Collection[Any],
    *,
    journal: bench.Journal,
    told: bench.Told = bench.quiet,
) -> PoseFound:
    """Every cell, unless the journal has it; with ``kept_only`` those that it has.

    Args:
        plan: settled.
        data: of photos.
        journal: of the run.
        told: how far it is.
    """
    data = sized(data) if isinstance(data, Stage) else data
    wanted, coarse = list(asked(plan)), list(asked_coarse(plan))
    missing = [one for one in (*wanted, *coarse) if one.said not in journal.held]
    if missing and not plan.kept_only:
        held = kept_albums(
            plan.out,
            data,
            most=plan.taught,
            tested=plan.tested,
            public=plan.public_records or 1,
            device=plan.device,
            told=told,
        )
        if coarse and plan.named and not held.private.subjects:
            raise BadInput(
                f"Expected photos of people with names for --blocks, got {data.ABOUT.title} "
                "without; give --no-named as well."
            )
        jobs = plan.jobs or len(os.sched_getaffinity(0))
        lessons = [(plan, one) for one in missing]
        crew = trained(held, lessons, workers=plan.workers, jobs=jobs)
        for number, ((_, one), cell) in enumerate(crew):
            journal.note(one.said, cell)
            told("training", number + 1, len(missing))

    def found(some: Sequence[AskedPose]) -> tuple[PoseCell, ...]:
        kept = (journal.held[one.said] for one in some if one.said in journal.held)
        return tuple(_json.decode(PoseCell, one) for one in kept)

    cells, shown = found(wanted), found(coarse)
    if not cells:
        raise BadInput(f"Expected cells of a stopped run in {plan.out}, got none; run it first.")
    return PoseFound(
        cells=cells,
        coarse=shown,
        plan=plan,
        about=_about(data),
        taught=max(cell.taught for cell in cells),
        tested=max(cell.tested for cell in cells),
        named=_named(plan, data, journal, told) if shown and plan.named else {},
    )


def _named(
    plan: PoseTables, data: Collection[Any], journal: bench.Journal, told: bench.Told
) -> dict[str, Success]:
    """How often an attacker names people by whole photos, and by psi of each size of blocks."""
    from masquerade.recipes.pose import readable  # only this needs what looks at bodies

    rules: list[Psi | None] = [None, *(_pooled(plan, block) for block in plan.blocks)]
    known = {"" if psi is None else psi.said: psi for psi in rules}
    asked = {said: f"named by {said or 'whole photos'}" for said in known}
    missing = [said for said, name in asked.items() if name not in journal.held]
    if missing:
        album, looks = first_private(data, readable.PHOTOS, told=told), readable.eyes()
        for number, said in enumerate(missing):
            journal.note(asked[said], readable.named(album, known[said], looks=looks))
            told("naming people", number + 1, len(missing))
    return {said: _json.decode(Success, journal.held[name]) for said, name in asked.items()}


def _pooled(plan: PoseTables, block: int) -> Psi:
    return Psi(kind="pool", block=block, bits=plan.bits or 4)


def asked(plan: PoseTables) -> Iterator[AskedPose]:
    """The cells of the tables, those that tell most first: a stopped run has whole rows of them.

    Rows without noise come first; then the largest clip norm, with the largest and the smallest
    epsilon before all others.
    """
    strategies = plan.strategies or ()
    for strategy in strategies:
        names = FREE if strategy != "scratch" else (NO_PRIVACY, FEATURES_ONLY)
        yield from (AskedPose(method=name, strategy=strategy) for name in names)
    for strategy in strategies:
        for relation in plan.relations:
            for clip_norm in sorted(plan.clip_norms or (), reverse=True):
                for epsilon in _telling(plan.epsilons or ()):
                    for name in plan.methods:
                        yield AskedPose(
                            method=name,
                            strategy=strategy,
                            epsilon=epsilon,
                            clip_norm=clip_norm,
                            relation=relation,
                        )


def _telling(epsilons: Sequence[float]) -> list[float]:
    """Both ends first."""
    falling = sorted(epsilons, reverse=True)
    return falling if len(falling) < 3 else [falling[0], falling[-1], *falling[1:-1]]


def asked_coarse(plan: PoseTables) -> Iterator[AskedPose]:
    """The cells of the frontier: how coarse public pictures are, at the largest epsilon."""
    for block in plan.blocks:
        psi = _pooled(plan, block)
        first = (plan.strategies or ("all",))[0]
        yield AskedPose(method=FEATURES_ONLY, strategy=first, psi=psi)
        yield AskedPose(
            method=BOTH,
            strategy=first,
            epsilon=max(plan.epsilons or (0.8,)),
            clip_norm=(plan.clip_norms or (1.0,))[-1],
            psi=psi,
        )


def _about(data: Collection[Any]) -> str:
    if not isinstance(data, Stage):
        return data.ABOUT.title
    world = data.world
    roll = f", cameras turned by up to {world.photo_roll_deg:g} degrees"
    return (
        f"Stage, {world.subjects} people in {world.photos} photos of {world.photo_px} x "
        f"{world.photo_px} pixels, world {world.seed}{roll if world.photo_roll_deg else ''}"
    )
