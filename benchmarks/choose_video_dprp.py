"""Choose how the head learns in `recipe video_dprp`, on a world that is never tested.

Run: python benchmarks/choose_video_dprp.py [WEIGHTS]; about three minutes of one core. Prints Top-1
on world 2000 for each batch, number of epochs, epsilon and learning rate, two seeds each. 240 of
its recordings are learned from, 400 tested.
"""

from __future__ import annotations

import itertools
import math
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

from masquerade.data.stage import Stage
from masquerade.recipes import seen
from masquerade.recipes.video_dprp import VideoDprpTables
from masquerade.recipes.video_dprp import run as runs
from masquerade.recipes.video_dprp.rows import Spec
from masquerade.train.plan import Plan

WORLD = 2_000
COURSES = ((32, 20.0), (64, 40.0), (128, 40.0), (240, 60.0))  # batch, epochs
EPSILONS = (math.inf, 2.0, 8.0)
RATES = (0.02, 0.05, 0.1, 0.5, 2.0)


def main() -> None:
    """Look once, learn often."""
    weights = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    plan = VideoDprpTables(weights=weights, most=240, tests=400, jobs=1).settled()
    data = seen.sized(Stage(seed=WORLD, videos=6_048))
    train, test = (runs.see(plan, films, runs.View()).rows for films in plan.kept(data))
    classes = len(data.activities)

    @cache
    def steps(batch: int, epochs: float, epsilon: float) -> Plan:
        course = replace(plan, batch=batch, epochs=epochs)
        found: Plan = course.method(Spec(table=0, name="", epsilon=epsilon)).plan(train.units)
        return found

    for (batch, epochs), epsilon in itertools.product(COURSES, EPSILONS):
        spec = Spec(table=0, name="", epsilon=epsilon)
        for rate in RATES:
            course = replace(plan, batch=batch, epochs=epochs, learning_rate=rate)
            course = replace(course, clean_learning_rate=rate)
            tails = [
                runs.learn(course, spec, train, steps(batch, epochs, epsilon), classes, seed)
                for seed in range(2)
            ]
            found = [f"{100 * seen.is_right(tail, test).mean():.1f}" for tail in tails]
            print(f"batch {batch}, {epochs:g} epochs, epsilon {epsilon:g}, rate {rate}: {found}")


if __name__ == "__main__":
    main()
