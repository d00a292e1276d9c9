"""Measure the pose tables: photos are read once; each cell is trained and tested.

Needs no camera, no ledger and no screen: numpy, scipy, torch and safetensors, and what the
accountant and the noise need.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from masquerade import _json, joints
from masquerade._torch import Tensor, torch
from masquerade.collection import Collection
from masquerade.data.stage import Stage
from masquerade.guarantee import Relation
from masquerade.nets import pose_crops, simcc
from masquerade.noise import Noise
from masquerade.recipes import bench
from masquerade.recipes.pose.photos import PersonAlbum, PoseAlbums, albums, public_pictures, sized
from masquerade.recipes.pose.rows import (
    ALONE,
    BOTH,
    FEATURES_ONLY,
    FREE,
    NO_PRIVACY,
    PHOTOS_ONLY,
    PoseCell,
    PoseFound,
)
from masquerade.train import loop
from masquerade.train.featured import Featured
from masquerade.train.method import Method, planned
from masquerade.train.psi import Psi
from masquerade.train.rows import Rows
from masquerade.utility.pose import pckh

if TYPE_CHECKING:
    from masquerade.recipes.pose import PoseTables

_TOGETHER = {"cpu": 16, "cuda": 256}  # photos that the trunk sees at once
_PHYSICAL = {"cpu": 16, "cuda": 640}
_SHARES = (0.5, 0.1)  # of the head's size
_RELATIONS = (Relation.ZERO_OUT, Relation.REPLACE_ONE)


@dataclass(frozen=True, kw_only=True)
class AskedPose:
    """A cell that is to be measured."""

    method: str
    strategy: str
    epsilon: float = math.inf
    clip_norm: float = 0.0
    relation: str = Relation.REPLACE_ONE.value
    psi: Psi | None = None

    @property
    def said(self) -> str:
        """Its name in the journal."""
        found = f"{self.method}, {self.strategy}"
        if self.method not in FREE:
            found += f", epsilon {self.epsilon:g}, C {self.clip_norm:g}, {self.relation}"
        return found if self.psi is None else f"{found}, {self.psi.said}"


def measure(
    plan: PoseTables,
    data: Collection[Any],
    *,
    journal: bench.Journal,
    told: bench.Told = bench.quiet,
) -> PoseFound:
    """Every cell, unless the journal has it.

    Args:
        plan: settled.
        data: of photos.
        journal: of the run.
        told: how far it is.
    """
    data = sized(data) if isinstance(data, Stage) else data
    held = albums(
        data,
        most=plan.taught,
        tested=plan.tested,
        public=plan.public_records or 1,
        device=plan.device,
        told=told,
    )
    wanted = list(asked(plan))
    coarse = list(asked_coarse(plan))
    missing = [one for one in (*wanted, *coarse) if one.said not in journal.held]
    room = Classroom(plan, held)
    for number, one in enumerate(missing):
        journal.note(one.said, room.cell(one))
        told("training", number + 1, len(missing))

    def found(some: Sequence[AskedPose]) -> tuple[PoseCell, ...]:
        return tuple(_json.decode(PoseCell, journal.held[one.said]) for one in some)

    return PoseFound(
        cells=found(wanted),
        coarse=found(coarse),
        plan=plan,
        about=_about(data),
        taught=len(held.private),
        tested=len(held.tested),
    )


def asked(plan: PoseTables) -> Iterator[AskedPose]:
    """The cells of the tables; what costs least first, so that a stopped run has whole rows."""
    strategies = plan.strategies or ()
    for strategy in strategies:
        names = FREE if strategy != "scratch" else (NO_PRIVACY, FEATURES_ONLY)
        yield from (AskedPose(method=name, strategy=strategy) for name in names)
    for strategy in strategies:
        for relation in plan.relations:
            for epsilon in sorted(plan.epsilons or (), reverse=True):
                for clip_norm in plan.clip_norms or ():
                    for name in plan.methods:
                        yield AskedPose(
                            method=name,
                            strategy=strategy,
                            epsilon=epsilon,
                            clip_norm=clip_norm,
                            relation=relation,
                        )


def asked_coarse(plan: PoseTables) -> Iterator[AskedPose]:
    """The cells of the frontier: how coarse public pictures are, at the largest epsilon."""
    for block in plan.blocks:
        psi = Psi(kind="pool", block=block, bits=plan.bits or 4)
        first = (plan.strategies or ("all",))[0]
        yield AskedPose(method=FEATURES_ONLY, strategy=first, psi=psi)
        yield AskedPose(
            method=BOTH,
            strategy=first,
            epsilon=max(plan.epsilons or (0.8,)),
            clip_norm=(plan.clip_norms or (1.0,))[-1],
            psi=psi,
        )


class Classroom:
    """Trains and tests cells; what a frozen trunk makes of photos is kept between them.

    Args:
        plan: settled.
        held: the photos.
    """

    def __init__(self, plan: PoseTables, held: PoseAlbums) -> None:
        self._plan, self._held = plan, held
        self._key: tuple[Any, ...] = ()
        self._rows: Mapping[str, Tensor] = {}

    def cell(self, one: AskedPose) -> PoseCell:
        """Train a cell as often as there are seeds, and test each."""
        if one.method == ALONE:
            network = self._plan.begun(one.strategy)
            _, tail = network.split(self._made(one, seed=0), one.strategy)
            shares = [self._tested(tail, self._seen(one, one.strategy, None))]
            return self._measured(one, shares * (self._plan.seeds or 1))
        method = self._plan.method(one)
        rows = self._lesson(one, method)
        if one.method == PHOTOS_ONLY:  # as many steps as the others have
            steps = method.epochs * len(self._held.private) / method.batch
            method = replace(method, epochs=steps * min(1.0, method.batch / rows.units))
        plan, shares = planned(method, rows.units), []
        for seed in range(self._plan.seeds or 1):
            _, tail = self._plan.begun(one.strategy).split(self._made(one, seed=seed), method.part)
            physical = min(_PHYSICAL[self._plan.device], rows.units)
            loop.run(
                tail,
                rows,
                replace(method, public_seed=seed),
                plan,
                noise=Noise(),
                work=loop.Workload(physical=physical),
                progress=lambda done, total: None,
            )
            shares.append(self._tested(tail, self._rows))
        proved = {r.value: plan.epsilon(r) for r in _RELATIONS} if plan.noise_multiplier else {}
        return replace(
            self._measured(one, shares),
            proved=proved,
            noise_multiplier=plan.noise_multiplier,
            steps=plan.steps,
            psi="" if rows.public is None or one.method == PHOTOS_ONLY else _psi_of(method),
        )

    def _measured(self, one: AskedPose, shares: list[tuple[float, ...]]) -> PoseCell:
        return PoseCell(
            method=one.method,
            strategy=one.strategy,
            epsilon=one.epsilon,
            clip_norm=one.clip_norm,
            relation=one.relation,
            pckh=tuple(each[0] for each in shares),
            fine=tuple(each[1] for each in shares),
            photo_error=float(np.mean([each[2] for each in shares])),
            tested=len(self._held.tested),
        )

    def _made(self, one: AskedPose, *, seed: int) -> Any:
        """The network before it is trained, where the device is."""
        names = self._held.private.names
        return self._plan.begun(one.strategy).make(len(names), seed=seed).to(self._plan.device)

    def _lesson(self, one: AskedPose, method: Method) -> Rows:
        """What a cell learns from, where the device is."""
        psi = method.made_public() if isinstance(method, Featured) else None
        is_aside = one.method == PHOTOS_ONLY
        seen = self._seen(one, method.part, None if is_aside else psi)
        guide = self._guide(seen["guide"])
        if is_aside:
            return replace(guide, public=guide.private)
        public = seen.get("psi")
        return Rows(
            private=seen["whole"] if method.HAS_PRIVATE or public is None else public,
            public=public,
            targets=torch.from_numpy(self._held.private.targets).to(self._plan.device),
            slots=np.arange(len(self._held.private))[:, None],
            guide=guide if method.HAS_SUBSPACE else None,
        )

    def _guide(self, seen: Tensor) -> Rows:
        count = self._plan.public_records or 1
        targets = torch.from_numpy(self._held.public.targets[:count])
        return Rows(
            private=seen[:count],
            public=None,
            targets=targets.to(self._plan.device),
            slots=np.arange(count)[:, None],
        )

    def _seen(self, one: AskedPose, part: str, psi: Psi | None) -> Mapping[str, Tensor]:
        """Photos as the trunk gives them, each view once as long as trunk and psi are the same."""
        key = one.strategy == "scratch", part
        if self._key != key:
            self._key, self._rows = key, {}
        made = {
            "whole": lambda: self._held.private.crops,
            "guide": lambda: self._held.public.crops,
            "exam": lambda: self._held.tested.crops,
            "turned": lambda: self._held.tested.crops[:, :, ::-1],
        }
        stays = tuple(made)
        name = "psi" if psi is None else psi.said
        if psi is not None:
            jobs = self._plan.jobs or len(os.sched_getaffinity(0))
            made[name] = lambda: public_pictures(self._held.private.crops, psi, jobs=jobs)
        missing = [each for each in made if each not in self._rows]
        if missing:
            trunk, _ = self._plan.begun(one.strategy).split(self._made(one, seed=0), part)
            kept = {each: self._given(trunk, made[each]()) for each in missing}
            others = {each: held for each, held in self._rows.items() if each in stays}
            self._rows = {**others, **kept}
        found = dict(self._rows)
        return found | ({"psi": found[name]} if psi is not None else {})

    def _given(self, trunk: Any, crops: np.ndarray) -> Tensor:
        """What the trunk makes of crops, some at a time."""
        step = _TOGETHER[self._plan.device]
        starts = range(0, len(crops), step)
        inputs = (pose_crops.as_inputs(crops[start : start + step]) for start in starts)
        with torch.no_grad():
            return torch.cat([trunk(some.to(self._plan.device)) for some in inputs])

    def _tested(self, tail: Any, seen: Mapping[str, Tensor]) -> tuple[float, ...]:
        """Shares of joints that are right, within half a head and a tenth, flip test included.

        And the standard error of the first, by how photos scatter.
        """
        exam, step = self._held.tested, _TOGETHER[self._plan.device]
        tail.eval()
        with torch.no_grad():
            straight, turned = (
                torch.cat([tail(some) for some in seen[view].split(step)])
                for view in ("exam", "turned")
            )
        said = simcc.both_ways(straight, simcc.unmirrored(turned, joints.mirrored(exam.names)))
        places = simcc.decoded(said, smoothing=tail.head.smoothing).joints.cpu().numpy()
        found = np.stack([r.back(p) for r, p in zip(exam.regions, places, strict=True)])
        half, tenth = (
            pckh(found, exam.joints, exam.head_px, names=exam.names, share=share).mean / 100
            for share in _SHARES
        )
        return half, tenth, _photo_error(found, exam)


def _photo_error(found: np.ndarray, exam: PersonAlbum) -> float:
    """The standard error of a mean over photos of their shares of right joints."""
    shares = [
        pckh(found[one], exam.joints[one], exam.head_px[one], names=exam.names).mean / 100
        for one in (slice(number, number + 1) for number in range(len(found)))
    ]
    known = np.array([share for share in shares if np.isfinite(share)])
    return float(known.std(ddof=1) / math.sqrt(len(known))) if len(known) > 1 else 0.0


def _psi_of(method: Method) -> str:
    return method.made_public().said if isinstance(method, Featured) else ""


def _about(data: Collection[Any]) -> str:
    if not isinstance(data, Stage):
        return data.ABOUT.title
    world = data.world
    roll = f", cameras turned by up to {world.photo_roll_deg:g} degrees"
    return (
        f"Stage, {world.subjects} people in {world.photos} photos of {world.photo_px} x "
        f"{world.photo_px} pixels, world {world.seed}{roll if world.photo_roll_deg else ''}"
    )
