"""Private pose estimation's tables: methods over epsilon, clip norms and what is trained.

Photos are read once; each cell is trained and tested. Needs no camera, no ledger and no screen.
"""

from __future__ import annotations

import gc
import itertools
import math
import os
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final, Literal

import joblib
import numpy as np

from experiments import photos
from experiments.claims import Cells, Runs, Word, compare_runs, write_sentences
from experiments.engine import (
    Arm,
    Experiment,
    Preset,
    Run,
    Settings,
    check_settings,
    fill_settings,
    run_parallel,
)
from experiments.pages import Page, fill_row, make_curves, write_list, write_table
from experiments.photos import PoseAlbums
from masquerade import _check, _json, joints
from masquerade._formatting import format_rounded_up
from masquerade._torch import Tensor, torch
from masquerade.collection import Collection
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput
from masquerade.guarantee import Relation
from masquerade.networks import picture_crops, tiny_vit_pose
from masquerade.networks.network import Network, find_network_class
from masquerade.noise import Noise
from masquerade.quality.pose import compute_pckh, shares_right
from masquerade.report import plots
from masquerade.scores import MeasuredRate
from masquerade.training import loop
from masquerade.training.method import Method, make_training_plan
from masquerade.training.methods import (
    DpSgd,
    Featured,
    FeatureDp,
    FeatureProjective,
    Projected,
    PublicFeatures,
)
from masquerade.training.rows import Rows
from masquerade.training.views import Psi

# --- the table: arms, what is trained, presets

NO_PRIVACY, ALONE = "no privacy", "public weights alone"
PHOTOS_ONLY, FEATURES_ONLY = "public photos only", "public features only"
DP: Final = "DP-SGD"
PROJECTED: Final = "projected"
FEATURE: Final = "feature"
BOTH: Final = "feature-projective"
PoseNetwork = Literal["tiny_vit_small", "tiny_vit_5m", "tiny_vit_11m", "tiny_vit_21m"]
Private = Literal["DP-SGD", "projected", "feature", "feature-projective"]
_NOT_READ, _PERSON = "nothing private is read", "one person in one photo"
_OTHERWISE = "the same, but for psi and joints"
_PSI = {own: own for own in ("psi", "block", "bits", "weight", "fade")} | {"public_batch": "batch"}
_SPACE = {own: own for own in ("directions", "public_records", "refresh", "order")}
ARMS = {
    NO_PRIVACY: Arm(make=DpSgd, protects="nothing", is_free=True),
    ALONE: Arm(protects=_NOT_READ, is_free=True),
    PHOTOS_ONLY: Arm(make=PublicFeatures, protects=_NOT_READ, take=_PSI, is_free=True),
    FEATURES_ONLY: Arm(
        make=PublicFeatures, protects="nothing but psi and joints is read", take=_PSI, is_free=True
    ),
    DP: Arm(make=DpSgd, protects=_PERSON),
    PROJECTED: Arm(make=Projected, protects=_PERSON, take=_SPACE),
    FEATURE: Arm(make=FeatureDp, protects=_OTHERWISE, take=_PSI),
    BOTH: Arm(make=FeatureProjective, protects=_OTHERWISE, take=_PSI | _SPACE),
}
FREE = tuple(name for name, arm in ARMS.items() if arm.is_free)  # the same at every epsilon
# the learning rate of an arm is the first of these that is given, or that of DP-SGD
RATES = {
    **dict.fromkeys((NO_PRIVACY, ALONE), ("clean_learning_rate",)),
    PHOTOS_ONLY: ("photos_learning_rate", "clean_learning_rate"),
    FEATURES_ONLY: ("psi_learning_rate", "clean_learning_rate"),
    PROJECTED: ("subspace_learning_rate",),
    FEATURE: ("feature_learning_rate",),
    BOTH: ("both_learning_rate",),
}
STRATEGIES = {
    "last_stage": "last stage, all norms and head",
    "all": "all weights",
    "scratch": "all weights, from random ones",
    "head": "head alone",
}
_SHARED: Mapping[str, Any] = {
    **{"epsilons": (0.2, 0.4, 0.6, 0.8), "clip_norms": (0.01, 0.1, 1.0)},
    **{"strategies": ("last_stage", "all", "scratch"), "refresh": 50, "public_records": 100},
    **{"directions": 100, "seeds": 3, "optimiser": "adamw", "fade": "none"},
}
PRESETS = {
    "stage": Preset(
        values={
            **_SHARED,
            **{"network": "tiny_vit_small", "delta": 1e-5, "batch": 256, "epochs": 10.0},
            **{"learning_rate": 3e-3, "subspace_learning_rate": 5e-4, "refresh": 10},
            **{"feature_learning_rate": 3e-3, "feature_weight": 1.0, "both_learning_rate": 2e-3},
            **{"clean_learning_rate": 2e-3, "psi_learning_rate": 2e-3},
            **{"photos_learning_rate": 1e-3, "schedule": "cosine", "order": "project_first"},
            **{"psi": "pool", "block": 6, "bits": 4, "weight": 0.3},
        },
        left_open=(
            "Rates, lambda, the size of blocks, k and the order of projecting were tried by single "
            "runs on Stage's world 2000, never the tested one (benchmarks/choose_pose.py), so far "
            "as they are named on docs/private_poses.md; batch and epochs were not searched.",
        ),
    ),
    "paper": Preset(
        values={
            **_SHARED,
            **{"network": "tiny_vit_5m", "delta": 1 / 22_000, "batch": 32, "epochs": 25.0},
            **{"learning_rate": 1e-3, "clean_learning_rate": 1e-3, "schedule": "step"},
            **{"order": "clip_first", "psi": "blur", "block": 16, "bits": 8, "weight": 1.0},
        },
        left_open=(
            "The paper does not say which TinyViT it takes: here the smallest, 5m.",
            "It prints neither optimiser, batch, epochs nor delta; they are those of its code: "
            "AdamW at 0.001, 32, 25 with the rate a tenth after 20, and 1/22000.",
            "Its code weighs the public gradient by 0.1, its Equation 11 by 1: here 1.",
            "Its code finds 4 directions, one from each batch of public photos, its Equation 2 one "
            "from each photo: here the latter.",
            "Its code keeps the public photos among the private ones; here they are left out.",
            "It blurs in floating point, which could be undone: here the blur is rounded to 8 "
            "bits.",
            "It does not say how many runs a number is the mean of: here three.",
        ),
    ),
}

