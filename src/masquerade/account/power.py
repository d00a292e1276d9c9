"""How often an attacker who may raise a few false alarms notices a change, from the event itself.

(epsilon, delta) alone is one line of a trade-off curve and says little where epsilon is large; the
whole curve says how often a change is really noticed.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from masquerade._round import up_decimals
from masquerade.account.compose import epsilon as epsilon_of
from masquerade.account.parts import parts_of
from masquerade.account.tradeoff_curve import false_negative_rate
from masquerade.events import ComposedDpEvent, DpEvent, SelfComposedDpEvent
from masquerade.guarantee import FALSE_ALARM, Relation
from masquerade.tradeoff import power

_DELTAS = np.geomspace(1e-9, 0.5, 32)


def power_of(event: DpEvent, *, relation: Relation, epsilon: float, delta: float) -> float:
    """An upper bound on the power at `FALSE_ALARM`, four decimals.

    It is never above what ``epsilon`` and ``delta``, which are proved for the event, allow.

    Example:
        >>> from masquerade.events import GaussianDpEvent
        >>> power_of(GaussianDpEvent(1.0), relation=Relation.ZERO_OUT, epsilon=4.38, delta=1e-5)
        0.0924
    """
    most = power(FALSE_ALARM, epsilon=epsilon, delta=delta, is_gaussian=False)
    found = _by_curve(tuple(parts_of(event)), relation)
    return up_decimals(min(max(found, FALSE_ALARM), most))


@lru_cache(maxsize=64)
def _by_curve(parts: tuple[tuple[DpEvent, int], ...], relation: Relation) -> float:
    event = ComposedDpEvent([SelfComposedDpEvent(part, count) for part, count in parts])
    missed = false_negative_rate(FALSE_ALARM, event, relation=relation)
    if missed > 0:
        return 1 - missed
    lines = [(epsilon_of(event, delta=d, relation=relation), d) for d in _DELTAS.tolist()]
    return min(power(FALSE_ALARM, epsilon=e, delta=d, is_gaussian=False) for e, d in lines)
