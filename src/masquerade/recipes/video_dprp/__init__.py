"""Video-DPRP's tables: release then learn, beside training with noise, at true epsilons."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import joblib
import numpy as np

from masquerade import _check
from masquerade.collection import Collection
from masquerade.data.stage import Stage
from masquerade.doors import Answer
from masquerade.doors.models import make_method
from masquerade.nets.network import Network, network_class
from masquerade.recipes import bench, seen
from masquerade.recipes.video_dprp import page as pages
from masquerade.recipes.video_dprp import run as runs
from masquerade.recipes.video_dprp.rows import DELTA, ResultRow, Setting, Spec, all_rows
from masquerade.train.units import classes_of

_QUICK = 300  # training recordings


@dataclass(frozen=True, kw_only=True)
class VideoDprpTables:
    """Release by every mechanism, learn from it, and compare with training with noise.

    Rows, units and true epsilons stand beside each other; what is not comparable is said to be so
    [nken2025, Tab. 1 to 4]. A run that is stopped goes on where it was.

    Args:
        out: folder for the results; it is made.
        page: a page of the docs that gets a section.
        network: which one.
        weights: public weights for it.
        part: what is trained.
        epochs: of every run.
        batch: recordings in a batch, on average.
        seeds: runs of each row; 3, or 1 where it is quick.
        most: training recordings, chosen by chance, and half as many for the test; by default all.
        quick: 300 training recordings at most and fewer rows.
        device: cpu or cuda.
        jobs: processes on cpu; by default one a core.
    """

    ENTRIES: ClassVar[tuple[tuple[str, ...], ...]] = (("data", "data", "stage"),)

    out: Path = Path("out/video_dprp")
    page: Path | None = None
    network: Literal["mvit_small", "mvit_v1_b", "mvit_v2_s"] = "mvit_small"
    weights: Path | None = None
    part: Literal["head", "last_norms", "norms", "all"] = "head"
    epochs: float = 20.0
    batch: int = 128
    seeds: int | None = None
    most: int | None = None
    quick: bool = False
    device: Literal["cpu", "cuda"] = "cpu"
    jobs: int | None = None

    def __post_init__(self) -> None:
        for name, number in (("seeds", self.seeds), ("most", self.most), ("jobs", self.jobs)):
            if number is not None:
                _check.count(**{name: number})

    def run(self, data: Collection[Any]) -> Answer:
        """Read once, release and learn many times, test each."""
        journal = bench.Journal.of(self, data)
        with bench.telling() as told:
            rows, setting = self.measure(data, journal=journal, told=told)
        results = bench.Results(
            title="Video-DPRP: releases, and training with noise",
            text=pages.markdown(rows, setting),
            data=pages.plain(rows, setting),
            plots=pages.plots(rows),
        )
        return results.publish(self, data, journal)

    def measure(
        self, data: Collection[Any], *, journal: bench.Journal, told: bench.Told = bench.quiet
    ) -> tuple[list[ResultRow], Setting]:
        """Every row, measured, and on what."""
        data = seen.sized(data) if isinstance(data, Stage) else data
        train, test = self._kept(data)
        shape = train[0].frames.shape
        specs = all_rows(shape, is_quick=self.quick)
        rows = runs.measure(self, (train, test), specs, journal=journal, told=told)
        return rows, Setting(
            shape=shape,
            seen=self.begun.length,
            train=len(train),
            test=len(test),
            classes=len(classes_of(data)),
            seeds=self.repeats,
            part=self.part,
            course=self._said,
        )

    @property
    def repeats(self) -> int:
        """Of each row, on the same release."""
        return self.seeds or (1 if self.quick else 3)

    @property
    def processes(self) -> int:
        """That work side by side."""
        return 1 if self.device == "cuda" else self.jobs or int(joblib.cpu_count())

    @property
    def begun(self) -> Network:
        """The network and its public weights; its head begins with zeros."""
        return network_class(self.network)(**{"weights": self.weights})

    def method(self, spec: Spec) -> Any:
        """A row's training method; its noise meets epsilon under replace_one, like releases."""
        return make_method(
            spec.method,
            epsilon=spec.epsilon,
            delta=DELTA,
            unit="video",
            relation="replace_one",
            batch=self.batch,
            epochs=self.epochs,
            part=self.part,
            segments=spec.segments,
        )

    @property
    def _said(self) -> str:
        """How every row learns, in words."""
        method = self.method(Spec(table=0, name=""))
        return (
            f"{method.optimiser}, learning rate {method.learning_rate:g}, {method.epochs:g} "
            f"epochs, batches of {method.batch}, norms clipped at {method.clip_norm:g}"
        )

    def _kept(self, data: Collection[Any]) -> list[runs.Kept]:
        """Training and test recordings; a part of them is drawn with a public seed."""
        train, test = bench.parts(data)
        most = self.most or (_QUICK if self.quick else max(len(train), 2 * len(test)))
        kept = []
        for split, size in ((train, most), (test, max(1, most // 2))):
            chosen = np.random.default_rng(0).permutation(len(split))[:size]
            kept.append(runs.Kept(origin=split, numbers=tuple(sorted(chosen.tolist()))))
        return kept


EXAMPLE = VideoDprpTables()
