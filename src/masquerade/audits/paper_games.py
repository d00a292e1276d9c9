"""Games against two papers' claims: Video-DPRP's projection, and MaskDP's shared batches.

Video-DPRP's projection: one channel value of one pixel, seen through (P~, R).

MaskDP's batches: one shared batch shows who is in it; independent ones do not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from masquerade import _check
from masquerade.accounting.compose import (
    compute_epsilon,
    find_gaussian_sigma,
    make_sampled_gaussian,
)
from masquerade.accounting.published import VideoDprpClaim
from masquerade.accounting.sensitivity import fresh_projection_factor
from masquerade.accounting.verdict import renyi_epsilon
from masquerade.audits.bounds import clopper_pearson, gaussian_tradeoff, poisson_tradeoff
from masquerade.audits.game import Claim, Game, in_chunks
from masquerade.guarantee import Relation
from masquerade.noise import Noise
from masquerade.scores import Evidence, Scores

_PUBLIC_GRADIENT = 2.0**20  # of the target's public tokens, known to the attacker; far above noise


@dataclass(frozen=True, kw_only=True)
class MaskDpBatches(Game):
    """One record's private gradient is +C or -C; every iterate is seen.

    Args:
        form: published (a shared batch, Theorem 1's number), revealed (the same batch, our exact
            number) or sound (independent batches, our number).
        noise_multiplier: z.
        sampling_prob: q.
        steps: T.
        delta: of the claim.
        trials: in each world.
    """

    form: Literal["published", "revealed", "sound"] = "published"
    noise_multiplier: float = 4.0
    sampling_prob: float = 0.01
    steps: int = 1000
    delta: float = 1e-5
    trials: int = 10_000

    def __post_init__(self) -> None:
        _check.positive(noise_multiplier=self.noise_multiplier)
        _check.probability(sampling_prob=self.sampling_prob)
        _check.count(steps=self.steps, trials=self.trials)
        _check.delta(delta=self.delta)

    def claim(self) -> Claim:
        """Theorem 1, or what the accountant says for the batches as they are."""
        z, run = self.noise_multiplier, {"sampling_prob": self.sampling_prob, "steps": self.steps}
        if self.form == "published":
            found = renyi_epsilon(z, delta=self.delta, **run)  # type: ignore[arg-type]
        else:
            event = make_sampled_gaussian(z, **run, is_revealed=self.form == "revealed")  # type: ignore[arg-type]
            found = compute_epsilon(event, delta=self.delta, relation=Relation.REPLACE_ONE)
        sources = {
            "published": "mask_dp, Theorem 1",
            "revealed": "mask_dp's shared batch, revealed membership",
            "sound": "independent batches, PLD",
        }
        return Claim(
            epsilon=found,
            delta=self.delta,
            unit="record (its private tokens), replace_one",
            source=sources[self.form],
        )

    def play(self, trials: int, noise: Noise) -> Scores:
        """The likelihood ratio of +C against -C, from what each form lets through."""
        z, q, steps = self.noise_multiplier, self.sampling_prob, self.steps

        def score_world(gradient: float, size: int) -> np.ndarray:
            member = noise.sample_poisson_batch(q, size * steps).reshape(size, steps)
            seen = noise.sample_gaussian(z, (size, steps)) + gradient * member
            if self.form == "sound":
                up = np.logaddexp(np.log1p(-q), np.log(q) + (2 * seen - 1) / (2 * z * z))
                down = np.logaddexp(np.log1p(-q), np.log(q) + (-2 * seen - 1) / (2 * z * z))
                return np.asarray((up - down).sum(axis=1))
            # the public gradient comes with it, un-noised, whenever the record is in
            seen = seen + _PUBLIC_GRADIENT * member
            is_in = seen > _PUBLIC_GRADIENT / 2
            return np.asarray(np.where(is_in, seen - _PUBLIC_GRADIENT, 0.0).sum(axis=1))

        chunk = max(1, 2_000_000 // steps)
        return in_chunks(score_world, (-1.0, 1.0), trials, chunk=chunk, attack="likelihood ratio")

    def compute_evidence(self, scores: Scores, *, confidence: float) -> Evidence:
        """Inverted in z where a number of ours depends on it; assumption-free otherwise."""
        if self.form == "sound":
            return poisson_tradeoff(
                scores,
                delta=self.delta,
                sampling_prob=self.sampling_prob,
                steps=self.steps,
                relation=Relation.REPLACE_ONE,
                confidence=confidence,
            )
        if self.form == "revealed":  # how often the record takes part is public
            return gaussian_tradeoff(scores, delta=self.delta, confidence=confidence)
        return clopper_pearson(scores, delta=self.delta, confidence=confidence)


@dataclass(frozen=True, kw_only=True)
class VideoDprpValue(Game):
    """A small frame (16 x 16 RGB, k = 48), the noise as printed or as it must be.

    Args:
        form: published or sound.
        epsilon: claimed.
        delta: claimed.
        trials: in each world.
    """

    form: Literal["published", "sound"] = "published"
    epsilon: float = 8.0
    delta: float = 1e-4
    trials: int = 200_000

    def _make_paper_claim(self) -> VideoDprpClaim:
        return VideoDprpClaim(
            epsilon=self.epsilon, delta=self.delta, columns=48, height=16, width=16
        )

    def compute_sigma(self) -> float:
        """The noise on the projection."""
        if self.form == "published":
            return self._make_paper_claim().sigma_1()
        tail = self.delta / 10
        distance = 255 * fresh_projection_factor(self._make_paper_claim().columns, tail=tail)
        return find_gaussian_sigma(self.epsilon, delta=self.delta - tail, sensitivity=distance)

    def claim(self) -> Claim:
        """The paper claims it for a whole frame; one value is part of it."""
        return Claim(
            epsilon=self.epsilon,
            delta=self.delta,
            unit="value, replace_one" if self.form == "sound" else "frame (here: one value)",
            source=f"video_dprp, {self.form} noise",
        )

    def play(self, trials: int, noise: Noise) -> Scores:
        """The changed row of R is public: project the noisy row on it."""
        k, sigma = self._make_paper_claim().columns, self.compute_sigma()
        public = np.random.default_rng(noise.draw_public_seed())

        def score_world(changed: float, size: int) -> np.ndarray:
            row = public.normal(0, 1 / math.sqrt(k), (size, k))  # fresh R, its row j
            seen = changed * row + noise.sample_gaussian(sigma, (size, k))
            # log likelihood ratio of 255 against 0 in units of its own deviation
            norm = np.linalg.norm(row, axis=1)
            return np.asarray(((seen * row).sum(axis=1) - 255 * norm**2 / 2) / sigma**2 * 255)

        return in_chunks(score_world, (0.0, 255.0), trials, chunk=20_000, attack="likelihood ratio")

    def compute_evidence(self, scores: Scores, *, confidence: float) -> Evidence:
        """Gaussian where the claim is ours, which holds for any R but a few; else free of that."""
        bound = gaussian_tradeoff if self.form == "sound" else clopper_pearson
        return bound(scores, delta=self.delta, confidence=confidence)
