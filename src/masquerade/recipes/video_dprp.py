"""Video-DPRP's tables: release then learn, beside training with noise, at true epsilons."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import joblib
import numpy as np

from masquerade import _check, catalog
from masquerade._torch import torch
from masquerade.collection import Collection
from masquerade.compute.progress import bars
from masquerade.data.stage import Stage
from masquerade.doors import Answer
from masquerade.doors.models import make_network
from masquerade.doors.splits import split_of
from masquerade.errors import BadInput
from masquerade.nets import mvit
from masquerade.recipes import film_rows, film_tables
from masquerade.recipes.film_learning import Bench, Course, Row, measure, planned
from masquerade.recipes.film_releases import Kept
from masquerade.recipes.film_tables import Setting
from masquerade.recipes.mask_dp import _sized
from masquerade.recipes.results import Results
from masquerade.train.units import classes_of

_QUICK = 300  # training recordings


@dataclass(frozen=True, kw_only=True)
class VideoDprpTables:
    """Release by every mechanism, learn from it, and compare with training with noise.

    Rows, units and true epsilons stand beside each other; what is not comparable is said to be so
    [nken2025, Tab. 1 to 4].

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
        begun = time.perf_counter()
        rows, setting = tables(self, data)
        found = Results(
            title="Video-DPRP: releases, and training with noise",
            command=command(self, data),
            text=film_tables.markdown(rows, setting),
            data={
                "setting": dataclasses.asdict(setting),
                "rows": [film_tables.plain(row) for row in rows],
                "findings": film_tables.findings(rows, setting),
            },
            seconds=time.perf_counter() - begun,
            device=torch.cuda.get_device_name(0) if self.device == "cuda" else "cpu",
            plots=film_tables.plots(rows),
        )
        lines = found.write(self.out)
        if self.page is not None:
            found.append(self.page)
            lines.append(f"Added a section to {self.page}.")
        return Answer(data=dict(found.data), lines=lines)


def tables(plan: VideoDprpTables, data: Collection[Any]) -> tuple[list[Row], Setting]:
    """Every row, measured, and on what."""
    if isinstance(data, Stage):
        data = _sized(data)
    train, test = _splits(plan, data)
    course = Course(
        network=make_network(plan.network, weights=plan.weights),
        part=plan.part,
        batch=plan.batch,
        epochs=plan.epochs,
        seeds=plan.seeds or (1 if plan.quick else 3),
        device=plan.device,
        jobs=1 if plan.device == "cuda" else plan.jobs or joblib.cpu_count(),
    )
    shape = train[0].frames.shape
    specs = film_rows.all_rows(shape, is_quick=plan.quick)
    work = planned(specs, shape)
    with bars() as progress:
        task = progress.add_task("reading", total=len(work.groups) * (len(train) + len(test)))

        def tell(what: str, done: int) -> None:
            progress.update(task, description=what, advance=done)

        bench = Bench(course=course, train=train, test=test, tell=tell)
        found = measure(bench, work)
    return [found[spec] for spec in specs if spec in found], Setting(
        shape=shape,
        seen=mvit.NORMALISATION[plan.network].frames,
        train=len(train),
        test=len(test),
        classes=len(classes_of(data)),
        seeds=course.seeds,
        part=plan.part,
        course=_said(course),
    )


def _said(course: Course) -> str:
    method = course.method(film_rows.Spec(table=0, name=""))
    return (
        f"{method.optimiser}, learning rate {method.learning_rate:g}, {method.epochs:g} epochs, "
        f"batches of {method.batch}, norms clipped at {method.clip_norm:g}"
    )


def _splits(plan: VideoDprpTables, data: Collection[Any]) -> tuple[Kept, Kept]:
    """Training and test recordings; a part of them is drawn with a public seed."""
    train, test = (split_of(data, name) for name in ("train", "test"))
    if train is test:
        raise BadInput("Expected a data set with a train and a test split, got one part; see data.")
    most = plan.most or (_QUICK if plan.quick else max(len(train), 2 * len(test)))
    kept = []
    for split, size in ((train, most), (test, max(1, most // 2))):
        chosen = np.random.default_rng(0).permutation(len(split))[:size]
        kept.append(Kept(origin=split, numbers=tuple(sorted(chosen.tolist()))))
    return kept[0], kept[1]


def command(plan: VideoDprpTables, data: Collection[Any]) -> str:
    """The command that gives it again; paths are not named."""
    words = ["masquerade recipe video_dprp", f"--data {catalog.name_of(data)}"]
    for options in (plan, data):
        for field in dataclasses.fields(options):  # type: ignore[arg-type]
            value = getattr(options, field.name)
            if value == field.default or field.name in ("out", "page", "jobs"):
                continue
            flag = "--" + field.name.replace("_", "-")
            shown = "PATH" if isinstance(value, Path) else value
            words.append(flag if value is True else f"{flag} {shown}")
    return " ".join(words)


EXAMPLE = VideoDprpTables()