# --- settings

_QUICK: Mapping[str, Any] = {
    **{"epsilons": (0.8,), "clip_norms": (0.1,), "taught": 256, "tested": 96, "batch": 64},
    "strategies": ("head",),  # what comes before it is frozen, and seen once by it
    **{"public_records": 48, "directions": 48, "seeds": 2},
}


@dataclass(frozen=True, kw_only=True)
class WantedPose:
    """A cell that is to be measured."""

    method: str  # its arm
    strategy: str  # what is trained
    epsilon: float = math.inf  # that is asked for; infinity for arms without noise
    clip_norm: float = 0.0  # C; 0 for arms without noise
    relation: str = Relation.REPLACE_ONE.value  # under which epsilon is met
    psi: Psi | None = None  # which public pictures, if other ones than the settings say

    @property
    def name(self) -> str:
        """In the journal."""
        found = f"{self.method}, {self.strategy}"
        if not ARMS[self.method].is_free:
            found += f", epsilon {self.epsilon:g}, C {self.clip_norm:g}, {self.relation}"
        return found if self.psi is None else f"{found}, {self.psi.rule_description}"


@dataclass(frozen=True, kw_only=True)
class PoseSettings(Settings):
    """Train with and without noise, in a subspace and with public pictures; write the tables.

    What is left open follows from the setting. The whole grid is hundreds of runs: name few
    epsilons, clip norms and strategies. A run that is stopped goes on where it was.
    """

    out: Path = Path("out/pose")  # folder for the results; it is made
    setting: Literal["stage", "paper"] = "stage"  # chosen on another world of it, or as its code
    network: PoseNetwork | None = None  # which one
    weights: Path | None = None  # public weights for it
    epsilons: tuple[float, ...] | None = None  # columns of the tables
    clip_norms: tuple[float, ...] | None = None  # C; tables show the best of them, figures all
    # what is trained: last_stage with all norms and the head, all, scratch (all, from random
    # weights), or head
    strategies: tuple[Literal["last_stage", "all", "scratch", "head"], ...] | None = None
    methods: tuple[Private, ...] = (DP, PROJECTED, FEATURE, BOTH)  # private rows
    # under which every row meets its epsilon, a table for each
    relations: tuple[Literal["replace_one", "zero_out"], ...] = ("replace_one",)
    delta: float | None = None  # of every epsilon
    batch: int | None = None  # photos in a private batch, on average, and in a public one
    epochs: float | None = None  # of every run
    learning_rate: float | None = None  # of DP-SGD, and of the rows below where theirs is None
    subspace_learning_rate: float | None = None  # of projected
    feature_learning_rate: float | None = None  # of feature
    both_learning_rate: float | None = None  # of feature-projective
    clean_learning_rate: float | None = None  # of rows without noise
    psi_learning_rate: float | None = None  # of public features only, where it is another
    photos_learning_rate: float | None = None  # of public photos only, likewise
    schedule: Literal["cosine", "constant", "step"] | None = None  # of the learning rate
    optimiser: Literal["sgd", "adam", "adamw"] | None = None  # of every row
    directions: int | None = None  # k, of the subspace
    public_records: int | None = None  # public photos by which it is found
    refresh: int | None = None  # steps after which it is found anew
    order: Literal["project_first", "clip_first"] | None = None  # of projecting and clipping
    psi: Literal["pool", "blur"] | None = None  # how public pictures are made
    block: int | None = None  # side of a block in pixels of the crop, for pool
    bits: int | None = None  # of each mean, for pool
    weight: float | None = None  # lambda, of the public gradient
    fade: Literal["none", "cosine"] | None = None  # whether lambda stays, or falls along a cosine
    feature_weight: float | None = None  # lambda of feature, where it is another
    feature_fade: Literal["none", "cosine"] | None = None  # likewise
    # sides of blocks of the frontier, how coarse psi may be; none for no frontier
    blocks: tuple[int, ...] = ()
    named: bool = True  # whether an attacker names people by psi of the frontier, too
    seeds: int | None = None  # runs of each cell
    taught: int | None = None  # private photos, the first ones; all if None
    tested: int | None = None  # photos to test on, likewise
    device: Literal["cpu", "cuda"] = "cpu"  # where it is trained
    workers: int = 1  # processes that train cells side by side, on the same device
    physical: int | None = (
        None  # photos whose gradients are computed at once; by the device if None
    )
    kept_only: bool = False  # train nothing, and write the page from what a stopped run has kept

    def __post_init__(self) -> None:
        counts = ["batch", "seeds", "taught", "tested", "directions", "public_records", "refresh"]
        rates = sorted({name for names in RATES.values() for name in names})
        sizes = ["epochs", "learning_rate", *rates, "weight", "feature_weight"]
        check_settings(
            self,
            count=[*counts, "workers", "physical"],
            positive=[*sizes, "epsilons", "clip_norms"],
            delta=["delta"],
        )
        for name in ("strategies", "methods", "relations"):
            if getattr(self, name) == ():
                raise ValueError(f"Expected at least one of {name}, got none.")
        for block in self.blocks:
            _check.positive(blocks=block)

    def settle(self, data: Collection[Any] | None = None) -> PoseSettings:
        """As they are run: what was left open filled in, or shortened."""
        plan = fill_settings(self, _QUICK) if self.quick else self
        return fill_settings(plan, PRESETS[self.setting].values)

    @property
    def left_open(self) -> tuple[str, ...]:
        """What the setting's source does not say, and what was taken."""
        return PRESETS[self.setting].left_open

    @property
    def processes(self) -> int:
        """That make public pictures, on the processor."""
        return self.jobs or len(os.sched_getaffinity(0))

    def build_method(self, one: WantedPose) -> Method:
        """The method of a cell."""
        plan: Any = self.settle()
        rates = [getattr(plan, name) for name in RATES.get(one.method, ())]
        base = {name: getattr(plan, name) for name in ("delta", "batch", "epochs", "schedule")} | {
            "epsilon": one.epsilon,
            "unit": "record",
            "relation": one.relation,
            # a record that pulls hard is shortened without it too
            "clip_norm": one.clip_norm or 1.0,
            "learning_rate": next(filter(None, rates), plan.learning_rate),
            "warmup": 0.0 if plan.schedule == "step" else 0.1,
            "optimiser": plan.optimiser,
            "part": "all" if one.strategy == "scratch" else one.strategy,
        }
        method: Method = ARMS[one.method].build_method(plan, base)
        own: dict[str, Any] = {}
        if one.psi is not None:
            own = {"psi": one.psi.kind, "block": one.psi.block, "bits": one.psi.bits}
        if one.method == FEATURE:
            own |= {"weight": plan.feature_weight, "fade": plan.feature_fade}
        return replace(method, **{name: value for name, value in own.items() if value is not None})

    def build_network(self, strategy: str) -> Network:
        """The network before it is trained, from public weights or random ones."""
        fields = {"from_scratch": True} if strategy == "scratch" else {"weights": self.weights}
        return find_network_class(self.settle().network or "")(**fields)


