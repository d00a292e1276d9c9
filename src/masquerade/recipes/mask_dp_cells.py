"""One cell of MaskDP's tables: a way of learning, at an epsilon, trained and tested a few times.

Needs no camera, no ledger and no screen: numpy, scipy, torch, torchvision and safetensors, and what
the accountant and the noise need.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from masquerade import _check
from masquerade._optional import require
from masquerade.guarantee import Relation
from masquerade.nets import mvit
from masquerade.noise import Noise
from masquerade.recipes.mask_dp_rows import Held
from masquerade.train import loop
from masquerade.train.dp_sgd import DpSgd
from masquerade.train.mask_dp import MaskDp
from masquerade.train.method import Method
from masquerade.train.multi_clip import MultiClip
from masquerade.train.public_part import PublicPart
from masquerade.train.rows import Rows

torch = require("torch", extra="train")
RELATIONS = (Relation.ZERO_OUT, Relation.REPLACE_ONE)
SEGMENTS = 3
WHOLE, PIXELS = "whole recording", "private pixels of one recording"
DP, MULTI_CLIP, MASK_DP, SHARED = "DP", "MultiClip", "MaskDP", "MaskDP, shared batch"
PUBLIC, SCRATCH = "public part only", "DP from scratch"
_PHYSICAL = {"cpu": 64, "cuda": 192}  # units whose gradients are computed at once
_SCRATCH_PHYSICAL = {"cpu": 8, "cuda": 64}


@dataclass(frozen=True, kw_only=True)
class Row:
    """A way of learning.

    Args:
        learner: its method.
        unit: what it protects, in words.
        fields: in which it differs from the others.
        from_scratch: whether the whole network is trained, from random weights.
    """

    learner: type[Method]
    unit: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    from_scratch: bool = False

    @property
    def is_claim(self) -> bool:
        """Whether the epsilon that is asked for is only claimed."""
        return self.fields.get("form") == "as_published"


ROWS = {
    DP: Row(learner=DpSgd, unit=WHOLE),
    MULTI_CLIP: Row(learner=MultiClip, unit=WHOLE, fields={"segments": SEGMENTS}),
    MASK_DP: Row(learner=MaskDp, unit=PIXELS),
    SHARED: Row(learner=MaskDp, unit=PIXELS, fields={"form": "as_published"}),
    PUBLIC: Row(learner=PublicPart, unit="nothing; no private pixel is read"),
    SCRATCH: Row(
        learner=DpSgd,
        unit=WHOLE,
        fields={"part": "all", "optimiser": "adam", "learning_rate": 1e-3},
        from_scratch=True,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What all cells of a table share; every field is public.

    Args:
        network: which one.
        weights: public weights for it; ours if None.
        part: what is trained of a pre-trained network.
        epochs: of every run.
        scratch_epochs: of those from scratch.
        batch: units in a private batch, on average, and in a public one.
        seeds: runs of each cell.
        device: where.
        private: which side of the mask is.
        relation: under which every row meets its epsilon.
    """

    network: str = "mvit_small"
    weights: Path | None = None
    part: str = "head"
    epochs: float = 20.0
    scratch_epochs: float = 20.0
    batch: int = 128
    seeds: int = 3
    device: str = "cpu"
    private: str = "background"
    relation: str = "replace_one"

    def __post_init__(self) -> None:
        _check.count(seeds=self.seeds, batch=self.batch)

    def method(self, name: str, epsilon: float, *, public_seed: int = 0) -> Method:
        """The method of a row at an epsilon."""
        row = ROWS[name]
        fields: dict[str, Any] = {
            "epsilon": epsilon,
            "unit": "video",
            "relation": self.relation,
            "batch": self.batch,
            "epochs": self.scratch_epochs if row.from_scratch else self.epochs,
            "part": self.part,
            "public_seed": public_seed,
        }
        if row.learner.HAS_PUBLIC:
            fields |= {"private": self.private, "public_batch": self.batch}
        return row.learner(**(fields | dict(row.fields)))

    def net(self, classes: int, *, seed: int = 0, from_scratch: bool = False) -> Any:
        """The network before it is trained, with a head of zeros, on the device."""
        torch.manual_seed(seed)
        if from_scratch:
            made = mvit.make(self.network, classes=classes)
        elif self.weights is None:
            made = mvit.pretrained(self.network, classes=classes)
        else:
            made = mvit.make(self.network, classes=classes)
            mvit.load_weights(made, self.weights)
        for parameter in made.head.parameters():
            torch.nn.init.zeros_(parameter)
        return made.to(self.device)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell of the table.

    Args:
        method: its row.
        unit: what is protected.
        epsilon: that was asked for; inf for no noise.
        top_1: on the test split, one number a seed.
        per_class: the same for each class, by name.
        proved: epsilon by relation; empty without noise.
        noise_multiplier: z.
        steps: of a run.
    """

    method: str
    unit: str
    epsilon: float
    top_1: tuple[float, ...]
    per_class: Mapping[str, tuple[float, ...]]
    proved: Mapping[str, float]
    noise_multiplier: float
    steps: int

    @property
    def mean(self) -> float:
        """Over seeds."""
        return float(np.mean(self.top_1))

    @property
    def spread(self) -> float:
        """The standard deviation over seeds; NaN from one alone."""
        return spread(self.top_1)

    @property
    def mean_per_class(self) -> float:
        """The mean over classes, however many recordings each has, and over seeds."""
        return float(np.mean([np.mean(shares) for shares in self.per_class.values()]))

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        found = {name: getattr(self, name) for name in self.__dataclass_fields__}
        found["epsilon"] = None if self.epsilon == math.inf else self.epsilon
        found["per_class"] = {name: list(shares) for name, shares in self.per_class.items()}
        found["top_1"], found["proved"] = list(self.top_1), dict(self.proved)
        return found | {"mean": self.mean, "mean_per_class": self.mean_per_class}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Cell:
        """From JSON."""
        found = {name: plain[name] for name in cls.__dataclass_fields__}
        found["epsilon"] = math.inf if plain["epsilon"] is None else plain["epsilon"]
        found["top_1"] = tuple(plain["top_1"])
        found["per_class"] = {name: tuple(shares) for name, shares in plain["per_class"].items()}
        return cls(**found)


def spread(shares: tuple[float, ...]) -> float:
    """The standard deviation over seeds; NaN from one alone."""
    return float(np.std(shares, ddof=1)) if len(shares) > 1 else math.nan


def measured(
    setting: Setting,
    wanted: Mapping[str, tuple[float, ...]],
    splits: tuple[Held, Held],
    classes: tuple[str, ...],
    *,
    known: tuple[Cell, ...] = (),
) -> Iterator[Cell]:
    """Every cell, one after the other.

    The public part has no noise, so it is trained once and stands at every epsilon.

    Args:
        setting: that all share.
        wanted: the epsilons of each row.
        splits: what is learned from, and what is tested on.
        classes: their names.
        known: cells that need not be measured again.
    """
    have = {(cell.method, cell.epsilon): cell for cell in known}
    for name, epsilons in wanted.items():
        last: Cell | None = None
        for epsilon in epsilons:
            last = have.get((name, epsilon)) or (
                replace(last, epsilon=epsilon)
                if last is not None and name == PUBLIC
                else _cell(setting, name, epsilon, splits, classes)
            )
            yield last


def _cell(
    setting: Setting,
    name: str,
    epsilon: float,
    splits: tuple[Held, Held],
    classes: tuple[str, ...],
) -> Cell:
    row, method = ROWS[name], setting.method(name, epsilon)
    taught, tested = splits
    rows = _rows(row, method, taught)
    physical = (_SCRATCH_PHYSICAL if row.from_scratch else _PHYSICAL)[setting.device]
    plan = method.plan(rows.units)
    scores = []
    for seed in range(setting.seeds):
        net = setting.net(len(classes), seed=seed, from_scratch=row.from_scratch)
        _, tail = mvit.split(net, method.part)
        loop.run(
            tail,
            rows,
            setting.method(name, epsilon, public_seed=seed),
            plan,
            noise=Noise(),
            work=loop.Workload(physical=min(physical, rows.units)),
            progress=lambda done, total: None,
        )
        inputs = tested.films if row.from_scratch else tested.middle
        scores.append(_shares(tail, inputs, tested.targets, classes))
    has_noise = plan.noise_multiplier > 0
    return Cell(
        method=name,
        unit=row.unit,
        epsilon=epsilon,
        top_1=tuple(top_1 for top_1, _ in scores),
        per_class={one: tuple(found[one] for _, found in scores) for one in scores[0][1]},
        proved={r.value: plan.epsilon(r) for r in RELATIONS} if has_noise else {},
        noise_multiplier=plan.noise_multiplier,
        steps=plan.steps,
    )


def _rows(row: Row, method: Method, taught: Held) -> Rows:
    if row.from_scratch:
        return taught.film_rows()
    return taught.rows(segments=method.segments, has_public=method.HAS_PUBLIC)


def _shares(
    tail: Any, inputs: Any, targets: Any, classes: tuple[str, ...]
) -> tuple[float, dict[str, float]]:
    """How often it is right, in all and for each class that has recordings."""
    with torch.no_grad():
        parts = [tail(inputs[start : start + 64]) for start in range(0, len(inputs), 64)]
    is_right = (torch.cat(parts).argmax(dim=1) == targets).cpu().numpy()
    wanted = targets.cpu().numpy()
    found = {
        name: float(is_right[wanted == number].mean())
        for number, name in enumerate(classes)
        if (wanted == number).any()
    }
    return float(is_right.mean()), found
