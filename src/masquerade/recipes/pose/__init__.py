"""Private pose estimation's tables: methods over epsilon, clip norms and what is trained."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from masquerade import _check
from masquerade._torch import torch
from masquerade.collection import Collection
from masquerade.networks.network import Network, network_class
from masquerade.recipes import bench
from masquerade.recipes.pose import page as pages
from masquerade.recipes.pose import photos
from masquerade.recipes.pose import run as runs
from masquerade.recipes.pose.rows import (
    BOTH,
    FEATURE,
    FEATURES_ONLY,
    FREE,
    LEARNERS,
    PHOTOS_ONLY,
    PROJECTED,
    PoseFound,
)
from masquerade.recipes.pose.settings import PRESETS
from masquerade.recipes.preset import settled
from masquerade.result import Answer
from masquerade.training.featured import Featured
from masquerade.training.method import Method
from masquerade.training.projecting import Projecting

if TYPE_CHECKING:
    from masquerade.recipes.pose.classroom import AskedPose


_QUICK: dict[str, Any] = {
    "epsilons": (0.8,),
    "clip_norms": (0.1,),
    "strategies": ("head",),  # what comes before it is frozen, and seen once by it
    "taught": 256,
    "tested": 96,
    "public_records": 48,
    "directions": 48,
    "batch": 64,
    "seeds": 2,
}


@dataclass(frozen=True, kw_only=True)
class PoseTables:
    """Train with and without noise, in a subspace and with public pictures; write the tables.

    What is left open follows from the setting. The whole grid is hundreds of runs: name few
    epsilons, clip norms and strategies. A run that is stopped goes on where it was.

    Args:
        out: folder for the results; it is made.
        page: page of the docs to which a section is added.
        setting: stage, chosen on another world of it, or paper, as its code has it.
        network: which one.
        weights: public weights for it.
        epsilons: columns of the tables.
        clip_norms: C; tables show the best of them, figures all.
        strategies: what is trained: last_stage with all norms and the head, all, scratch (all, from
            random weights), or head.
        methods: private rows.
        relations: under which every row meets its epsilon, a table for each.
        delta: of every epsilon.
        batch: photos in a private batch, on average, and in a public one.
        epochs: of every run.
        learning_rate: of DP-SGD, and of the rows below where theirs is None.
        subspace_learning_rate: of projected.
        feature_learning_rate: of feature.
        both_learning_rate: of feature-projective.
        clean_learning_rate: of rows without noise.
        psi_learning_rate: of public features only, where it is another.
        photos_learning_rate: of public photos only, likewise.
        schedule: of the learning rate.
        optimiser: of every row.
        directions: k, of the subspace.
        public_records: public photos by which it is found.
        refresh: steps after which it is found anew.
        order: project_first or clip_first.
        psi: how public pictures are made: pool or blur.
        block: side of a block in pixels of the crop, for pool.
        bits: of each mean, for pool.
        weight: lambda, of the public gradient.
        fade: whether lambda stays or falls to 0 along a cosine.
        feature_weight: lambda of feature, where it is another.
        feature_fade: likewise.
        blocks: sides of blocks of the frontier, how coarse psi may be; none for no frontier.
        named: whether an attacker names people by psi of the frontier, too.
        seeds: runs of each cell.
        taught: private photos, the first ones; all if None.
        tested: photos to test on, likewise.
        device: where it is trained.
        jobs: processes that make public pictures; 0 for one a core.
        workers: processes that train cells side by side, on the same device.
        physical: photos whose gradients are computed at once; by the device if None.
        kept_only: train nothing, and write the page from what a stopped run has kept.
        quick: one epsilon, one clip norm, the head alone, few photos, two seeds.
    """

    ENTRIES: ClassVar[tuple[tuple[str, ...], ...]] = (("data", "datasets", "stage"),)

    out: Path = Path("out/pose")
    page: Path | None = None
    setting: Literal["stage", "paper"] = "stage"
    network: Literal["tiny_vit_small", "tiny_vit_5m", "tiny_vit_11m", "tiny_vit_21m"] | None = None
    weights: Path | None = None
    epsilons: tuple[float, ...] | None = None
    clip_norms: tuple[float, ...] | None = None
    strategies: tuple[Literal["last_stage", "all", "scratch", "head"], ...] | None = None
    methods: tuple[Literal["DP-SGD", "projected", "feature", "feature-projective"], ...] = (
        "DP-SGD",
        "projected",
        "feature",
        "feature-projective",
    )
    relations: tuple[Literal["replace_one", "zero_out"], ...] = ("replace_one",)
    delta: float | None = None
    batch: int | None = None
    epochs: float | None = None
    learning_rate: float | None = None
    subspace_learning_rate: float | None = None
    feature_learning_rate: float | None = None
    both_learning_rate: float | None = None
    clean_learning_rate: float | None = None
    psi_learning_rate: float | None = None
    photos_learning_rate: float | None = None
    schedule: Literal["cosine", "constant", "step"] | None = None
    optimiser: Literal["sgd", "adam", "adamw"] | None = None
    directions: int | None = None
    public_records: int | None = None
    refresh: int | None = None
    order: Literal["project_first", "clip_first"] | None = None
    psi: Literal["pool", "blur"] | None = None
    block: int | None = None
    bits: int | None = None
    weight: float | None = None
    fade: Literal["none", "cosine"] | None = None
    feature_weight: float | None = None
    feature_fade: Literal["none", "cosine"] | None = None
    blocks: tuple[int, ...] = ()
    named: bool = True
    seeds: int | None = None
    taught: int | None = None
    tested: int | None = None
    device: Literal["cpu", "cuda"] = "cpu"
    jobs: int = 0
    workers: int = 1
    physical: int | None = None
    kept_only: bool = False
    quick: bool = False

    def __post_init__(self) -> None:
        counts = ["batch", "seeds", "taught", "tested", "directions", "public_records", "refresh"]
        counts += ["workers", "physical"]
        rates = [
            f"{row}learning_rate"
            for row in ("", "subspace_", "feature_", "both_", "clean_", "psi_", "photos_")
        ]
        sizes = ("epochs", *rates)
        for names, check in (
            (counts, _check.count),
            ((*sizes, "weight", "feature_weight"), _check.positive),
        ):
            given = {name: getattr(self, name) for name in names}
            check(**{name: value for name, value in given.items() if value is not None})
        for name in ("epsilons", "clip_norms", "strategies", "methods", "relations"):
            if getattr(self, name) == ():
                raise ValueError(f"Expected at least one of {name}, got none.")
        for name in ("epsilons", "clip_norms", "blocks"):
            for value in getattr(self, name) or ():
                _check.positive(**{name: value})
        if self.delta is not None:
            _check.delta(delta=self.delta)

    def settled(self) -> PoseTables:
        """The plan as it is run: what was left open filled in, or shortened."""
        missing = {name: value for name, value in _QUICK.items() if getattr(self, name) is None}
        return settled(replace(self, **missing) if self.quick else self, PRESETS)

    @property
    def left_open(self) -> tuple[str, ...]:
        """What the setting's source does not say, and what was taken."""
        return PRESETS[self.setting].left_open

    def run(self, data: Collection[Any]) -> Answer:
        """Read once, train many times, test each."""
        plan = self.settled()
        journal = bench.Journal.of(plan, data)
        if plan.kept_only:
            journal = replace(journal, path=None)  # a stopped run may still go on
        with bench.telling() as told:
            found = plan.measure(data, journal=journal, told=told)
        results = bench.Results(
            title=pages.title(found),
            text=pages.markdown(found),
            data=pages.plain(found),
            plots=pages.plots(found),
        )
        answer = results.publish(self, data, journal)
        if not plan.kept_only:
            for path in plan.out.glob(f"{photos.KEPT}*"):
                path.unlink()
        return answer

    def measure(
        self, data: Collection[Any], *, journal: bench.Journal, told: bench.Told = bench.quiet
    ) -> PoseFound:
        """Every cell; needs nothing that reads video files, keeps ledgers or draws on a screen."""
        if self.device == "cuda" and not self.kept_only and not torch.cuda.is_available():
            raise ValueError("Expected a GPU for device=cuda, found none; use device=cpu.")
        return runs.measure(self.settled(), data, journal=journal, told=told)

    def method(self, one: AskedPose) -> Method:
        """The method of a cell."""
        plan, learner = self.settled(), LEARNERS[one.method]
        fields: dict[str, Any] = {
            "epsilon": one.epsilon,
            "delta": plan.delta,
            "unit": "record",
            "relation": one.relation,
            "batch": plan.batch,
            "epochs": plan.epochs,
            "clip_norm": one.clip_norm
            or 1.0,  # a record that pulls hard is shortened without it too
            "learning_rate": plan.rate(one.method),
            "schedule": plan.schedule,
            "warmup": 0.0 if plan.schedule == "step" else 0.1,
            "optimiser": plan.optimiser,
            "part": "all" if one.strategy == "scratch" else one.strategy,
        }
        if issubclass(learner, Featured):
            psi = {"psi": plan.psi, "block": plan.block, "bits": plan.bits}
            if one.psi is not None:
                psi = {"psi": one.psi.kind, "block": one.psi.block, "bits": one.psi.bits}
            fields |= psi | {"weight": plan.weight, "public_batch": plan.batch, "fade": plan.fade}
            if one.method == FEATURE:
                own = {"weight": plan.feature_weight, "fade": plan.feature_fade}
                fields |= {name: value for name, value in own.items() if value is not None}
        if issubclass(learner, Projecting):
            names = ("directions", "public_records", "refresh", "order")
            fields |= {name: getattr(plan, name) for name in names}
        return learner(**fields)

    def rate(self, name: str) -> float | None:
        """The learning rate of a row."""
        own = {
            PROJECTED: self.subspace_learning_rate,
            FEATURE: self.feature_learning_rate,
            BOTH: self.both_learning_rate,
        } | dict.fromkeys(FREE, self.clean_learning_rate)
        own |= {
            FEATURES_ONLY: self.psi_learning_rate or self.clean_learning_rate,
            PHOTOS_ONLY: self.photos_learning_rate or self.clean_learning_rate,
        }
        return own.get(name) or self.learning_rate

    def begun(self, strategy: str) -> Network:
        """The network before it is trained, from public weights or random ones."""
        fields = {"from_scratch": True} if strategy == "scratch" else {"weights": self.weights}
        return network_class(self.settled().network or "")(**fields)


EXAMPLE = PoseTables()
