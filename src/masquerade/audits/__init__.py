"""Put a claimed epsilon to the test: two worlds, an attacker's scores, a lower bound.

A game of your own is a `Game`; `masquerade.audit_game` plays it. Scores that you have already turn
into `masquerade.Evidence` by a bound: `clopper_pearson` assumes nothing about the mechanism, the
others take it to be what it says it is.
"""

from masquerade.audits.bounds import (
    clopper_pearson,
    compose_coins,
    gaussian_tradeoff,
    poisson_tradeoff,
)
from masquerade.audits.game import Claim, Game, MechanismGame
from masquerade.audits.one_run import one_run_coins, one_run_gaussian, one_run_poisson
from masquerade.catalog import CatalogEntry

__all__ = [
    "Claim",
    "Game",
    "MechanismGame",
    "clopper_pearson",
    "compose_coins",
    "gaussian_tradeoff",
    "one_run_coins",
    "one_run_gaussian",
    "one_run_poisson",
    "poisson_tradeoff",
]

ENTRIES = {
    "confident_votes": CatalogEntry(
        "audits.vote_games:ConfidentVotes",
        "Confident-GNMax: a noisy threshold for every query, noisy votes for those that pass.",
    ),
    "gnmax_votes": CatalogEntry(
        "audits.vote_games:GnmaxVotes", "GNMax: noisy vote histograms of a teacher ensemble."
    ),
    "gumbel_votes": CatalogEntry(
        "audits.vote_games:GumbelVotes",
        "Gumbel-max: labels of a teacher ensemble by the exponential mechanism.",
    ),
    "mask_dp_batches": CatalogEntry(
        "audits.paper_games:MaskDpBatches",
        "MaskDP's batches: one shared batch shows who is in it; independent ones do not.",
    ),
    "tempdiff_votes": CatalogEntry(
        "audits.vote_games:TempdiffVotes",
        "TEMPDIFF's votes: LNMax labels at the paper's noise, against its printed epsilon.",
    ),
    "video_dprp_value": CatalogEntry(
        "audits.paper_games:VideoDprpValue",
        "Video-DPRP's projection: one channel value of one pixel, seen through (P~, R).",
    ),
}
