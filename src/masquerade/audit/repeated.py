"""Several runs that know nothing of one another: what the least of them shows.

A bound that holds with confidence 1 - d is above the truth with a chance of at most d. Runs apart
from one another are all above it with a chance of at most d to the power of their number; so each
may have that much more doubt, and shows more of a claim than one run could at the whole confidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from masquerade import _check
from masquerade.scores import Evidence


def confidence_each(confidence: float, *, runs: int) -> float:
    """Of the bound of each run, so that the least of all holds with ``confidence``.

    Example:
        >>> round(confidence_each(0.95, runs=5), 3)
        0.451
    """
    _check.delta(confidence=confidence)
    _check.count(runs=runs)
    return float(1 - (1 - confidence) ** (1 / runs))


def least(found: Sequence[Evidence], *, confidence: float) -> Evidence:
    """The smallest bound of several runs, each made at `confidence_each`.

    Args:
        found: one a run.
        confidence: of all together.

    Raises:
        ValueError: if a run's bound was made at less confidence than it takes.
    """
    each = confidence_each(confidence, runs=len(found))
    for one in found:
        if one.confidence < each * (1 - 1e-12):
            raise ValueError(
                f"Expected bounds at confidence {each:.4g} each, got {one.confidence:.4g}; make "
                "them at confidence_each of the number of runs."
            )
    lowest = min(found, key=lambda one: one.epsilon_at_least)
    return replace(
        lowest,
        confidence=confidence,
        trials=sum(one.trials for one in found),
        most=min((one.most for one in found if one.most is not None), default=None),
    )
