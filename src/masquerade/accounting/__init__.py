"""Events to epsilon and back. Nothing here ever sees data.

Example:
    >>> from masquerade import accounting as account
    >>> from masquerade.events import GaussianDpEvent
    >>> account.epsilon(GaussianDpEvent(4.0), delta=1e-5, relation="zero_out") < 1
    True
"""

from masquerade.accounting.compose import (
    calibrate,
    compose,
    epsilon,
    gaussian_sigma,
    revealed_delta,
    revealed_epsilon,
)

__all__ = [
    "calibrate",
    "compose",
    "epsilon",
    "gaussian_sigma",
    "revealed_delta",
    "revealed_epsilon",
]
