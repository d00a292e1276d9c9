"""The demo's model of videos: a small network that learns with and without privacy."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from masquerade import _formatting, _json
from masquerade._formatting import format_rounded_up
from masquerade._torch import torch
from masquerade.attacks.attack import ModelCase
from masquerade.attacks.membership import Membership
from masquerade.attacks.membership_scores import ShadowModels
from masquerade.datasets.stage import Stage
from masquerade.demo.steps import Chapter, DemoSystem, Progress, hide_progress
from masquerade.guarantee import Relation
from masquerade.networks.network import MvitSmall
from masquerade.noise import Noise
from masquerade.publish.attacked import ShadowTraining, list_unit_rows
from masquerade.report import page, plots
from masquerade.report.page import PagePart
from masquerade.scores import MeasuredRate
from masquerade.training import learner, loop
from masquerade.training.method import Method, make_training_plan
from masquerade.training.methods import DpSgd, MaskDp, PublicPart
from masquerade.training.rows import FilmReader, Rows

EPSILON = 1.0
HEADING = (
    *("training", "what is protected", "epsilon, zero_out", "epsilon, replace_one"),
    "top-1 in per cent",
)
DP, MASK_DP, PUBLIC = "DP", "MaskDP", "public part only"
RELATIONS = (Relation.ZERO_OUT, Relation.REPLACE_ONE)
UNITS = {
    DP: "whole recording",
    MASK_DP: "private pixels of one recording",
    PUBLIC: "nothing; no private pixel is read",
}
# a task is in a world below 1000: the network was taught in others, by other people and activities
WORLD = Stage(seed=1, height=64, width=64, subjects=84, videos=972, correlation=0.5)
COMMON: dict[str, Any] = {
    **{"unit": "video", "delta": 1e-5, "relation": "replace_one", "batch": 64, "epochs": 10.0},
    **{"clip_norm": 1.0, "schedule": "cosine", "warmup": 0.2, "momentum": 0.9, "part": "head"},
}
NUM_SHADOWS = 8  # models of an attack on who was learned from
_NUM_SEEDS = 3
_PHYSICAL_BATCH = 192  # units whose gradients are computed at once
_NUM_RETRAINED = 4  # attacked models that are trained once more, to test them
_MAIN_ATTACK = "LiRA, with and without"
_NUM_ERRORS = 2.0  # standard errors of a difference, beyond which it counts


def make_method(name: str, epsilon: float) -> Method:
    """A way of training at an epsilon; rates and lambda were chosen on another world."""
    masked = COMMON | {"epsilon": epsilon, "private": "background", "public_batch": 64}
    if name == DP:
        return DpSgd(**COMMON, epsilon=epsilon, learning_rate=1.0 if epsilon == math.inf else 0.02)
    if name == PUBLIC:
        return PublicPart(**(masked | {"batch": 64, "learning_rate": 0.1}))
    return MaskDp(**(masked | {"batch": 64, "learning_rate": 0.005, "view": "whole", "weight": 30}))


def compute_shared_epsilons(units: int) -> dict[str, float]:
    """What the published form, one batch for both parts, really costs; it is not trained."""
    fields = COMMON | {"private": "background", "public_batch": COMMON["batch"], "momentum": 0.0}
    method = MaskDp(**fields, epsilon=EPSILON, learning_rate=0.1, form="as_published")
    plan = make_training_plan(method, units)
    return {relation.value: plan.compute_epsilon(relation) for relation in RELATIONS}


@dataclass(frozen=True, kw_only=True)
class TrainedCell:
    """A network that was trained some times, and tested.

    Args:
        method: how.
        epsilon: that was asked for; inf for no noise.
        top_1: on the test split, one number a run.
        per_class: the same for each class, by name.
        proved: epsilon by relation; empty without noise.
        noise_multiplier: z.
        noise_norm: of the noise in the mean gradient of a step, about.
        steps: of a run.
        tested: recordings that it was tested on.
    """

    method: str
    epsilon: float
    relation: str = "replace_one"
    correlation: float | None = None
    films: str | None = None
    top_1: tuple[float, ...]
    per_class: Mapping[str, Sequence[float]]
    proved: Mapping[str, float]
    noise_multiplier: float
    noise_norm: float
    steps: int
    tested: int

    @property
    def mean_accuracy(self) -> float:
        """Over runs."""
        return float(np.mean(self.top_1))

    @property
    def standard_error(self) -> float:
        """The standard error of the mean, of runs and of tested recordings."""
        chance = self.mean_accuracy * (1 - self.mean_accuracy) / self.tested
        return math.sqrt(float(np.var(self.top_1, ddof=1)) / len(self.top_1) + chance)

    @property
    def percent_text(self) -> str:
        """Mean and spread."""
        return f"{100 * self.mean_accuracy:.1f} ± {100 * float(np.std(self.top_1, ddof=1)):.1f}"

    @property
    def class_mean(self) -> float:
        """The mean over classes, however many recordings each has."""
        return float(np.mean(np.mean(list(self.per_class.values()), axis=0)))

    def list_fields(self) -> dict[str, Any]:
        """As JSON, which has no infinity."""
        asked = None if self.epsilon == math.inf else self.epsilon
        means = {"mean": self.mean_accuracy, "mean_per_class": self.class_mean}
        return (
            dict(_json.encode_noun(self)) | {"epsilon": asked, "unit": UNITS[self.method]} | means
        )

    def compare_cell(self, other: TrainedCell) -> str:
        """Whether it is ahead of another in Top-1."""
        gap = self.mean_accuracy - other.mean_accuracy
        if abs(gap) <= _NUM_ERRORS * math.hypot(self.standard_error, other.standard_error):
            return "not told apart"
        return "ahead" if gap > 0 else "behind"


@dataclass(frozen=True, kw_only=True)
class AttackedCell:
    """What attackers find of who was learned from, and what such models are good for.

    Args:
        method: that is attacked.
        epsilon: that it has; None without noise.
        found: hits at 1 % false alarms, by attacker.
        top_1: of models that learned from the same halves, on other people's recordings.
    """

    method: str
    epsilon: float | None
    found: Mapping[str, MeasuredRate]
    top_1: Sequence[float]


def make_chapter(progress: Progress = hide_progress) -> Chapter:
    """Draw people, train every way with three seeds, attack two ways, test on others."""
    with _use_one_thread():
        lessons = _read_rows(WORLD.select_part("train"), make_method(MASK_DP, EPSILON), progress)
        exam = _read_rows(WORLD.select_part("test"), make_method(DP, EPSILON), progress)
        cells = _train_cells(lessons, exam, progress)
        members = _attack_cells(lessons, exam, progress)
    shared = compute_shared_epsilons(lessons.num_units)
    rows, said = _list_rows(cells, shared), write_sentences(cells, units=lessons.num_units)
    return Chapter(
        sections=[
            page.Section(
                title="A model that is trained privately",
                body=page.format_table(HEADING, rows)
                + page.format_listing(said)
                + page.format_figure(_draw_classes(cells)),
                has_originals=True,
                part=PagePart.ATTACKS,
            ),
            page.Section(
                title="A model: what is kept against who is found",
                body=page.format_figure(_draw_frontier(members)),
                has_originals=True,
                part=PagePart.FRONTIER,
            ),
        ],
        systems=[_describe_system(cells, members)],
        data={
            "training": {
                "cells": [cell.list_fields() for cell in cells.values()],
                "sentences": said,
                "shared_batch": {"claimed": EPSILON, "valid": False, "true_epsilon": shared},
            }
        },
    )


Cells = Mapping[tuple[str, float], TrainedCell]  # by method and epsilon


def _read_rows(data: Any, method: Method, progress: Progress) -> Rows:
    """What the frozen part of the network sees of recordings, in the views that a method has."""
    network = MvitSmall()
    trunk = network.split(network.make(len(data.activities), seed=0), method.part)[0]
    reader, memory = FilmReader(method, network, data.activities), learner.MemorySettings()
    with learner.rows_of(data, reader, trunk, memory=memory, tell=progress) as (rows, _):
        return rows


def _train_cells(lessons: Rows, exam: Rows, progress: Progress) -> Cells:
    """Every way of training; what reads nothing private is the same at every epsilon."""
    asked = ((DP, math.inf), (DP, EPSILON), (MASK_DP, EPSILON), (PUBLIC, math.inf))
    found = {}
    for name, epsilon in asked:
        found[name, epsilon] = _train_cell(name, epsilon, lessons, exam)
        progress("training", len(found), len(asked))
    public = found.pop((PUBLIC, math.inf))
    return found | {(PUBLIC, each): replace(public, epsilon=each) for each in (EPSILON, math.inf)}


def _train_cell(name: str, epsilon: float, lessons: Rows, exam: Rows) -> TrainedCell:
    method = make_method(name, epsilon)
    rows = lessons if method.HAS_PUBLIC else replace(lessons, public=None)
    plan, scores, weights = make_training_plan(method, rows.num_units), [], 0
    for seed in range(_NUM_SEEDS):
        tail = _make_tail(method, seed=seed)
        loop.run_training(
            tail,
            rows,
            replace(method, public_seed=seed),
            plan,
            noise=Noise(),
            work=loop.Workload(physical=min(_PHYSICAL_BATCH, rows.num_units)),
            progress=lambda done, total: None,
        )
        weights = sum(held.numel() for held in tail.parameters() if held.requires_grad)
        scores.append(find_right(tail, exam))
    right, truth = np.stack(scores), exam.targets.numpy()
    is_noisy = plan.noise_multiplier > 0
    return TrainedCell(
        method=name,
        epsilon=epsilon,
        top_1=tuple(right.mean(axis=1).tolist()),
        per_class={
            WORLD.activities[one]: tuple(right[:, truth == one].mean(axis=1).tolist())
            for one in np.unique(truth)
        },
        proved={each.value: plan.compute_epsilon(each) for each in RELATIONS} if is_noisy else {},
        noise_multiplier=plan.noise_multiplier,
        noise_norm=plan.sigma * math.sqrt(weights) / plan.sampler.expected,
        steps=plan.steps,
        tested=len(truth),
    )


def _make_tail(method: Method, *, seed: int) -> Any:
    """The part of the network that is trained, before it has learned."""
    network = MvitSmall()
    return network.split(network.make(len(WORLD.activities), seed=seed), method.part)[1]


def find_right(tail: Any, rows: Rows, *, batch: int = 64) -> np.ndarray:
    """(U,) whether the output for the middle segment of a recording names its class."""
    middle = torch.from_numpy(rows.slots[:, rows.slots.shape[1] // 2])
    with torch.no_grad():
        said = torch.cat([tail(rows.private[some]) for some in middle.split(batch)])
    found: np.ndarray = (said.argmax(dim=1) == rows.targets[middle]).numpy()
    return found


def _attack_cells(lessons: Rows, exam: Rows, progress: Progress) -> list[AttackedCell]:
    """Who was learned from, by DP and MaskDP, with and without noise.

    Half of the recordings are in every model; where a method has a public view, all are, and half
    of them with their private pixels.
    """
    attack, found = Membership(shadows=NUM_SHADOWS, jobs=1), list[AttackedCell]()
    leaky: ShadowModels | None = None  # one ceiling for all
    at, whose = list_unit_rows(lessons)
    for name in (DP, MASK_DP):
        for epsilon in (EPSILON, math.inf):
            method = make_method(name, epsilon)
            rows = lessons if method.HAS_PUBLIC else replace(lessons, public=None)
            training = ShadowTraining(
                rows=rows, method=method, network=MvitSmall(), classes=len(WORLD.activities)
            )
            case = ModelCase(
                targets=lessons.targets.numpy()[at],
                whose=whose,
                learn=training,
                overfit=training.make_overfitting(),
            )
            leaky = leaky or attack.train_leaky_models(case, told=progress)
            some = attack.sample_shadow_halves(case)[:_NUM_RETRAINED]
            top_1 = [
                float(find_right(training.train_on_members(each), exam).mean()) for each in some
            ]
            tried = attack.guess_members(case, told=progress, leaky=leaky)
            hits = {one.attacker: attack.summarise_guesses(case, one).published[0] for one in tried}
            asked = None if epsilon == math.inf else epsilon
            found.append(AttackedCell(method=name, epsilon=asked, found=hits, top_1=top_1))
    return found


def _describe_system(cells: Cells, members: Sequence[AttackedCell]) -> DemoSystem:
    """MaskDP, and what the best attacker finds at 1 % false alarms, with and without noise."""
    cell, free = cells[MASK_DP, EPSILON], cells[DP, math.inf]
    best = {
        one.epsilon: max(hit.value for hit in one.found.values())
        for one in members
        if one.method == MASK_DP
    }
    before, after = (f"{100 * best[epsilon]:.1f} %" for epsilon in (None, EPSILON))
    return DemoSystem(
        name="MaskDP: a model of films",
        protects=UNITS[MASK_DP],
        epsilon=f"{format_rounded_up(cell.proved['replace_one'], 4)}, delta {COMMON['delta']:g}",
        good_for=f"names {cell.percent_text} % of activities right; without privacy "
        f"{free.percent_text}",
        attack=f"{before}, then {after} of those it learned from, at 1 % false alarms",
    )


@contextlib.contextmanager
def _use_one_thread() -> Iterator[None]:
    """The films are small; on a busy machine threads would mostly wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _list_rows(cells: Cells, shared: dict[str, float]) -> list[tuple[str, ...]]:
    """Lines of the table; the published form, one batch for both parts, is only reckoned."""
    lines = []
    for (name, epsilon), cell in cells.items():
        if (name, epsilon) == (PUBLIC, math.inf):
            continue  # the same run
        is_open = name == DP and not cell.proved
        called, unit = ("no privacy", "nothing") if is_open else (name, UNITS[name])
        proved = [
            format_rounded_up(cell.proved[r.value], 4) if cell.proved else "-" for r in RELATIONS
        ]
        lines.append((called, unit, *proved, cell.percent_text))
    zeroed, replaced = (format_rounded_up(shared[r.value], 4) for r in RELATIONS)
    claim = f"{replaced} (CLAIMED, NOT VALID: {EPSILON:g})"
    lines.append((f"{MASK_DP} as published", UNITS[MASK_DP], zeroed, claim, "not trained"))
    return lines


