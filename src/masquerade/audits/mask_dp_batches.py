"""MaskDP's batches: one shared batch shows who is in it; independent ones do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from masquerade import _check
from masquerade.accounting.calibrate import sampled_gaussian
from masquerade.accounting.compose import epsilon
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
            event = sampled_gaussian(z, **run, is_revealed=self.form == "revealed")  # type: ignore[arg-type]
            found = epsilon(event, delta=self.delta, relation=Relation.REPLACE_ONE)
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

        def scores(gradient: float, size: int) -> np.ndarray:
            member = noise.poisson_batch(q, size * steps).reshape(size, steps)
            seen = noise.gaussian(z, (size, steps)) + gradient * member
            if self.form == "sound":
                up = np.logaddexp(np.log1p(-q), np.log(q) + (2 * seen - 1) / (2 * z * z))
                down = np.logaddexp(np.log1p(-q), np.log(q) + (-2 * seen - 1) / (2 * z * z))
                return np.asarray((up - down).sum(axis=1))
            # the public gradient comes with it, un-noised, whenever the record is in
            seen = seen + _PUBLIC_GRADIENT * member
            is_in = seen > _PUBLIC_GRADIENT / 2
            return np.asarray(np.where(is_in, seen - _PUBLIC_GRADIENT, 0.0).sum(axis=1))

        chunk = max(1, 2_000_000 // steps)
        return in_chunks(scores, (-1.0, 1.0), trials, chunk=chunk, attack="likelihood ratio")

    def evidence(self, scores: Scores, *, confidence: float) -> Evidence:
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
