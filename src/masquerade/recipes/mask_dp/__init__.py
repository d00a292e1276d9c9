"""MaskDP's tables: public weights, public part, DP-SGD, MultiClip and MaskDP over epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from masquerade import _check
from masquerade._torch import torch
from masquerade.attacks.membership import Membership
from masquerade.collection import Collection
from masquerade.datasets.stage import Stage
from masquerade.networks.network import Network, network_class
from masquerade.recipes import bench, seen
from masquerade.recipes.mask_dp import page as pages
from masquerade.recipes.mask_dp import run as runs
from masquerade.recipes.mask_dp.rows import ALONE, CONTEXT, ROWS, SCRATCH, Found
from masquerade.recipes.mask_dp.settings import presets
from masquerade.recipes.preset import Preset, settled
from masquerade.recipes.released import films as avatars
from masquerade.result import Answer
from masquerade.training.method import Method

_QUICK = (0.25, 1.0, math.inf)
_VIDEOS = {True: 648, False: 6_048}  # of Stage, a sixth to test on, if no number was given


@dataclass(frozen=True, kw_only=True)
class MaskDpTables:
    """Train with and without noise where it is private, and write the tables.

    What is left open follows from the setting. On two cores the head alone takes ten minutes, from
    scratch hours; on one H200 both take minutes. A run that is stopped goes on where it was.

    Args:
        out: folder for the results; it is made.
        page: page of the docs to which a section is added.
        setting: stage, chosen on another world of it, or paper, as it is printed.
        network: which one.
        weights: public weights for it.
        part: what is trained of the pre-trained network.
        view: what MaskDP's private gradient sees: whole recordings, or their private pixels.
        epsilons: columns of the tables; inf is without noise.
        delta: of every epsilon.
        clip_norm: C.
        batch: units in a private batch, on average.
        epochs: of every run.
        scratch_epochs: of runs from random weights.
        warmup_epochs: in which the learning rate rises.
        schedule: of the learning rate after that.
        momentum: of every row but the published form, which has none.
        learning_rate: of every row but those named next.
        clean_learning_rate: the same where there is no noise.
        mask_batch: units in both batches of MaskDP.
        mask_learning_rate: of MaskDP.
        weight: lambda, of MaskDP's public gradient.
        public_batch: units in a batch of the public part alone.
        public_learning_rate: of the public part alone.
        published_learning_rate: of MaskDP as published.
        seeds: runs of each cell.
        copies: of each recording in runs without noise, cut and mirrored by chance; 1 is as it is.
        taught: training recordings, the first ones; all if None.
        private: which side of the person mask is private.
        masks: a folder of masks, or the word segmenter, for a data set that has none.
        relations: under which every row meets its epsilon, a table for each.
        correlations: of Stage: chances that an activity happens at its own places, a block of the
            tables for each, in the rows that show where the private part pays.
        render: of Stage: also learn from the same films with avatars in the place of people, whose
            masks are what was drawn for certain, in the rows of --correlations. Films are 224 x 224
            then and made first, at some two seconds each.
        from_scratch: whether the whole network is also trained from random weights.
        membership: shadow models for an attack on who was learned from; 0 for none.
        device: where it is trained.
        jobs: processes on a processor; 0 for one a core.
        quick: a small world, three epsilons, the head alone, two seeds; from scratch two epochs.
    """

    ENTRIES: ClassVar[tuple[tuple[str, ...], ...]] = (("data", "datasets", "stage"),)

    out: Path = Path("out/mask_dp")
    page: Path | None = None
    setting: Literal["stage", "paper"] = "stage"
    network: Literal["mvit_small", "mvit_v1_b", "mvit_v2_s"] | None = None
    weights: Path | None = None
    part: Literal["head", "last_norms", "norms", "all"] | None = None
    view: Literal["whole", "private"] | None = None
    epsilons: tuple[float, ...] | None = None
    delta: float | None = None
    clip_norm: float | None = None
    batch: int | None = None
    epochs: float | None = None
    scratch_epochs: float | None = None
    warmup_epochs: float | None = None
    schedule: Literal["cosine", "constant"] | None = None
    momentum: float | None = None
    learning_rate: float | None = None
    clean_learning_rate: float | None = None
    mask_batch: int | None = None
    mask_learning_rate: float | None = None
    weight: float | None = None
    public_batch: int | None = None
    public_learning_rate: float | None = None
    published_learning_rate: float | None = None
    seeds: int | None = None
    copies: int | None = None
    taught: int | None = None
    private: Literal["background", "person"] = "background"
    masks: Path | None = None
    relations: tuple[Literal["replace_one", "zero_out"], ...] = ("replace_one",)
    correlations: tuple[float, ...] = ()
    render: bool = False
    from_scratch: bool = False
    membership: int = 0
    device: Literal["cpu", "cuda"] = "cpu"
    jobs: int = 0
    quick: bool = False

    def __post_init__(self) -> None:
        counts = ("batch", "mask_batch", "public_batch", "seeds", "copies", "taught")
        rates = [f"{row}learning_rate" for row in ("", "mask_", "public_", "published_")]
        sizes = (*rates, "epochs", "scratch_epochs", "clip_norm", "weight")
        for names, check in ((counts, _check.count), (sizes, _check.positive)):
            given = {name: getattr(self, name) for name in names}
            check(**{name: value for name, value in given.items() if value is not None})
        if self.membership:
            Membership(shadows=self.membership)  # says so if it is odd
        self._check_columns()
        network = self.network or presets(None)[self.setting].values["network"]
        if self.from_scratch and network != "mvit_small":
            raise ValueError(
                f"Expected mvit_small where it is trained from scratch, got {network}; leave "
                "--from-scratch out."
            )

    def _check_columns(self) -> None:
        """Before anything is read: a run takes minutes until it meets the last of them."""
        if not self.relations or self.epsilons == ():
            raise ValueError("Expected at least one relation and one epsilon, got none.")
        for epsilon in self.epsilons or ():
            if epsilon != math.inf:
                _check.positive(epsilons=epsilon)
        for chance in self.correlations:
            if not 0 <= chance <= 1:
                raise ValueError(f"Expected correlations from 0 to 1, got {chance!r}.")
        if self.delta is not None:
            _check.delta(delta=self.delta)
        if self.render:
            self._check_render()

    def _check_render(self) -> None:
        """Avatars stand for people alone, in films of nobody."""
        odd = {
            "--private person": self.private == "person",
            "--masks": self.masks is not None,
            "--correlations": bool(self.correlations),
            "--membership": bool(self.membership),
            "--from-scratch": self.from_scratch,
        }
        given = [name for name, is_given in odd.items() if is_given]
        if given:
            raise ValueError(
                f"Expected --render without {' and '.join(given)}: figures are public, what is "
                "behind them private, and that is compared with original films; leave one out."
            )

    def settled(self, data: Collection[Any] | None = None) -> MaskDpTables:
        """The plan as it is run on a data set: what was left open filled in, or shortened.

        What differs between its relations stays open; `under` fills it in.
        """
        few = {"part": "head", "epsilons": _QUICK, "seeds": 2, "scratch_epochs": 2.0}
        missing = {name: value for name, value in few.items() if getattr(self, name) is None}
        plan = replace(self, **missing) if self.quick else self  # type: ignore[arg-type]
        known = [
            presets(data, private=self.private, relation=one)[self.setting].values
            for one in self.relations
        ]
        same = {name: v for name, v in known[0].items() if all(v == o[name] for o in known)}
        return settled(plan, {self.setting: Preset(values=same)})

    def under(self, relation: str) -> MaskDpTables:
        """The plan of one relation, with nothing left open."""
        return replace(self, relations=(relation,)).settled()  # type: ignore[arg-type]

    @property
    def left_open(self) -> tuple[str, ...]:
        """What the setting's source does not say, and what was taken."""
        return presets(None)[self.setting].left_open

    @property
    def wanted(self) -> dict[str, tuple[float, ...]]:
        """The epsilons of each row."""
        epsilons = self.settled().epsilons or ()
        names = CONTEXT if self.correlations or self.render else (ALONE, *ROWS)
        kept = [name for name in names if self.from_scratch or name != SCRATCH]
        scratch = {SCRATCH: (1.0,)} if self.quick and SCRATCH in kept else {}
        return {name: epsilons for name in kept} | scratch

    def run(self, data: Collection[Any]) -> Answer:
        """Read once, train many times, test each."""
        plan = self.settled(data)
        journal = bench.Journal.of(plan, data)
        with bench.telling() as told:
            found = plan.measure(data, journal=journal, told=told)
        return self.results(found).publish(self, data, journal)

    def results(self, found: Found) -> bench.Results:
        """What was found, for machines and for people."""
        return bench.Results(
            title=pages.title(found),
            text=pages.markdown(found),
            data=pages.plain(found),
            plots=pages.plots(found),
        )

    def measure(
        self, data: Collection[Any], *, journal: bench.Journal, told: bench.Told = bench.quiet
    ) -> Found:
        """Every cell; needs nothing that reads video files, keeps ledgers or draws on a screen."""
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("Expected a GPU for device=cuda, found none; use device=cpu.")
        if self.correlations and not isinstance(data, Stage):
            raise ValueError(
                "Expected --data stage with --correlations: other data sets are as they are."
            )
        if self.render and not isinstance(data, Stage):
            raise ValueError("Expected --data stage with --render: films of others are not kept.")
        if isinstance(data, Stage):
            data = self._sized(data)
        plan = self.settled(data)
        if self.masks is not None:
            from masquerade.publish.masks import with_masks  # reads video files

            data = with_masks(data, self.masks, private=self.private)
        return runs.measure(plan, self.wanted, data, journal=journal, told=told)

    def _sized(self, stage: Stage) -> Stage:
        """The world as large as its rows want it."""
        if self.render:
            return avatars.sized(stage, is_quick=self.quick)
        videos = stage.videos or (None if stage.preset != "small" else _VIDEOS[self.quick])
        return seen.sized(replace(stage, videos=videos))

    def method(
        self,
        name: str,
        epsilon: float = math.inf,
        *,
        relation: str = "replace_one",
        public_seed: int = 0,
    ) -> Method:
        """The method of a row at an epsilon."""
        row, plan = ROWS[name], self.under(relation)
        epochs = (plan.scratch_epochs if row.from_scratch else plan.epochs) or 1.0
        rate = plan.clean_learning_rate if epsilon == math.inf else plan.learning_rate
        fields: dict[str, Any] = {
            "epsilon": epsilon,
            "delta": plan.delta,
            "unit": "video",
            "relation": relation,
            "batch": plan.batch,
            "epochs": epochs,
            "clip_norm": plan.clip_norm,
            "learning_rate": rate,
            "warmup": min(0.5, (plan.warmup_epochs or 0.0) / epochs),
            "schedule": plan.schedule,
            "momentum": plan.momentum,
            "part": plan.part,
            "public_seed": public_seed,
        }
        if row.learner.HAS_PUBLIC:
            fields |= {"private": plan.private, "public_batch": plan.batch}
        fields |= {own: getattr(plan, field) for own, field in row.from_plan.items()}
        return row.learner(**(fields | dict(row.fields)))

    def begun(self, *, from_scratch: bool = False) -> Network:
        """The network before it is trained, from public weights or random ones."""
        fields = {"from_scratch": True} if from_scratch else {"weights": self.weights}
        return network_class(self.settled().network or "")(**fields)


EXAMPLE = MaskDpTables()
