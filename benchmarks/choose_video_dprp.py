"""Choose how the head learns in `recipe video_dprp`, on a world that is never tested.

Run: python benchmarks/choose_video_dprp.py [--weights FILE] [--quick]; about three minutes of one
core. Prints Top-1 on world 2000 for each batch, number of epochs, epsilon and learning rate, two
seeds each, and the best of each epsilon. 240 of its recordings are learned from, 400 tested;
``--quick`` tries four settings on 48 and 24, to see that all of it runs, and chooses nothing.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from pathlib import Path

import tyro

from masquerade.data.stage import Stage
from masquerade.recipes import seen
from masquerade.recipes.verdict import Runs
from masquerade.recipes.video_dprp import VideoDprpTables
from masquerade.recipes.video_dprp import run as runs
from masquerade.recipes.video_dprp.rows import Spec

WORLD = 2_000
SEEDS = range(2)


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What is tried, and on how much.

    Args:
        videos: of the world, a sixth of them for tests.
        most: that are learned from.
        tests: that are tested.
        courses: batch and epochs.
        epsilons: inf is without noise.
        rates: of learning.
    """

    videos: int = 6_048
    most: int = 240
    tests: int = 400
    courses: tuple[tuple[int, float], ...] = ((32, 20.0), (64, 40.0), (128, 40.0), (240, 60.0))
    epsilons: tuple[float, ...] = (math.inf, 2.0, 8.0)
    rates: tuple[float, ...] = (0.02, 0.05, 0.1, 0.5, 2.0)


QUICK = Tried(
    videos=324, most=48, tests=24, courses=((16, 5.0),), epsilons=(math.inf, 8.0), rates=(0.05, 0.5)
)


def main(weights: Path | None = None, quick: bool = False) -> None:
    """Look once, learn often.

    Args:
        weights: public ones; by default those that come along.
        quick: a few settings, to see that all of it runs.
    """
    tried = QUICK if quick else Tried()
    plan = VideoDprpTables(weights=weights, most=tried.most, tests=tried.tests, jobs=1).settled()
    data = seen.sized(Stage(seed=WORLD, videos=tried.videos))
    train, test = (runs.see(plan, films, runs.View()).rows for films in plan.kept(data))
    print(f"{train.units} recordings learned from, {len(test.targets)} tested")
    found: dict[float, dict[str, float]] = {}
    for (batch, epochs), epsilon in itertools.product(tried.courses, tried.epsilons):
        spec = Spec(table=0, name="", epsilon=epsilon)
        steps = replace(plan, batch=batch, epochs=epochs).method(spec).plan(train.units)
        for rate in tried.rates:
            course = replace(plan, batch=batch, epochs=epochs, learning_rate=rate)
            course = replace(course, clean_learning_rate=rate)
            learned = [
                runs.learn(course, spec, train, steps, len(data.activities), seed) for seed in SEEDS
            ]
            shares = [float(seen.is_right(tail, test).mean()) for tail in learned]
            scored = Runs(shares, tested=len(test.targets))
            name = f"batch {batch}, {epochs:g} epochs, rate {rate}"
            print(f"epsilon {epsilon:g}, {name}: {scored}", flush=True)
            found.setdefault(epsilon, {})[name] = scored.mean
    for epsilon, scores in found.items():
        print(f"best at epsilon {epsilon:g}: {max(scores, key=lambda name: scores[name])}")


if __name__ == "__main__":
    tyro.cli(main)
