"""MaskDP's tables: DP-SGD, MultiClip, MaskDP and its public part over epsilon, both relations."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Literal

from masquerade import __version__, _check, catalog
from masquerade.collection import Collection
from masquerade.data.stage import Stage
from masquerade.doors import Answer
from masquerade.files import atomic
from masquerade.nets import mvit
from masquerade.recipes import mask_dp_cells, mask_dp_rows, mask_dp_text
from masquerade.recipes.mask_dp_cells import ROWS, SCRATCH, SEGMENTS, Cell, Setting
from masquerade.recipes.mask_dp_rows import Held, Wanted
from masquerade.recipes.mask_dp_text import Found
from masquerade.recipes.results import Results
from masquerade.train.views import Private

EPSILONS = (0.1, 0.25, 0.5, 0.75, 1.0, 5.0, math.inf)
Told = Callable[[str, int, int], None]
_QUICK = (0.25, 1.0, math.inf)
_STARTED = "cells.json"  # of a run that is not finished
# 20 frames, so that three segments of 16 differ (they begin at frames 0, 2 and 4) and yet show all
# of an activity that happens once, such as sitting down
_WORLD = {"height": 64, "width": 64, "frames": 20, "subjects": 84, "videos": 2_592}


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
    def setting(self) -> Setting:
        """What all cells share."""
        shared = [field.name for field in dataclasses.fields(Setting)]
        found = Setting(**{name: getattr(self, name) for name in shared})
        if not self.quick:
            return found
        return replace(found, part="head", seeds=min(2, self.seeds), scratch_epochs=2.0)

    @property
    def wanted(self) -> dict[str, tuple[float, ...]]:
        """The epsilons of each row."""
        epsilons = _QUICK if self.quick else EPSILONS
        found = {name: epsilons for name in ROWS if self.from_scratch or name != SCRATCH}
        return found | ({SCRATCH: (1.0,)} if self.quick and self.from_scratch else {})

    def run(self, data: Collection[Any]) -> Answer:
        """Read once, train many times, test each."""
        self.out.mkdir(parents=True, exist_ok=True)
        progress_of = import_module("masquerade.compute.progress")  # not where there is no screen
        with progress_of.bars() as progress:
            task = progress.add_task("drawing", total=None)

            def told(what: str, done: int, total: int) -> None:
                progress.update(task, description=what, completed=done, total=total)

            found = measure(self, data, told)
        results = self.results(found, data)
        lines = results.write(self.out)
        (self.out / _STARTED).unlink(missing_ok=True)
        if self.page is not None:
            results.append(self.page)
        return Answer(data=dict(results.data), lines=lines)

    def results(self, found: Found, data: Collection[Any]) -> Results:
        """What was measured, as text, plain values and pictures."""
        named = "mask_dp" if self.private == "background" else "mask_dp_person"
        torch = mask_dp_cells.torch
        return Results(
            title=f"MaskDP, {self.private} private",
            command=" ".join(["masquerade recipe mask_dp", *_flags(self), *_flags(data)]),
            text=mask_dp_text.markdown(found),
            data={
                "views": "real",
                "setting": json.loads(json.dumps(dataclasses.asdict(found.setting), default=str)),
                "about": found.about,
                "units": found.units,
                "tested": found.tested,
                "cells": [cell.plain() for cell in found.cells],
                "sentences": mask_dp_text.sentences(found),
            },
            seconds=found.seconds,
            device=torch.cuda.get_device_name(0) if self.device == "cuda" else "cpu",
            plots={
                f"{named}_top_1": mask_dp_text.top_1_plot(found),
                f"{named}_figure_5": mask_dp_text.class_bars(found),
            },
        )


def measure(
    plan: MaskDpTables, data: Collection[Any], told: Told = lambda what, done, total: None
) -> Found:
    """Every cell; each recording is drawn and read once.

    Needs nothing that reads video files, keeps ledgers or draws on a screen.
    """
    if plan.device == "cuda" and not mask_dp_cells.torch.cuda.is_available():
        raise ValueError("Expected a GPU for device=cuda, found none; use device=cpu.")
    begun = time.perf_counter()
    setting, wanted = plan.setting, plan.wanted
    if isinstance(data, Stage):
        data = _sized(data)
        data.make(progress=partial(told, "drawing"))
    splits = _splits(plan, data, told)
    kept = _Kept(plan.out / _STARTED, plan, _about(data))
    known, before = kept.read()
    total, cells, seconds = sum(map(len, wanted.values())), [], before
    for cell in mask_dp_cells.measured(setting, wanted, splits, data.activities, known=known):
        cells.append(cell)
        seconds = before + time.perf_counter() - begun
        kept.write(cells, seconds)
        told("training", len(cells), total)
    return Found(
        cells=tuple(cells),
        setting=setting,
        about=kept.about,
        units=len(splits[0].targets),
        tested=len(splits[1].targets),
        seconds=seconds,
    )


def _splits(plan: MaskDpTables, data: Collection[Any], told: Told) -> tuple[Held, Held]:
    """What is learned from, in all views, and what is tested on."""
    net = plan.setting.net(len(data.activities))
    trunk, _ = mvit.split(net, plan.setting.part)
    films = Wanted(has_films=plan.from_scratch)
    views = {
        "train": replace(films, segments=SEGMENTS, private=Private(plan.private)),
        "test": films,
    }
    taught, tested = (
        mask_dp_rows.read(
            replace(data, split=split),  # type: ignore[type-var]
            net,
            trunk,
            wanted,
            device=plan.device,
            progress=partial(told, f"reading {split}"),
        )
        for split, wanted in views.items()
    )
    return taught, tested


@dataclass(frozen=True)
class _Kept:
    """Cells that were measured before the run was stopped."""

    path: Path
    plan: MaskDpTables
    about: str

    @property
    def _run(self) -> dict[str, Any]:
        found = dataclasses.asdict(self.plan) | {"about": self.about, "version": __version__}
        where = {"out", "page"}
        return {name: str(value) for name, value in found.items() if name not in where}

    def read(self) -> tuple[tuple[Cell, ...], float]:
        """The cells, and the seconds that they took; none of another run."""
        if not self.path.is_file():
            return (), 0.0
        held: Mapping[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
        if held["run"] != self._run:
            return (), 0.0
        return tuple(map(Cell.of, held["cells"])), float(held["seconds"])

    def write(self, cells: list[Cell], seconds: float) -> None:
        """Replace what is kept."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        found = {"run": self._run, "seconds": seconds, "cells": [cell.plain() for cell in cells]}
        atomic.write_whole(self.path, json.dumps(found).encode())


def _sized(stage: Stage) -> Stage:
    """Stage as the small network wants it, unless sizes were given."""
    given = {**_WORLD, "correlation": 0.5}
    missing = {name: value for name, value in given.items() if getattr(stage, name) is None}
    return replace(stage, **missing)  # type: ignore[arg-type]


def _about(data: Collection[Any]) -> str:
    if not isinstance(data, Stage):
        return data.ABOUT.title
    world = data.world
    return (
        f"Stage, {world.subjects} people in {world.videos} videos of {world.frames} frames, "
        f"{world.height} x {world.width}, world {world.seed}, activity and place together with "
        f"chance {world.correlation:g}"
    )


def _flags(options: Any) -> list[str]:
    """The flags that were given: what differs from its default, but for where results go."""
    found = []
    if isinstance(options, Collection) and not isinstance(options, Stage):
        found.append(f"--data {catalog.name_of(options)}")
    for field in dataclasses.fields(options):
        value, flag = getattr(options, field.name), field.name.replace("_", "-")
        if field.name in ("out", "page") or value == field.default:
            continue
        if isinstance(value, bool):
            found.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            found.append(f"--{flag} {value}")
    return found


EXAMPLE = MaskDpTables()
