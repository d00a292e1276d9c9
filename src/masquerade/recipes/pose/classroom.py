"""Trains and tests one cell of the pose tables after the other."""

from __future__ import annotations

import gc
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from masquerade import joints
from masquerade._torch import Tensor, torch
from masquerade.guarantee import Relation
from masquerade.networks import picture_crops, simcc
from masquerade.noise import Noise
from masquerade.quality.pose import pckh, shares_right
from masquerade.recipes.pose.photos import PoseAlbums, public_pictures
from masquerade.recipes.pose.rows import ALONE, FREE, PHOTOS_ONLY, PoseCell, written
from masquerade.training import loop
from masquerade.training.featured import Featured
from masquerade.training.method import Method, planned
from masquerade.training.plan import TrainingPlan
from masquerade.training.rows import Rows
from masquerade.training.views import Psi

if TYPE_CHECKING:
    from masquerade.recipes.pose import PoseTables


_TOGETHER = {"cpu": 16, "cuda": 256}  # photos that the trunk sees at once
_PHYSICAL = {"cpu": 16, "cuda": 640}
_LEAST = 16  # photos at once, of which every device must have room
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


@dataclass(frozen=True, kw_only=True, eq=False)
class PoseTest:
    """What a test gave.

    Args:
        half: share of joints within half a head.
        tenth: within a tenth.
        photos: the first share of each photo that counts.
        places: (N, J, 2) where joints were found, in each crop.
    """

    half: float
    tenth: float
    photos: np.ndarray
    places: np.ndarray


