"""Choose how the head learns in the experiment video_dprp, on a world that is never tested.

Run: PYTHONPATH=. python benchmarks/choose_video_dprp.py [--weights FILE] [--quick]; about half an
hour of one core. Prints Top-1 on world 2000 for each method, batch, number of epochs, epsilon and
learning rate, two seeds each, and the best of each; and before that what more recordings bring
where there is no noise. ``--quick`` tries a few settings on 48 recordings and tests 24, to see that
all of it runs, and chooses nothing.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tyro

from experiments import video_dprp, videos
from experiments.claims import Runs
from experiments.engine import Run
from experiments.video_dprp import VideoDprpSettings
from experiments.video_dprp_rows import SEGMENTS, Spec
from masquerade.datasets.stage import Stage
from masquerade.training.rows import Rows

WORLD = 2_000
SEEDS = range(2)
CLEAN = 0.5  # the rate at which sizes are compared
METHODS = (("dp_sgd", 1), ("multi_clip", SEGMENTS))  # and how many segments they learn from


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What is tried, and on how much.

    Args:
        videos: of the world, a third of them private and a sixth for tests.
        sizes: recordings that are learned from without noise; the settings are of the middle one.
        tests: that are tested.
        courses: batch and epochs.
        epsilons: inf is without noise.
        rates: of learning.
    """

    videos: int = 6_048
    sizes: tuple[int, ...] = (240, 480, 720, 1_008, 2_016)
    tests: int = 1_008
    courses: tuple[tuple[int, float], ...] = ((128, 40.0), (240, 40.0), (360, 60.0))
    epsilons: tuple[float, ...] = (math.inf, 2.0, 8.0)
    rates: tuple[float, ...] = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)

    @property
    def most(self) -> int:
        """That the settings are chosen on."""
        return self.sizes[len(self.sizes) // 2]


QUICK = Tried(
    videos=324,
    sizes=(24, 48, 60),
    tests=24,
    courses=((16, 5.0),),
    epsilons=(math.inf, 8.0),
    rates=(0.05, 0.5),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Trial:
    """What is learned from and tested on, as the trunk sees it."""

    plan: VideoDprpSettings
    train: Rows
    test: Rows
    classes: int

    def scored(self, spec: Spec, *, rate: float, most: int) -> Runs:
        """Top-1 after learning from the first recordings, one run a seed."""
        course = replace(self.plan, learning_rate=rate, clean_learning_rate=rate)
        rows = replace(self.train, slots=self.train.slots[:most])
        steps = course.build_method(spec).plan_run(rows.num_units)
        learned = [
            video_dprp.train_row(course, spec, rows, steps, self.classes, seed) for seed in SEEDS
        ]
        shares = [video_dprp.score_tail(tail, self.test, spec.tested) for tail in learned]
        return Runs(shares, tested=self.test.num_units)


def main(weights: Path | None = None, quick: bool = False) -> None:
    """Look once, learn often.

    Args:
        weights: public ones; by default those that come along.
        quick: a few settings, to see that all of it runs.
    """
    tried = QUICK if quick else Tried()
    plan = VideoDprpSettings(weights=weights, most=max(tried.sizes), tests=tried.tests, jobs=1)
    plan, data = plan.settle(), videos.size_stage(Stage(seed=WORLD, videos=tried.videos))
    view = video_dprp.View(segments=SEGMENTS)
    train, test = (
        video_dprp.show_films(Run(settings=plan), films, view).rows
        for films in video_dprp.pick_recordings(plan, data)
    )
    order = np.random.default_rng(0).permutation(train.num_units)
    train = replace(train, slots=train.slots[order])
    trial = Trial(plan=plan, train=train, test=test, classes=len(data.activities))
    print(f"{train.num_units} recordings to learn from, {test.num_units} to test on")
    for size in tried.sizes:
        clean = trial.scored(Spec(table=0, name=""), rate=CLEAN, most=size)
        print(f"{size} recordings, no noise, rate {CLEAN}: {clean}", flush=True)
    choose(trial, tried)


def choose(trial: Trial, tried: Tried) -> None:
    """Every method in every course, and the best of each."""
    found: dict[str, dict[str, float]] = {}
    tries = itertools.product(METHODS, tried.epsilons, tried.courses, tried.rates)
    for (method, segments), epsilon, (batch, epochs), rate in tries:
        spec = Spec(
            table=0, name="", method=method, segments=segments, tested=segments, epsilon=epsilon
        )
        own = replace(trial, plan=replace(trial.plan, batch=batch, epochs=epochs))
        scored = own.scored(spec, rate=rate, most=tried.most)
        row, course = f"{method}, epsilon {epsilon:g}", f"batch {batch}, {epochs:g} epochs, {rate}"
        print(f"{row}, {course}: {scored}", flush=True)
        found.setdefault(row, {})[course] = scored.mean
    for row, scores in found.items():
        print(f"best of {row}: {max(scores, key=lambda name: scores[name])}")


if __name__ == "__main__":
    tyro.cli(main)
