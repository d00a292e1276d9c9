"""Put a claimed epsilon to the test: two worlds, an attacker's scores, a lower bound.

A game of your own is a `Game`; `masquerade.audit_game` plays it. Scores that you have already turn
into `masquerade.Evidence` by a bound: `clopper_pearson` assumes nothing about the mechanism, the
others take it to be what it says it is.
"""

from masquerade.audits.bounds import (
    clopper_pearson,
    coins_composed,
    gaussian_tradeoff,
    poisson_tradeoff,
)
from masquerade.audits.game import Claim, Game, MechanismGame
from masquerade.audits.one_run import one_run_coins, one_run_gaussian, one_run_poisson

__all__ = [
    "Claim",
    "Game",
    "MechanismGame",
    "clopper_pearson",
    "coins_composed",
    "gaussian_tradeoff",
    "one_run_coins",
    "one_run_gaussian",
    "one_run_poisson",
    "poisson_tradeoff",
]