# --- what is measured


@dataclass(frozen=True, kw_only=True)
class PoseCell:
    """What was measured of one row, in one setting."""

    method: str  # the row
    strategy: str  # what is trained
    epsilon: float  # that was asked for; infinity for rows without noise
    clip_norm: float  # C; 0 for rows without noise
    relation: str  # under which epsilon is met
    pckh: tuple[float, ...]  # share of joints within half a head, one a run
    fine: tuple[float, ...]  # within a tenth of a head
    # epsilon of the very run under each relation; empty without noise
    proved: Mapping[str, float] = field(default_factory=dict)
    noise_multiplier: float = 0.0  # z
    steps: int = 0  # of a run
    tested: int  # photos
    taught: int = 0  # private photos
    # standard error of a run's share, by how photos scatter; None if not known
    photo_error: float | None = None
    psi: str = ""  # which public pictures, in words; empty where there are none
    # each tested photo's share of right joints, the mean over runs, as two hexadecimal digits of
    # 255ths; empty if not kept
    photos: str = ""

    @property
    def runs(self) -> Runs:
        """Shares of right joints; photos, not joints, are what was drawn to be tested.

        A photo's share scatters less than a coin does: as many coins are counted as scatter alike.
        """
        mean = sum(self.pckh) / len(self.pckh)
        if not self.photo_error:
            return Runs(self.pckh, tested=self.tested)
        return Runs(self.pckh, tested=mean * (1 - mean) / self.photo_error**2)

    def compare_to(self, other: PoseCell) -> Word:
        """Whether it is ahead of another cell: photo by photo, where both kept them.

        Two rows that were tested on the same photos find the same ones hard, so that their
        difference scatters less over photos than either does.
        """
        if not self.photos or len(self.photos) != len(other.photos):
            return compare_runs(self.runs, other.runs)
        mine, theirs = (
            np.frombuffer(bytes.fromhex(cell.photos), np.uint8) / 255 for cell in (self, other)
        )
        gaps = mine - theirs
        chance = float(gaps.std(ddof=1)) / len(gaps) ** 0.5
        return compare_runs(self.runs, other.runs, chance=chance)

    def to_json(self) -> dict[str, Any]:
        """JSON has no infinity."""
        asked = None if self.epsilon == math.inf else self.epsilon
        return dict(_json.encode_noun(self)) | {"epsilon": asked}


