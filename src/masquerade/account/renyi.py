"""The Renyi accountant that the papers used, kept to reproduce their numbers.

It serves no guarantee of ours. dp-accounting's replace-one mode does not double the distance of a
plain Gaussian event, so only Poisson-sampled events under add_remove pass this door.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from scipy.optimize import brentq

from masquerade import _check
from masquerade._optional import Later
from masquerade.account.calibrate import sampled_gaussian
from masquerade.guarantee import Relation

if TYPE_CHECKING:
    from dp_accounting import privacy_accountant
    from dp_accounting.rdp import rdp_privacy_accountant
else:
    privacy_accountant = Later("dp_accounting.privacy_accountant")
    rdp_privacy_accountant = Later("dp_accounting.rdp.rdp_privacy_accountant")

_ORDERS = tuple(range(2, 257))  # whole orders, as the theorem has them


def renyi_epsilon(
    noise_multiplier: float,
    *,
    delta: float,
    sampling_prob: float,
    steps: int,
    relation: Relation | str = Relation.ADD_REMOVE,
) -> float:
    """Epsilon by Renyi moments of Poisson-sampled Gaussians [mironov2019].

    Example:
        >>> round(renyi_epsilon(4.0, delta=1e-5, sampling_prob=0.01, steps=1000), 5)
        0.30116
    """
    if _check.choice(Relation, relation=relation) is Relation.REPLACE_ONE:
        raise ValueError(
            "Expected add_remove or zero_out for Renyi accounting, got relation=replace_one; the "
            "library below does not double the distance there. Use account.epsilon."
        )
    neighbours = privacy_accountant.NeighboringRelation.ADD_OR_REMOVE_ONE
    accountant = rdp_privacy_accountant.RdpAccountant(_ORDERS, neighbours)
    accountant.compose(sampled_gaussian(noise_multiplier, sampling_prob=sampling_prob, steps=steps))
    return float(accountant.get_epsilon(delta))


@cache
def renyi_noise_multiplier(
    target: float, *, delta: float, sampling_prob: float, steps: int
) -> float:
    """The noise multiplier at which that accountant prints ``target``."""

    def excess(z: float) -> float:
        return renyi_epsilon(z, delta=delta, sampling_prob=sampling_prob, steps=steps) - target

    low, high = 0.3, 1.0
    while excess(high) > 0:
        low, high = high, high * 2
    return float(brentq(excess, low, high, xtol=1e-7))
