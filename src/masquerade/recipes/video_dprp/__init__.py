"""Video-DPRP's tables: release then learn, beside training with noise, at true epsilons."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import joblib
import numpy as np

from masquerade import _check, _json, catalog
from masquerade.collection import Collection
from masquerade.datasets.stage import Stage
from masquerade.networks.network import Network, network_class
from masquerade.recipes import bench, seen
from masquerade.recipes.preset import settled
from masquerade.recipes.video_dprp import faces, timing
from masquerade.recipes.video_dprp import page as pages
from masquerade.recipes.video_dprp import run as runs
from masquerade.recipes.video_dprp.films import Kept
from masquerade.recipes.video_dprp.results import FaceCount, Measured, Setting, TimedRow
from masquerade.recipes.video_dprp.rows import Choices, Spec, all_rows
from masquerade.recipes.video_dprp.settings import PRESETS
from masquerade.result import Answer
from masquerade.training.units import classes_of

_QUICK = {"most": 120, "tests": 240, "seeds": 3}
_VIDEOS = 6_048  # of Stage, of which 1,008 are test recordings


@dataclass(frozen=True, kw_only=True)
class VideoDprpTables:
    """Release by every mechanism, learn from it, and compare with training with noise.

    Rows, units and true epsilons stand beside each other; what is not comparable is said to be so
    [nken2025, Tab. 1 to 5]. What a flag leaves open the setting decides. A run that is stopped
    goes on where it was.

    Args:
        out: folder for the results; it is made.
        page: a page of the docs that gets a section.
        setting: stage, or the paper's own numbers.
        network: which one.
        weights: public weights for it.
        part: what is trained.
        epochs: of every run.
        batch: recordings in a batch, on average.
        learning_rate: of sgd with noise.
        clean_learning_rate: of sgd where no noise is in the training.
        momentum: of sgd.
        warmup: share of the steps in which the learning rate rises.
        schedule: of the learning rate after that.
        clip_norm: C, of training with noise.
        epsilons: of training and of releases.
        delta: beside each.
        ks: columns of the projection in Table 3, at 320 x 240; other sizes get the same share.
        bs: the projection's shares of the budget in Table 4.
        crop: what is learned from a recording where no noise is added in training: its middle, or
            a stretch at a random place.
        stride: from one frame that the network sees to the next, in such a stretch.
        seeds: runs of each row, each with a release of its own.
        most: training recordings, chosen by chance; all if neither this nor the setting says.
        tests: test recordings, chosen by chance; all if None.
        tables: which of the five.
        mechanisms: those whose releases get rows; all if None.
        looks: whether attackers tell what people look like in every release, on Stage.
        quick: 120 training and 240 test recordings, and fewer rows, unless asked for otherwise.
        device: cpu or cuda.
        jobs: processes; by default one a core, and one on a GPU.
    """

    ENTRIES: ClassVar[tuple[tuple[str, ...], ...]] = (("data", "datasets", "stage"),)

    out: Path = Path("out/video_dprp")
    page: Path | None = None
    setting: Literal["stage", "paper"] = "stage"
    network: Literal["mvit_small", "mvit_v1_b", "mvit_v2_s"] | None = None
    weights: Path | None = None
    part: Literal["head", "last_norms", "norms", "all"] | None = None
    epochs: float | None = None
    batch: int | None = None
    learning_rate: float | None = None
    clean_learning_rate: float | None = None
    momentum: float | None = None
    warmup: float | None = None
    schedule: Literal["cosine", "constant"] | None = None
    clip_norm: float | None = None
    epsilons: tuple[float, ...] | None = None
    delta: float | None = None
    ks: tuple[int, ...] | None = None
    bs: tuple[float, ...] | None = None
    crop: Literal["middle", "random"] | None = None
    stride: int | None = None
    seeds: int | None = None
    most: int | None = None
    tests: int | None = None
    tables: tuple[int, ...] = (1, 2, 3, 4, 5)
    mechanisms: tuple[str, ...] | None = None
    looks: bool = True
    quick: bool = False
    device: Literal["cpu", "cuda"] = "cpu"
    jobs: int | None = None

    def __post_init__(self) -> None:
        counts = ("batch", "stride", "seeds", "most", "tests", "jobs")
        sizes = ("epochs", "learning_rate", "clean_learning_rate", "clip_norm")
        for names, check in ((counts, _check.count), (sizes, _check.positive)):
            given = {name: getattr(self, name) for name in names}
            check(**{name: value for name, value in given.items() if value is not None})
        _check_each(_check.positive, epsilons=self.epsilons)
        _check_each(_check.count, ks=self.ks)
        _check_each(_check.delta, bs=self.bs, delta=None if self.delta is None else (self.delta,))
        if not self.tables or not set(self.tables) <= set(pages.TITLES):
            raise ValueError(f"Expected tables among 1 to 5, got tables={self.tables}.")
        for name in self.mechanisms or ():
            if name not in catalog.names("mechanisms"):
                raise ValueError(_check.unknown("mechanism", name, catalog.names("mechanisms")))

    def settled(self) -> VideoDprpTables:
        """The plan as it is run: what was left open filled in, shortened first where quick."""
        few = {name: value for name, value in _QUICK.items() if getattr(self, name) is None}
        plan = replace(self, **few) if self.quick else self  # type: ignore[arg-type]
        return settled(plan, PRESETS)

    def run(self, data: Collection[Any]) -> Answer:
        """Read once, release and learn many times, test each."""
        journal = bench.Journal.of(self, data)
        with bench.telling() as told:
            found, setting = self.measure(data, journal=journal, told=told)
        return self.results(data, found, setting).publish(self, data, journal)

    def results(self, data: Collection[Any], found: Measured, setting: Setting) -> bench.Results:
        """As they are written; those of a preset of Stage that is not the usual one say which."""
        kind = data.preset if isinstance(data, Stage) and not _is_usual(data) else ""
        drawn = pages.plots(found)
        return bench.Results(
            title=f"Video-DPRP: releases, and training with noise{kind and f', preset {kind}'}",
            text=pages.markdown(found, setting),
            data=pages.plain(found, setting),
            plots={
                name.replace("dprp_", f"dprp_{kind}_") if kind else name: one
                for name, one in drawn.items()
            },
        )

    def measure(
        self, data: Collection[Any], *, journal: bench.Journal, told: bench.Told = bench.quiet
    ) -> tuple[Measured, Setting]:
        """Every row, measured, and on what."""
        plan, data = self.settled(), _sized(data)
        train, test = plan.kept(data)
        shape = train[0].frames.shape
        specs = [
            spec
            for spec in all_rows(shape, plan.choices, is_quick=plan.quick)
            if spec.table in plan.tables and plan.is_wanted(spec.mechanism)
        ]
        rows = runs.measure(plan, (train, test), specs, journal=journal, told=told)
        timed = plan.timed(train[0].frames, journal, told) if 5 in plan.tables else ()
        found = Measured(
            rows=tuple(rows),
            timed=timed,
            timed_shape=(timing.FRAMES, *timing.SIZE, 3) if timed else (),
            faces=plan.faces(data, journal) if 1 in plan.tables else None,
            is_gpu=plan.device == "cuda",
        )
        return found, plan.described(data, train, test)

    def is_wanted(self, mechanism: str | None) -> bool:
        """Whether a row of it was asked for; rows that release nothing always are."""
        return mechanism is None or self.mechanisms is None or mechanism in self.mechanisms

    def described(self, data: Collection[Any], train: Kept, test: Kept) -> Setting:
        """On what it was measured."""
        return Setting(
            name=self.setting,
            shape=train[0].frames.shape,
            seen=self.begun.length,
            train=len(train),
            test=len(test),
            classes=len(classes_of(data)),
            seeds=self.repeats,
            network=str(self.network),
            part=str(self.part),
            course=self._said,
            epsilons=self.choices.epsilons,
            delta=self.choices.delta,
            left_open=PRESETS[self.setting].left_open,
        )

    def timed(
        self, frames: np.ndarray, journal: bench.Journal, told: bench.Told
    ) -> tuple[TimedRow, ...]:
        """Table 5."""
        told("timing releases", 0, 1)
        video = timing.enlarged(frames, count=timing.FRAMES)
        take = partial(
            timing.timed, video, self.choices, where=self.device, is_brief=self._is_brief
        )
        held = journal.measured("seconds a video", take)
        return tuple(_json.decode(TimedRow, row) for row in held)

    def faces(self, data: Collection[Any], journal: bench.Journal) -> FaceCount | None:
        """What face_blur finds; only Stage knows what there is."""
        if not isinstance(data, Stage):
            return None
        made = type(catalog.example("mechanisms", "face_blur"))(strength="paper")
        held = journal.measured("faces", partial(faces.counted, data, made))
        return None if held is None else _json.decode(FaceCount, held)

    @property
    def _is_brief(self) -> bool:
        """Whether what takes minutes on a processor is left out of Table 5."""
        return self.quick or (self.device == "cpu" and self.setting == "stage")

    @property
    def choices(self) -> Choices:
        """What the tables vary."""
        plan = self.settled()
        return Choices(
            epsilons=tuple(plan.epsilons or ()),
            delta=plan.delta or 0.0,
            ks=tuple(plan.ks or ()),
            bs=tuple(plan.bs or ()),
        )

    @property
    def repeats(self) -> int:
        """Of each row."""
        return self.settled().seeds or 1

    @property
    def processes(self) -> int:
        """That work side by side."""
        return self.jobs or (1 if self.device == "cuda" else int(joblib.cpu_count()))

    @property
    def begun(self) -> Network:
        """The network and its public weights; its head begins with zeros."""
        return network_class(str(self.settled().network))(**{"weights": self.weights})

    def method(self, spec: Spec) -> Any:
        """A row's training method; its noise meets epsilon under replace_one, like releases."""
        plan = self.settled()
        names = ("batch", "epochs", "part", "momentum", "warmup", "schedule", "clip_norm", "delta")
        is_clean = math.isinf(spec.epsilon)
        return type(catalog.example("training", spec.method))(
            epsilon=spec.epsilon,
            unit="video",
            relation="replace_one",
            segments=spec.segments,
            learning_rate=plan.clean_learning_rate if is_clean else plan.learning_rate,
            **{name: getattr(plan, name) for name in names},
        )

    @property
    def _said(self) -> str:
        """How every row learns, in words."""
        method, plan = self.method(Spec(table=0, name="")), self.settled()
        crop = ", from a random stretch where there is no noise" if plan.crop == "random" else ""
        return (
            f"{method.optimiser}, learning rate {plan.learning_rate:g} with noise and "
            f"{plan.clean_learning_rate:g} without ({method.schedule}), "
            f"momentum {method.momentum:g}, {method.epochs:g} epochs, batches of {method.batch}, "
            f"norms clipped at {method.clip_norm:g}{crop}"
        )

    def kept(self, data: Collection[Any]) -> tuple[Kept, Kept]:
        """Training and test recordings; a part of them is drawn with a public seed."""
        train, test = (
            Kept(origin=split, numbers=tuple(sorted(_some(len(split), most))))
            for split, most in zip(bench.parts(data), (self.most, self.tests), strict=True)
        )
        return train, test


def _some(count: int, most: int | None) -> list[int]:
    found: list[int] = np.random.default_rng(0).permutation(count)[: most or count].tolist()
    return found


def _check_each(check: Any, **values: tuple[Any, ...] | None) -> None:
    for name, several in values.items():
        if several == ():
            raise ValueError(f"Expected at least one of {name}, got none.")
        for value in several or ():
            check(**{name: value})


def _sized(data: Collection[Any]) -> Collection[Any]:
    """Stage as the small network wants it, with many to test on; another preset as it is."""
    if not isinstance(data, Stage) or not _is_usual(data):
        return data
    return seen.sized(replace(data, videos=data.videos or _VIDEOS))


def _is_usual(stage: Stage) -> bool:
    return stage.preset == Stage().preset


EXAMPLE = VideoDprpTables()