def encode_shares(shares: np.ndarray) -> str:
    """Shares (photos,) from 0 to 1 as `PoseCell` keeps them."""
    return bytes(np.rint(255 * shares).astype(np.uint8)).hex()


@dataclass(frozen=True, kw_only=True)
class PoseFound:
    """All cells, and what they are of."""

    cells: Cells[PoseCell]  # of the tables
    # of the frontier: feature-projective and public features by psi
    coarse: Cells[PoseCell] = field(default_factory=Cells)
    settings: PoseSettings  # settled
    about: str  # the data in words
    taught: int  # private photos
    tested: int  # photos
    # how often an attacker names people by what psi shows, by psi in words; by whole photos under
    # no word
    named: Mapping[str, MeasuredRate] = field(default_factory=dict)

    @property
    def relations(self) -> list[str]:
        """In order."""
        return Cells(cell for cell in self.cells if cell.proved).list_values("relation")

    @property
    def strategies(self) -> list[str]:
        """In order."""
        return self.cells.list_values("strategy")

    @property
    def epsilons(self) -> list[float]:
        """The columns."""
        return sorted(self.settings.epsilons or ())

    def find_best(self, method: str, **known: Any) -> PoseCell | None:
        """The cell of a row with the clip norm that has the highest mean."""
        some = self.cells.find_all(method=method, **known)
        return max(some, key=lambda cell: cell.runs.mean, default=None)


def list_wanted(plan: PoseSettings) -> Iterator[WantedPose]:
    """The cells of the tables, those that tell most first: a stopped run has whole rows of them.

    Rows without noise come first; then the largest clip norm, with the largest and the smallest
    epsilon before all others.
    """
    strategies, falling = plan.strategies or (), sorted(plan.epsilons or (), reverse=True)
    for strategy in strategies:
        names = FREE if strategy != "scratch" else (NO_PRIVACY, FEATURES_ONLY)
        yield from (WantedPose(method=name, strategy=strategy) for name in names)
    yield from (
        WantedPose(
            method=name, strategy=strategy, epsilon=epsilon, clip_norm=clip_norm, relation=relation
        )
        for strategy in strategies
        for relation in plan.relations
        for clip_norm in sorted(plan.clip_norms or (), reverse=True)
        for epsilon in dict.fromkeys([*falling[:1], *falling[-1:], *falling])
        for name in plan.methods
    )


def pool_blocks(plan: PoseSettings, block: int) -> Psi:
    """Psi of the frontier."""
    return Psi(kind="pool", block=block, bits=plan.bits or 4)


def list_coarse(plan: PoseSettings) -> Iterator[WantedPose]:
    """The cells of the frontier: how coarse public pictures are, at the largest epsilon."""
    for block in plan.blocks:
        psi, first = pool_blocks(plan, block), (plan.strategies or ("all",))[0]
        one = WantedPose(method=FEATURES_ONLY, strategy=first, psi=psi)
        epsilon, norm = max(plan.epsilons or (0.8,)), (plan.clip_norms or (1.0,))[-1]
        yield from (one, replace(one, method=BOTH, epsilon=epsilon, clip_norm=norm))


def measure_poses(run: Run) -> PoseFound:
    """Every cell, unless the journal has it; with ``kept_only`` those that it has."""
    plan, data = run.settings, run.data
    if plan.kept_only:
        run.journal.path = None  # a stopped run may still go on
    elif plan.device == "cuda" and not torch.cuda.is_available():
        raise ValueError("Expected a GPU for device=cuda, found none; use device=cpu.")
    data = photos.size_stage(data) if isinstance(data, Stage) else data
    wanted = {one.name: one for one in list_wanted(plan)}
    coarse = {one.name: one for one in list_coarse(plan)}
    if not plan.kept_only:
        measure_missing(replace(run, data=data), wanted | coarse)

    def read(names: Mapping[str, WantedPose]) -> Cells[PoseCell]:
        held = [run.journal.held[name] for name in names if name in run.journal.held]
        return Cells(_json.decode_noun(PoseCell, one) for one in held)

    cells, frontier = read(wanted), read(coarse)
    if not cells:
        raise BadInput(f"Expected cells of a stopped run in {plan.out}, got none; run it first.")
    named = measure_named(replace(run, data=data)) if frontier and plan.named else {}
    if not plan.kept_only:
        for path in plan.out.glob(f"{photos.KEPT}*"):
            path.unlink()
    return PoseFound(
        cells=cells,
        coarse=frontier,
        settings=plan,
        about=describe_data(data),
        taught=max(cell.taught for cell in cells),
        tested=max(cell.tested for cell in cells),
        named=named,
    )