def write_sentences(cells: Cells, *, units: int) -> list[str]:
    """What the table shows, each sentence computed."""
    ours, dp, public = (cells[name, EPSILON] for name in (MASK_DP, DP, PUBLIC))
    free, alone = cells[DP, math.inf], cells[PUBLIC, math.inf]
    said = []
    for other in (public, dp):
        word = ours.compare_cell(other)
        said.append(
            f"{MASK_DP} against {other.method}: {word} at every epsilon. Up to epsilon 1 as a "
            f"whole: {word}."
        )
    norms = "; ".join(
        f"{cell.method} {cell.noise_norm:.2g} at {EPSILON:g}, over {cell.steps} steps"
        for cell in (dp, ours)
    )
    is_even = all(abs(cell.mean_accuracy - cell.class_mean) < 1e-9 for cell in cells.values())
    even = (
        "Every class has as many test recordings as every other, so the mean over classes is the "
        "same number."
    )
    return [
        *said,
        "Equal numbers are not equal promises: DP's is for the whole recording, MaskDP's for its "
        "private pixels alone.",
        "Private: background; public: people. Of what all pixels teach without noise the public "
        f"part alone reaches {alone.percent_text} of {free.percent_text} (chance: "
        f"{100 / len(free.per_class):.1f}).",
        *([even] if is_even else []),
        "Norm of the noise in a step's mean gradient, whose private part has norm "
        f"{COMMON['clip_norm']:g} at most: {norms}.",
        f"Learned from {units} recordings: Stage, {WORLD.world.subjects} people, another world "
        f"than the public one; mvit_small, part {COMMON['part']}, {COMMON['epochs']:g} epochs, "
        f"setting stage. Tested on the middle segment of {free.tested} recordings of other people, "
        f"in per cent. ± is the standard deviation over n = {_NUM_SEEDS} runs; a row is ahead "
        "beyond "
        "twice the standard error of the difference, over runs and tested recordings.",
        "What could be chosen (rates, batches, lambda) was, once for each method, private side and "
        "relation, on Stage's world 2000; what has no noise has no relation, and is as under the "
        "first one.",
        "Each epsilon is of one run alone; all runs of a table together cost more.",
    ]


