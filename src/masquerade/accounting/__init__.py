"""Events to epsilon and back. Nothing here ever sees data.

Example:
    >>> from masquerade import accounting as account
    >>> from masquerade.events import GaussianDpEvent
    >>> account.compute_epsilon(GaussianDpEvent(4.0), delta=1e-5, relation="zero_out") < 1
    True
"""

from masquerade.accounting.compose import (
    compose_epsilon,
    compute_epsilon,
    compute_revealed_delta,
    compute_revealed_epsilon,
    find_gaussian_sigma,
    find_noise_multiplier,
)

__all__ = [
    "compose_epsilon",
    "compute_epsilon",
    "compute_revealed_delta",
    "compute_revealed_epsilon",
    "find_gaussian_sigma",
    "find_noise_multiplier",
]
