"""Intervals by drawing people or places again and again, never frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from masquerade.scores import Success

_DRAWS = 1_000
_ENDS = (2.5, 97.5)


def bootstrap(
    measure: str,
    of_rows: Callable[[np.ndarray], float],
    whose: Sequence[object],
    *,
    of: str,
    seed: int,
    chance: float | None = None,
    draws: int = _DRAWS,
) -> Success:
    """A figure with its 95 % interval, by the percentile bootstrap over whole people or places.

    Args:
        measure: its name.
        of_rows: the measure of some rows, by their numbers; rows of one person come together, and
            come twice where the person was drawn twice. NaN where a draw has no answer.
        whose: the person or place of each row.
        of: what they are, such as "people".
        seed: of the draws.
        chance: what guessing gets.
        draws: how many.

    Example:
        >>> right = np.array([1.0, 1.0, 0.0, 1.0])
        >>> found = bootstrap("share", lambda rows: right[rows].mean(), "abcd", of="people", seed=0)
        >>> found.value, found.low < found.value < found.high, found.count
        (0.75, True, 4)
    """
    names = np.array([str(each) for each in whose])
    groups = [np.flatnonzero(names == name) for name in dict.fromkeys(names)]
    every = np.arange(len(names))
    value = float(of_rows(every))
    rng = np.random.default_rng(seed)
    drawn = np.empty(draws)
    for number in range(draws):
        picked = rng.integers(0, len(groups), len(groups))
        drawn[number] = of_rows(np.concatenate([groups[each] for each in picked]))
    known = drawn[np.isfinite(drawn)]
    low, high = np.percentile(known, _ENDS) if len(known) else (value, value)
    return Success(
        measure=measure,
        value=value,
        low=float(min(low, value)),
        high=float(max(high, value)),
        count=len(groups),
        of=of,
        chance=chance,
    )
