"""MaskDP's tables: DP-SGD, MultiClip, MaskDP and its public part over epsilon, both relations."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from masquerade import _check
from masquerade._torch import torch
from masquerade.collection import Collection
from masquerade.data.stage import Stage
from masquerade.doors import Answer
from masquerade.nets.network import Network, network_class
from masquerade.recipes import bench, seen
from masquerade.recipes.mask_dp import page as pages
from masquerade.recipes.mask_dp import run as runs
from masquerade.recipes.mask_dp.rows import ROWS, SCRATCH, Found
from masquerade.train.method import Method

EPSILONS = (0.1, 0.25, 0.5, 0.75, 1.0, 5.0, math.inf)
_QUICK = (0.25, 1.0, math.inf)


@dataclass(frozen=True, kw_only=True)
class MaskDpTables:
    """Train with and without noise where it is private, and write the tables.

    Everything is held in memory: Stage needs about 2 GB. On one H200 it takes minutes; from
    scratch on two cores, hours. A run that is stopped goes on where it was.

    Args:
        out: folder for the results; it is made.
        page: page of the docs to which a section is added.
        network: which one.
        weights: public weights for it.
        part: what is trained of the pre-trained network.
        epochs: of every run.
        batch: units in a private batch, on average.
        seeds: runs of each cell.
        private: which side of the person mask is private.
        masks: a folder of masks, or the word segmenter, for a data set that has none.
        relation: under which every row meets its epsilon; the other one is printed beside it.
        from_scratch: whether the whole network is also trained from random weights.
        scratch_epochs: of those runs.
        device: where it is trained.
        quick: three epsilons, the head alone, two seeds; from scratch two epochs at one epsilon.
    """

    ENTRIES: ClassVar[tuple[tuple[str, ...], ...]] = (("data", "data", "stage"),)

    out: Path = Path("out/mask_dp")
    page: Path | None = None
    network: Literal["mvit_small", "mvit_v1_b", "mvit_v2_s"] = "mvit_small"
    weights: Path | None = None
    part: Literal["head", "last_norms", "norms", "all"] = "head"
    epochs: float = 20.0
    batch: int = 128
    seeds: int = 3
    private: Literal["background", "person"] = "background"
    masks: Path | None = None
    relation: Literal["zero_out", "replace_one"] = "replace_one"
    from_scratch: bool = True
    scratch_epochs: float = 20.0
    device: Literal["cpu", "cuda"] = "cpu"
    quick: bool = False

    def __post_init__(self) -> None:
        _check.count(seeds=self.seeds, batch=self.batch)
        _check.positive(epochs=self.epochs, scratch_epochs=self.scratch_epochs)
        if self.network != "mvit_small" and self.from_scratch:
            raise ValueError(
                f"Expected mvit_small where it is trained from scratch, got {self.network}; add "
                "--no-from-scratch."
            )

    @property
    def shortened(self) -> MaskDpTables:
        """The plan as it is run."""
        few = {"part": "head", "seeds": min(2, self.seeds), "scratch_epochs": 2.0}
        return replace(self, **few) if self.quick else self  # type: ignore[arg-type]

    @property
    def wanted(self) -> dict[str, tuple[float, ...]]:
        """The epsilons of each row."""
        epsilons = _QUICK if self.quick else EPSILONS
        found = {name: epsilons for name in ROWS if self.from_scratch or name != SCRATCH}
        return found | ({SCRATCH: (1.0,)} if self.quick and self.from_scratch else {})

    def run(self, data: Collection[Any]) -> Answer:
        """Read once, train many times, test each."""
        journal = bench.Journal.of(self, data)
        with bench.telling() as told:
            found = self.measure(data, journal=journal, told=told)
        results = bench.Results(
            title=f"MaskDP, {self.private} private",
            text=pages.markdown(found),
            data=pages.plain(found),
            plots=pages.plots(found),
        )
        return results.publish(self, data, journal)

    def measure(
        self, data: Collection[Any], *, journal: bench.Journal, told: bench.Told = bench.quiet
    ) -> Found:
        """Every cell; needs nothing that reads video files, keeps ledgers or draws on a screen."""
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("Expected a GPU for device=cuda, found none; use device=cpu.")
        if isinstance(data, Stage):
            data = seen.sized(data)
            data.make(progress=partial(told, "drawing"))
        if self.masks is not None:
            from masquerade.doors.masks import with_masks  # reads video files

            data = with_masks(data, self.masks, private=self.private)
        return runs.measure(self.shortened, self.wanted, data, journal=journal, told=told)

    def method(self, name: str, epsilon: float = math.inf, *, public_seed: int = 0) -> Method:
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

    def begun(self, *, from_scratch: bool = False) -> Network:
        """The network before it is trained, from public weights or random ones."""
        fields = {"from_scratch": True} if from_scratch else {"weights": self.weights}
        return network_class(self.network)(**fields)


EXAMPLE = MaskDpTables()
