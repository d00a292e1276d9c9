"""Draws a body at random, as people are: stature, build, age and gender shown."""

from __future__ import annotations

import numpy as np

from masquerade.people.bodies import Shape

BUILDS = {"slim": (-0.9, -0.4), "medium": (0.3, 0.8), "heavy": (1.7, 2.4)}  # weights of a shape
_BETA = 2.0  # of SMPL at most, in standard deviations of the people it was learned from


def any_shape(rng: np.random.Generator, *, num_betas: int = 0) -> Shape:
    """Somebody's body; ``is_feminine`` says how it presents.

    Args:
        rng: who it is.
        num_betas: of an SMPL model, see ``Model.num_betas``.
    """
    feminine = bool(rng.random() < 0.5)
    age = float(rng.uniform(0, 1) ** 2)
    middle, spread = (1.64, 0.06) if feminine else (1.77, 0.07)
    stature = float(np.clip(rng.normal(middle, spread), 1.45, 1.98))
    return Shape(
        stature_m=stature,
        gender=float(rng.uniform(0, 0.12) if feminine else rng.uniform(0.88, 1)),
        age=age,
        muscle=float(rng.uniform(0.3, 0.8)),
        weight=float(rng.uniform(*tuple(BUILDS.values())[int(rng.integers(3))])),
        proportions=float(rng.uniform(0.3, 0.9)),
        origin=tuple((0.05 + rng.random(3)).tolist()),
        betas=tuple(rng.uniform(-_BETA, _BETA, num_betas).tolist()),
    )


def is_feminine(shape: Shape) -> bool:
    """The gender that a body presents."""
    return shape.gender < 0.5