def measure_missing(run: Run, wanted: Mapping[str, WantedPose]) -> None:
    """Train and test what the journal does not have."""
    plan, missing = run.settings, run.find_missing(wanted)
    if not missing:
        return
    asked = {"most": plan.taught, "tested": plan.tested, "public": plan.public_records or 1}
    ways = {"device": plan.device, "progress": run.progress}
    albums = photos.keep_albums(plan.out, run.data, **asked, **ways)
    has_coarse = any(wanted[name].psi is not None for name in missing)
    if has_coarse and plan.named and not albums.private.subjects:
        raise BadInput(
            f"Expected photos of people with names for --blocks, got {run.data.ABOUT.title} "
            "without; give --no-named as well."
        )
    planned_cells = [(plan, wanted[name]) for name in missing]
    cells = train_cells(albums, planned_cells, workers=plan.workers, jobs=plan.processes)
    for number, (name, cell) in enumerate(zip(missing, cells, strict=True)):
        run.journal.note_result(name, cell)
        run.progress("training", number + 1, len(missing))


def measure_named(run: Run) -> dict[str, MeasuredRate]:
    """How often an attacker names people by whole photos, and by psi of each size of blocks."""
    plan = run.settings
    known: dict[str, Psi | None] = {"": None}
    known |= {
        psi.rule_description: psi for psi in (pool_blocks(plan, block) for block in plan.blocks)
    }
    names = {f"named by {said or 'whole photos'}": said for said in known}
    missing = run.find_missing(names)
    if missing:
        album = photos.read_first(run.data, photos.PHOTOS, progress=run.progress)
        name_people = partial(photos.name_people, album, attackers=photos.list_attackers())
        tasks = {name: partial(name_people, known[names[name]]) for name in missing}
        run.measure_cells("naming people", tasks, jobs=1)
    return {
        said: _json.decode_noun(MeasuredRate, run.journal.held[name])
        for name, said in names.items()
    }


def describe_data(data: Collection[Any]) -> str:
    """The data in words."""
    if not isinstance(data, Stage):
        return data.ABOUT.title
    world = data.world
    roll = f", cameras turned by up to {world.photo_roll_deg:g} degrees"
    return (
        f"Stage, {world.subjects} people in {world.photos} photos of {world.photo_px} x "
        f"{world.photo_px} pixels, world {world.seed}{roll if world.photo_roll_deg else ''}"
    )


# --- a cell: a network is trained, some times, and tested

_TOGETHER = {"cpu": 16, "cuda": 256}  # photos that the trunk sees at once
_PHYSICAL = {"cpu": 16, "cuda": 640}
_LEAST = 16  # photos at once, of which every device must have room
_SHARES = (0.5, 0.1)  # of the head's size
PlannedCell = tuple[PoseSettings, WantedPose]  # settled settings, and a cell


def train_cells(
    albums: PoseAlbums, wanted: Sequence[PlannedCell], *, workers: int, jobs: int
) -> Generator[PoseCell, None, None]:
    """Cells in their order.

    Args:
        albums: the photos, which several processes read from one file.
        wanted: cells, each with its settings.
        workers: processes.
        jobs: processes that make public pictures.
    """
    if workers == 1 or not wanted:
        trainer = PoseTrainer(albums)
        yield from (trainer.measure_cell(*cell_plan) for cell_plan in wanted)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "photos"
        rules = {
            psi.rule_description: psi for each in wanted if (psi := find_psi(*each)) is not None
        }
        crops = albums.private.crops
        public = {said: photos.make_public(crops, psi, jobs=jobs) for said, psi in rules.items()}
        joblib.dump((albums, public), path)
        del public
        yield from run_parallel((partial(_train_cell, path, one) for one in wanted), jobs=workers)


def find_psi(plan: PoseSettings, one: WantedPose) -> Psi | None:
    """The rule of the public pictures that a cell learns from."""
    method = None if one.method in (ALONE, PHOTOS_ONLY) else plan.build_method(one)
    return method.make_psi() if isinstance(method, Featured) else None


def _train_cell(path: Path, cell_plan: PlannedCell) -> PoseCell:
    return _load_trainer(path).measure_cell(*cell_plan)


@lru_cache(maxsize=1)
def _load_trainer(path: Path) -> PoseTrainer:
    return PoseTrainer(*joblib.load(path, mmap_mode="r"))


# share of joints within half a head, and within a tenth; the first share of each photo that counts
PoseTest = tuple[float, float, np.ndarray]