class Classroom:
    """Trains and tests cells; what a frozen trunk makes of photos is kept between them.

    Args:
        held: the photos.
        shown: public pictures of the private ones by what their psi is called, where they are made
            already.

    Attributes:
        last: the last test of the last cell.
    """

    def __init__(self, held: PoseAlbums, shown: Mapping[str, np.ndarray] | None = None) -> None:
        self._held, self._shown = held, shown or {}
        self._plan: PoseTables
        self.last: PoseTest | None = None
        self._key: tuple[Any, ...] = ()
        self._rows: Mapping[str, Tensor] = {}

    def cell(self, plan: PoseTables, one: AskedPose) -> PoseCell:
        """Train a cell of a settled plan as often as there are seeds, and test each."""
        self._plan = plan
        if one.method == ALONE:
            network = self._plan.begun(one.strategy)
            _, tail = network.split(self._made(one, seed=0), one.strategy)
            test = self._tested(tail, self._seen(one, one.strategy, None))
            return self._measured(one, [test] * (self._plan.seeds or 1))
        method = self._plan.method(one)
        rows, psi = self._lesson(one, method), psi_of(method)
        if one.method == PHOTOS_ONLY:  # as many steps as the others have
            steps = method.epochs * len(self._held.private) / method.batch
            method = replace(method, epochs=steps * min(1.0, method.batch / rows.units))
        noised, tests = planned(method, rows.units), []
        for seed in range(self._plan.seeds or 1):
            tail = self._taught(one, rows, method, noised, seed=seed)
            tests.append(self._tested(tail, self._rows))
        is_noisy = noised.noise_multiplier > 0
        return replace(
            self._measured(one, tests),
            proved={r.value: noised.epsilon(r) for r in _RELATIONS} if is_noisy else {},
            noise_multiplier=noised.noise_multiplier,
            steps=noised.steps,
            psi="" if psi is None or one.method == PHOTOS_ONLY else psi.said,
        )

    def _taught(
        self, one: AskedPose, rows: Rows, method: Method, plan: TrainingPlan, *, seed: int
    ) -> Any:
        """One run; where a shared device has too little memory, again in smaller pieces."""
        physical = min(self._plan.physical or _PHYSICAL[self._plan.device], rows.units)
        while True:
            net = self._made(one, seed=seed)
            _, tail = self._plan.begun(one.strategy).split(net, method.part)
            try:
                loop.run(
                    tail,
                    rows,
                    replace(method, public_seed=seed),
                    plan,
                    noise=Noise(),
                    work=loop.Workload(physical=physical),
                    progress=lambda done, total: None,
                )
            except torch.cuda.OutOfMemoryError:
                if physical <= _LEAST:
                    raise
                physical //= 2
            else:
                return tail
            finally:
                if self._plan.device == "cuda":
                    gc.collect()
                    torch.cuda.empty_cache()

    def _measured(self, one: AskedPose, tests: list[PoseTest]) -> PoseCell:
        self.last = tests[-1]
        return PoseCell(
            method=one.method,
            strategy=one.strategy,
            epsilon=one.epsilon,
            clip_norm=one.clip_norm,
            relation=one.relation,
            pckh=tuple(test.half for test in tests),
            fine=tuple(test.tenth for test in tests),
            photo_error=float(np.mean([_error(test.photos) for test in tests])),
            photos=written(np.mean([test.photos for test in tests], axis=0)),
            tested=len(self._held.tested),
            taught=len(self._held.private),
        )

    def _made(self, one: AskedPose, *, seed: int) -> Any:
        """The network before it is trained, where the device is."""
        names = self._held.private.names
        return self._plan.begun(one.strategy).make(len(names), seed=seed).to(self._plan.device)

    def _lesson(self, one: AskedPose, method: Method) -> Rows:
        """What a cell learns from, where the device is."""
        psi = psi_of(method)
        is_aside = one.method == PHOTOS_ONLY
        seen = self._seen(one, method.part, None if is_aside else psi)
        guide = self._guide(seen["guide"])
        if is_aside:
            return replace(guide, public=guide.private)
        public = seen.get("psi")
        return Rows(
            private=seen["whole"] if method.HAS_PRIVATE or public is None else public,
            public=public,
            targets=torch.from_numpy(np.array(self._held.private.targets)).to(self._plan.device),
            slots=np.arange(len(self._held.private))[:, None],
            guide=guide if method.HAS_SUBSPACE else None,
        )

    def _guide(self, seen: Tensor) -> Rows:
        count = self._plan.public_records or 1
        targets = torch.from_numpy(np.array(self._held.public.targets[:count]))
        return Rows(
            private=seen[:count],
            public=None,
            targets=targets.to(self._plan.device),
            slots=np.arange(count)[:, None],
        )

    def _seen(self, one: AskedPose, part: str, psi: Psi | None) -> Mapping[str, Tensor]:
        """Photos as the trunk gives them, each view once as long as trunk and psi are the same."""
        key = self._plan.network, self._plan.weights, one.strategy == "scratch", part
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
            made[name] = lambda: self._made_public(psi)
        missing = [each for each in made if each not in self._rows]
        if missing:
            trunk, _ = self._plan.begun(one.strategy).split(self._made(one, seed=0), part)
            kept = {each: self._given(trunk, made[each]()) for each in missing}
            others = {each: held for each, held in self._rows.items() if each in stays}
            self._rows = {**others, **kept}
        found = dict(self._rows)
        return found | ({"psi": found[name]} if psi is not None else {})

    def _made_public(self, psi: Psi) -> np.ndarray:
        if psi.said in self._shown:
            return self._shown[psi.said]
        jobs = self._plan.jobs or len(os.sched_getaffinity(0))
        return public_pictures(self._held.private.crops, psi, jobs=jobs)

    def _given(self, trunk: Any, crops: np.ndarray) -> Tensor:
        """What the trunk makes of crops, some at a time."""
        step = _TOGETHER[self._plan.device]
        starts = range(0, len(crops), step)
        # a copy: photos may lie in a file that several processes read
        inputs = (picture_crops.as_inputs(np.array(crops[s : s + step])) for s in starts)
        with torch.no_grad():
            return torch.cat([trunk(some.to(self._plan.device)) for some in inputs])

    def _tested(self, tail: Any, seen: Mapping[str, Tensor]) -> PoseTest:
        """How many joints are right within half a head and a tenth, flip test included."""
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
        each = shares_right(found, exam.joints, exam.head_px, names=exam.names)
        return PoseTest(half=half, tenth=tenth, photos=each[np.isfinite(each)], places=places)


def _error(photos: np.ndarray) -> float:
    """The standard error of a mean over photos of their shares of right joints."""
    return float(photos.std(ddof=1) / math.sqrt(len(photos))) if len(photos) > 1 else 0.0


def psi_of(method: Method) -> Psi | None:
    """The rule of a method's public pictures."""
    return method.made_public() if isinstance(method, Featured) else None