def _draw_classes(cells: Cells) -> str:
    """How each class fares with and without noise [schneider2024, Fig. 5]."""
    chosen = {
        "no privacy": cells[DP, math.inf],
        f"DP, epsilon {EPSILON:g}": cells[DP, EPSILON],
        f"MaskDP, epsilon {EPSILON:g}": cells[MASK_DP, EPSILON],
    }
    series = [
        plots.BarSeries(
            name=name,
            values=np.array([100 * np.mean(runs) for runs in cell.per_class.values()]),
            spreads=np.array([100 * np.std(runs, ddof=1) for runs in cell.per_class.values()]),
        )
        for name, cell in chosen.items()
    ]
    axes = plots.PlotAxes(
        title="Each class, background private", x_label="", y_label="per cent right"
    )
    classes = tuple(cells[DP, EPSILON].per_class)
    return plots.draw_bars(series, classes, axes, limits=(0.0, 100.0))


def _draw_frontier(members: Sequence[AttackedCell]) -> str:
    """What models are good for against what LiRA finds in them, with the frontier."""
    dots = []
    for one in members:
        hit = one.found[_MAIN_ATTACK]
        noise = (
            "no noise"
            if one.epsilon is None
            else f"eps {_formatting.format_rounded_up(one.epsilon, 3)}"
        )
        dots.append(
            plots.FrontierDot(
                name=f"{one.method}, {noise}",
                given_away=100 * hit.value,
                low=100 * hit.low,
                high=100 * hit.high,
                kept=100 * float(np.mean(one.top_1)),
                spread=100 * float(np.std(one.top_1, ddof=1)),
                is_proved=one.epsilon is not None,
                is_this=(one.method, one.epsilon) == (MASK_DP, EPSILON),
            )
        )
    axes = plots.PlotAxes(
        title="What is kept against who is found",
        x_label="found by LiRA at 1 % false alarms, % (less is better; 1 is guessing)",
        y_label="Top-1 of the attacked, %",
    )
    return plots.draw_frontier(dots, axes)
