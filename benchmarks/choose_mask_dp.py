"""Choose MaskDP's settings for Stage, once for each method, on a world that is never tested.

    PYTHONPATH=. python benchmarks/choose_mask_dp.py [--private person] [--weights FILE]

Reads what the frozen network sees of the training and test split of that world in every view, then
tries a grid of settings on the head: the same updates as training makes, in plain numpy and with
ordinary random numbers, because nobody in that world ever lived. A setting's score is its mean
Top-1 over correlations of place and activity, epsilons up to 1 and runs. Prints the best of each
method under each relation; they stand in experiments/mask_dp.py. Takes some six minutes on
one core.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments import mask_dp, videos
from experiments.engine import Run, run_parallel, split_data
from experiments.mask_dp import DP, MASK_DP, MaskDpSettings
from masquerade.collection import Collection
from masquerade.datasets.stage import Stage
from masquerade.training.methods import DpSgd

CORRELATIONS = (0.0, 0.5, 0.9)
EPSILONS = (0.25, 0.5, 1.0)
RUNS = 2
MOMENTUM, RISE, DELTA = 0.9, 0.1, 1e-5
RELATIONS = ("replace_one", "zero_out")
RATES = (0.0025, 0.005, 0.01, 0.02, 0.05, 0.1)
CLEAN_RATES = (0.05, 0.1, 0.2, 0.5, 1.0)  # without noise
SIZES = ((128, 20.0), (512, 20.0))  # units in a batch, epochs
WEIGHTS = (1.0, 3.0, 10.0, 30.0, 60.0)
VIEWS = ("whole", "private")
SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class World:
    """What the network sees, with a 1 for the bias: whole, public and private, and the test."""

    whole: np.ndarray
    public: np.ndarray
    private: np.ndarray
    targets: np.ndarray
    test: np.ndarray
    answers: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Way:
    """A setting; batch and epochs decide the noise."""

    rate: float
    batch: int
    epochs: float
    weight: float = 0.0  # lambda; 0 without a public part
    view: str = ""  # of the private part; empty without one
    is_clean: bool = False  # whether the private part has no noise
    relation: str = "replace_one"  # under which epsilon is met


def worlds(args: argparse.Namespace) -> list[World]:
    """The world of that seed, with place and activity more and less together."""
    found = []
    for correlation in CORRELATIONS:
        stage = videos.size_stage(
            Stage(seed=args.seed, videos=args.videos, correlation=correlation)
        )
        train, test = split_data(stage)
        found.append(world_of(plan_of(args), train, test))
        print(f"read {len(train)} and {len(test)} recordings at correlation {correlation:g}")
    return found


def plan_of(args: argparse.Namespace) -> MaskDpSettings:
    """How they are read: the private part by itself, and both together."""
    return MaskDpSettings(
        weights=args.weights, view="private", jobs=args.jobs, private=args.private
    ).settle()


def world_of(plan: MaskDpSettings, train: Collection[Any], test: Collection[Any]) -> World:
    """What the network sees of both splits."""
    run = Run(settings=plan)
    taught = mask_dp.read_views(run, train, {MASK_DP, DP})
    asked = mask_dp.read_views(run, test, {DP})
    both = taught[MASK_DP]
    return World(
        whole=with_one(taught[DP].private),
        public=with_one(both.public),
        private=with_one(both.private),
        targets=both.targets.cpu().numpy(),
        test=with_one(asked[DP].private),
        answers=asked[DP].targets.cpu().numpy(),
    )


def with_one(values: Any) -> np.ndarray:
    """(N, C + 1)."""
    return np.pad(values.cpu().numpy(), ((0, 0), (0, 1)), constant_values=1.0)


@cache
def noise_of(
    units: int, epsilon: float, *, relation: str, batch: int, epochs: float
) -> tuple[float, int]:
    """Noise multiplier and steps."""
    plan = DpSgd(
        epsilon=epsilon,
        delta=DELTA,
        unit="video",
        relation=relation,
        batch=batch,
        epochs=epochs,
    ).plan_run(units)
    return plan.noise_multiplier, plan.steps


def rate_at(way: Way, number: int, steps: int) -> float:
    """Up in a line, down along a cosine."""
    rise = max(1, round(RISE * steps))
    if number < rise:
        return way.rate * (number + 1) / rise
    return way.rate * 0.5 * (1 + math.cos(math.pi * (number - rise) / max(1, steps - rise)))


def top_1(world: World, way: Way, epsilon: float, seed: int) -> float:
    """Train the head in one way and test it."""
    rng, units = np.random.default_rng(seed), len(world.targets)
    wanted = np.eye(int(world.targets.max()) + 1, dtype=np.float32)[world.targets]
    weights = np.zeros((wanted.shape[1], world.test.shape[1]), np.float32)
    speed, batch = np.zeros_like(weights), min(way.batch, units)
    z, steps = noise_of(units, epsilon, relation=way.relation, batch=way.batch, epochs=way.epochs)

    def errors(inputs: np.ndarray, some: np.ndarray) -> np.ndarray:
        scores = inputs @ weights.T
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        found: np.ndarray = shares / shares.sum(axis=1, keepdims=True) - wanted[some]
        return found

    for number in range(steps):
        update = np.zeros_like(weights)
        if way.view:
            some = np.flatnonzero(rng.random(units) < batch / units)
            inputs: np.ndarray = getattr(world, way.view)[some]
            error = errors(inputs, some)
            norms = np.linalg.norm(error, axis=1) * np.linalg.norm(inputs, axis=1)
            clipped = error * np.minimum(1, 1 / np.maximum(norms, 1e-12))[:, None]
            update += (clipped.T @ inputs + z * rng.standard_normal(weights.shape)) / batch
        if way.weight:
            some = rng.permutation(units)[:batch]
            inputs = world.public[some]
            update += way.weight * (errors(inputs, some).T @ inputs) / len(some)
        speed = MOMENTUM * speed + update
        weights = (weights - rate_at(way, number, steps) * speed).astype(np.float32)
    return float(np.mean((world.test @ weights.T).argmax(axis=1) == world.answers))


def scored(way: Way, known: list[World]) -> np.ndarray:
    """(correlations, epsilons), in per cent."""
    epsilons = (math.inf,) if way.is_clean or not way.view else EPSILONS
    shares = [
        [np.mean([top_1(world, way, e, seed) for seed in range(RUNS)]) for e in epsilons]
        for world in known
    ]
    return 100 * np.array(shares)


def grids() -> Mapping[str, Iterable[Way]]:
    """What is tried, by method; what has no noise has no relation."""
    sizes, clean = (
        [(rate, batch, epochs) for rate in rates for batch, epochs in SIZES]
        for rates in (RATES, CLEAN_RATES)
    )
    return {
        "public part": [Way(rate=r, batch=b, epochs=e, weight=1.0) for r, b, e in clean],
        "no noise": [
            Way(rate=r, batch=b, epochs=e, view="whole", is_clean=True) for r, b, e in clean
        ],
        **{
            f"DP, {relation}": [
                Way(rate=r, batch=b, epochs=e, view="whole", relation=relation) for r, b, e in sizes
            ]
            for relation in RELATIONS
        },
        **{
            f"MaskDP, {relation}": [
                Way(rate=r, batch=b, epochs=e, weight=weight, view=view, relation=relation)
                for (r, b, e), weight, view in itertools.product(sizes, WEIGHTS, VIEWS)
            ]
            for relation in RELATIONS
        },
    }


def tried_of(known: list[World], ways: list[Way], *, jobs: int = 1) -> list[tuple[np.ndarray, Way]]:
    """Every way with its scores, the best first."""
    scores = run_parallel((partial(scored, way, known) for way in ways), jobs=jobs)
    return sorted(zip(scores, ways, strict=True), key=lambda one: -one[0].mean())


def main() -> None:
    """Read, try, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--private", choices=("background", "person"), default="background")
    parser.add_argument("--seed", type=int, default=2000)
    parser.add_argument("--videos", type=int, default=3024)
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    known = worlds(args)
    for method, ways in grids().items():
        tried = tried_of(known, list(ways), jobs=args.jobs)
        print(f"\n{method}: mean Top-1; by correlation {CORRELATIONS} and epsilon {EPSILONS}")
        for found, way in tried[:SHOWN]:
            print(f"{found.mean():5.1f}  {np.round(found, 1).tolist()}  {way}")


if __name__ == "__main__":
    main()