class PoseTrainer:
    """Trains and tests cells; what a frozen trunk makes of photos is kept between them.

    Args:
        albums: the photos.
        public: public pictures of the private ones by what their psi is called, where they are made
            already.
    """

    def __init__(self, albums: PoseAlbums, public: Mapping[str, np.ndarray] | None = None) -> None:
        self._albums, self._public = albums, public or {}
        self._plan: Any  # settled settings
        self._key: tuple[Any, ...] = ()
        self._rows: dict[str, Tensor] = {}

    def measure_cell(self, plan: PoseSettings, one: WantedPose) -> PoseCell:
        """Train a cell of settled settings as often as there are seeds, and test each."""
        self._plan = plan
        if one.method == ALONE:
            _, tail = self._split_network(one, one.strategy)
            test = self._test_tail(tail, self._compute_views(one, one.strategy, None))
            return self._write_cell(one, [test] * (plan.seeds or 1))
        method = plan.build_method(one)
        psi = find_psi(plan, one)
        rows = self._choose_rows(one, method, psi)
        if one.method == PHOTOS_ONLY:  # as many steps as the others have
            count = method.epochs * len(self._albums.private) / method.batch
            method = replace(method, epochs=count * min(1.0, method.batch / rows.num_units))
        steps, tests = make_training_plan(method, rows.num_units), []
        for seed in range(plan.seeds or 1):
            tail = self._train_tail(one, rows, replace(method, public_seed=seed), steps)
            tests.append(self._test_tail(tail, self._rows))
        relations = (Relation.ZERO_OUT, Relation.REPLACE_ONE) if steps.noise_multiplier > 0 else ()
        return replace(
            self._write_cell(one, tests),
            proved={relation.value: steps.compute_epsilon(relation) for relation in relations},
            noise_multiplier=steps.noise_multiplier,
            steps=steps.steps,
            psi="" if psi is None else psi.rule_description,
        )

    def _train_tail(self, one: WantedPose, rows: Rows, method: Method, steps: Any) -> Any:
        """One run; where a shared device has too little memory, again in smaller pieces."""
        physical = min(self._plan.physical or _PHYSICAL[self._plan.device], rows.num_units)
        while True:
            _, tail = self._split_network(one, method.part, seed=method.public_seed)
            try:
                ways: Any = {"noise": Noise(), "work": loop.Workload(physical=physical)}
                loop.run_training(
                    tail, rows, method, steps, progress=lambda done, total: None, **ways
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

    def _write_cell(self, one: WantedPose, tests: Sequence[PoseTest]) -> PoseCell:
        names = ("method", "strategy", "epsilon", "clip_norm", "relation")
        half, tenth, shares = zip(*tests, strict=True)
        return PoseCell(
            **{name: getattr(one, name) for name in names},
            pckh=half,
            fine=tenth,
            photo_error=float(np.mean([_compute_error(each) for each in shares])),
            photos=encode_shares(np.mean(shares, axis=0)),
            tested=len(self._albums.tested),
            taught=len(self._albums.private),
        )

    def _split_network(self, one: WantedPose, part: str, *, seed: int = 0) -> Any:
        """Trunk and tail before they are trained, where the device is."""
        network = self._plan.build_network(one.strategy)
        net = network.make(len(self._albums.private.names), seed=seed).to(self._plan.device)
        return network.split(net, part)

    def _choose_rows(self, one: WantedPose, method: Method, psi: Psi | None) -> Rows:
        """What a cell learns from, where the device is."""
        count, seen = self._plan.public_records or 1, self._compute_views(one, method.part, psi)
        guide = Rows(
            private=seen["guide"][:count],
            public=None,
            targets=self._copy_to_device(self._albums.public.targets[:count]),
            slots=np.arange(count)[:, None],
        )
        if one.method == PHOTOS_ONLY:
            return replace(guide, public=guide.private)
        public = seen.get("psi")
        return Rows(
            private=seen["whole"] if method.HAS_PRIVATE or public is None else public,
            public=public,
            targets=self._copy_to_device(self._albums.private.targets),
            slots=np.arange(len(self._albums.private))[:, None],
            guide=guide if method.HAS_SUBSPACE else None,
        )

    def _copy_to_device(self, values: np.ndarray) -> Tensor:
        # a copy: photos may lie in a file that several processes read
        return torch.from_numpy(np.array(values)).to(self._plan.device)

    def _compute_views(self, one: WantedPose, part: str, psi: Psi | None) -> Mapping[str, Tensor]:
        """Photos as the trunk gives them, each view once as long as trunk and psi are the same."""
        key = self._plan.network, self._plan.weights, one.strategy == "scratch", part
        if self._key != key:
            self._key, self._rows = key, {}
        made = {
            "whole": lambda: self._albums.private.crops,
            "guide": lambda: self._albums.public.crops,
            "exam": lambda: self._albums.tested.crops,
            "turned": lambda: self._albums.tested.crops[:, :, ::-1],
        }
        stays, name = tuple(made), "psi" if psi is None else psi.rule_description
        if psi is not None:
            made[name] = lambda: self._make_public(psi)
        missing = [each for each in made if each not in self._rows]
        if missing:
            trunk, _ = self._split_network(one, part)
            seen = {each: self._run_trunk(trunk, made[each]()) for each in missing}
            self._rows = {n: held for n, held in self._rows.items() if n in stays} | seen
        return self._rows | ({"psi": self._rows[name]} if psi is not None else {})

    def _make_public(self, psi: Psi) -> np.ndarray:
        if psi.rule_description in self._public:
            return self._public[psi.rule_description]
        return photos.make_public(self._albums.private.crops, psi, jobs=self._plan.processes)

    def _run_trunk(self, trunk: Any, crops: np.ndarray) -> Tensor:
        """What the trunk makes of crops, some at a time."""
        step = _TOGETHER[self._plan.device]
        starts = range(0, len(crops), step)
        inputs = (picture_crops.make_crop_inputs(np.array(crops[s : s + step])) for s in starts)
        with torch.no_grad():
            return torch.cat([trunk(some.to(self._plan.device)) for some in inputs])

    def _test_tail(self, tail: Any, seen: Mapping[str, Tensor]) -> PoseTest:
        """How many joints are right within half a head and a tenth, flip test included."""
        exam, step = self._albums.tested, _TOGETHER[self._plan.device]
        tail.eval()
        with torch.no_grad():
            straight, turned = (
                torch.cat([tail(some) for some in seen[view].split(step)])
                for view in ("exam", "turned")
            )
        said = tiny_vit_pose.average_answers(
            straight, tiny_vit_pose.unmirror_logits(turned, joints.find_mirror_order(exam.names))
        )
        places = (
            tiny_vit_pose.decode_joints(said, smoothing=tail.head.smoothing).joints.cpu().numpy()
        )
        found = np.stack([r.map_back(p) for r, p in zip(exam.regions, places, strict=True)])
        half, tenth = (
            compute_pckh(found, exam.joints, exam.head_px, names=exam.names, share=share).mean / 100
            for share in _SHARES
        )
        each = shares_right(found, exam.joints, exam.head_px, names=exam.names)
        return half, tenth, each[np.isfinite(each)]


def _compute_error(shares: np.ndarray) -> float:
    """The standard error of a mean over photos of their shares of right joints."""
    return float(shares.std(ddof=1) / math.sqrt(len(shares))) if len(shares) > 1 else 0.0


# --- what is said of the cells

_RIVALS, _FREE_RIVALS = (DP, PROJECTED, FEATURE), (FEATURES_ONLY, PHOTOS_ONLY, NO_PRIVACY)


def write_comparisons(found: PoseFound) -> Iterator[str]:
    """Feature-projective against every other row, at each epsilon."""
    panels = itertools.product(found.strategies, found.relations, found.epsilons)
    for strategy, relation, epsilon in panels:
        known = {"strategy": strategy, "relation": relation, "epsilon": epsilon}
        ours = found.find_best(BOTH, **known)
        others = {name: found.find_best(name, **known) for name in _RIVALS}
        others |= {name: found.cells.find(method=name, strategy=strategy) for name in _FREE_RIVALS}
        words = [
            f"{ours.compare_to(cell)} ({100 * (ours.runs.mean - cell.runs.mean):+.1f} points, n = "
            f"{len(ours.pckh)} runs) {name}"
            for name, cell in others.items()
            if ours and cell
        ]
        where = f"{STRATEGIES[strategy]}, epsilon {epsilon:g} under {relation}"
        if words:
            yield f"{where}: {BOTH}, beside each other row: {'; '.join(words)}."


CLAIMS = (write_comparisons,)


# --- tables, plots and the page

_ELSEWHERE = ("out", "page", "weights", "quick")  # of the settings: not what is measured


def write_page(found: PoseFound) -> Page:
    """What was found, for machines and for people."""
    plan = found.settings
    sentences = list(write_sentences(found, CLAIMS))
    setting = {name: value for name, value in vars(plan).items() if name not in _ELSEWHERE}
    coarse = "; how coarse psi may be" if found.coarse else ""
    return Page(
        title=f"Poses, {plan.network}, setting {plan.setting}{coarse}",
        text=write_text(found, sentences),
        data={
            "setting": _json.encode_noun(setting),
            "left_open": list(plan.left_open),
            "about": found.about,
            "units": found.taught,
            "tested": found.tested,
            "cells": [cell.to_json() for cell in found.cells],
            "coarse": [cell.to_json() for cell in found.coarse],
            "sentences": sentences,
        },
        plots=draw_plots(found),
    )


def write_text(found: PoseFound, sentences: Sequence[str]) -> str:
    """The tables, and what they show."""
    plan = found.settings
    parts = [
        f"{found.about}. {found.taught} private photos, {found.tested} to test on; PCKh@0.5 in per "
        f"cent, mean and spread over {plan.seeds} runs. Each private cell has the best of the clip "
        f"norms {', '.join(f'{c:g}' for c in plan.clip_norms or ())}."
    ]
    for strategy in found.strategies:
        for relation in found.relations or ["replace_one"]:
            parts += [
                f"### Trained: {STRATEGIES[strategy]}; epsilon of one record under {relation}, "
                f"delta {plan.delta:.3g}",
                write_rows(found, strategy, relation),
            ]
    if found.coarse:
        parts += ["### How coarse the public picture may be", write_coarse(found)]
        whole = found.named.get("")
        if whole is not None:
            parts.append(
                f"The attacker knows half of the photos of {whole.count} people by name and sees "
                f"psi of the others; by whole photos {_format_named(found, '')} per cent, by "
                f"guessing {100 * (whole.chance or 0):.0f}."
            )
    parts += ["### What they show", write_list(sentences), write_list(plan.left_open)]
    return "\n\n".join(parts) + "\n"


def write_rows(found: PoseFound, strategy: str, relation: str) -> str:
    """A row a method, a column an epsilon; what the noise really gives comes last."""
    rows = []
    for name in FREE:
        cell = found.cells.find(method=name, strategy=strategy)
        if cell is not None:
            rows.append([name, ARMS[name].protects, *[str(cell.runs)] * len(found.epsilons)])
    known = {"strategy": strategy, "relation": relation}
    best = {
        name: [found.find_best(name, epsilon=epsilon, **known) for epsilon in found.epsilons]
        for name in found.settings.methods
    }
    for name, cells in best.items():
        words = fill_row(cells, lambda cell: f"{cell.runs} (C {cell.clip_norm:g})")
        rows.append([name, ARMS[name].protects, *words])
    other = "zero_out" if relation == "replace_one" else "replace_one"
    # all methods have one noise
    some = [next(filter(None, cells), None) for cells in zip(*best.values(), strict=True)]
    words = fill_row(some, lambda cell: format_rounded_up(cell.proved[other]))
    rows.append([f"epsilon of the same runs under {other}", "", *words])
    heading = ["method", "what is protected", *(f"{e:g}" for e in found.epsilons)]
    return write_table(heading, rows)


def write_coarse(found: PoseFound) -> str:
    """How coarse psi is, and what is learned with it."""
    rows = []
    for cell in found.coarse:
        epsilon = "-" if cell.epsilon == math.inf else f"{cell.epsilon:g}"
        named = _format_named(found, cell.psi)
        rows.append([cell.psi, cell.method, epsilon, str(cell.runs), named])
    heading = ["psi", "method", "epsilon", "PCKh@0.5"]
    return write_table([*heading, "an attacker names by psi, per cent (95 % interval)"], rows)


def _format_named(found: PoseFound, psi: str) -> str:
    one = found.named.get(psi)
    if one is None:
        return "-"
    return f"{100 * one.value:.0f} ({100 * one.low:.0f} to {100 * one.high:.0f})"


def draw_plots(found: PoseFound) -> dict[str, str]:
    """A figure a strategy, relation and clip norm: PCKh over epsilon; and the frontier."""
    drawn, norms = {}, found.settings.clip_norms or ()
    for strategy, relation, norm in itertools.product(found.strategies, found.relations, norms):
        lines = draw_lines(found, strategy=strategy, relation=relation, clip_norm=norm)
        if lines:
            axes = _make_axes(f"{STRATEGIES[strategy]}, C {norm:g}, {relation}", "epsilon")
            name = f"pose_{strategy}_{relation}_{norm:g}".replace(".", "_")
            drawn[name] = plots.draw_lines(lines, axes)
    return drawn | ({"pose_coarse": draw_coarse(found)} if found.coarse else {})


def draw_lines(found: PoseFound, *, strategy: str, **known: Any) -> list[plots.PlotLine]:
    """PCKh over epsilon; what has no noise as faint levels."""
    lines = make_curves(
        (cell.method, cell.epsilon, 100 * cell.runs.mean)
        for cell in found.cells.find_all(strategy=strategy, **known)
        if cell.proved
    )
    ends = np.array([min(found.epsilons, default=1), max(found.epsilons, default=1)])
    for name in FREE if lines else ():
        cell = found.cells.find(method=name, strategy=strategy)
        if cell is not None:
            level = np.full(2, 100 * cell.runs.mean)
            lines.append(plots.PlotLine(name=name, x=ends, y=level, is_faint=True))
    return lines


def draw_coarse(found: PoseFound) -> str:
    """PCKh over what psi gives away: people named by it, or the side of a block if nobody asked."""
    if not found.named:
        sides = dict(zip([c.psi for c in found.coarse[::2]], found.settings.blocks, strict=True))
        points = [(c.method, float(sides[c.psi]), 100 * c.runs.mean) for c in found.coarse]
        side = "side of a block in pixels of a 256 x 192 crop"
        axes = _make_axes("How coarse psi is, and what is learned", side)
        return plots.draw_lines(make_curves(points), axes)
    dots = []
    for cell in found.coarse:
        one, error = found.named[cell.psi], 100 * cell.runs.spread
        # the size of psi's blocks alone
        size = cell.psi.partition("means of ")[2].partition(" pixels")[0] or cell.psi
        dots.append(
            plots.FrontierDot(
                name=f"{cell.method}, {size}",
                given_away=100 * one.value,
                low=100 * one.low,
                high=100 * one.high,
                kept=100 * cell.runs.mean,
                spread=0.0 if math.isnan(error) else error,
                is_proved=bool(cell.proved),
            )
        )
    named = "people whom an attacker names by psi, per cent"
    axes = _make_axes("What psi gives away, and what is learned with it", named)
    return plots.draw_frontier(dots, axes)


def _make_axes(title: str, x_label: str) -> plots.PlotAxes:
    return plots.PlotAxes(title=title, x_label=x_label, y_label="PCKh@0.5, per cent")


EXPERIMENT = Experiment(settings=PoseSettings, measure=measure_poses, write_page=write_page)
