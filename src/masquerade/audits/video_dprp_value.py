"""Video-DPRP's projection: one channel value of one pixel, seen through (P~, R)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from masquerade.accounting.calibrate import gaussian_sigma
from masquerade.accounting.published.video_dprp import VideoDprpClaim
from masquerade.accounting.sensitivity import fresh_projection_factor
from masquerade.audits.bounds import clopper_pearson, gaussian_tradeoff
from masquerade.audits.game import Claim, Game, in_chunks
from masquerade.noise import Noise
from masquerade.scores import Evidence, Scores


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

    def _paper(self) -> VideoDprpClaim:
        return VideoDprpClaim(
            epsilon=self.epsilon, delta=self.delta, columns=48, height=16, width=16
        )

    def sigma(self) -> float:
        """The noise on the projection."""
        if self.form == "published":
            return self._paper().sigma_1()
        tail = self.delta / 10
        distance = 255 * fresh_projection_factor(self._paper().columns, tail=tail)
        return gaussian_sigma(self.epsilon, delta=self.delta - tail, sensitivity=distance)

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
        k, sigma = self._paper().columns, self.sigma()
        public = np.random.default_rng(noise.public_seed())

        def scores(changed: float, size: int) -> np.ndarray:
            row = public.normal(0, 1 / math.sqrt(k), (size, k))  # fresh R, its row j
            seen = changed * row + noise.gaussian(sigma, (size, k))
            # log likelihood ratio of 255 against 0 in units of its own deviation
            norm = np.linalg.norm(row, axis=1)
            return np.asarray(((seen * row).sum(axis=1) - 255 * norm**2 / 2) / sigma**2 * 255)

        return in_chunks(scores, (0.0, 255.0), trials, chunk=20_000, attack="likelihood ratio")

    def evidence(self, scores: Scores, *, confidence: float) -> Evidence:
        """Gaussian where the claim is ours, which holds for any R but a few; else free of that."""
        bound = gaussian_tradeoff if self.form == "sound" else clopper_pearson
        return bound(scores, delta=self.delta, confidence=confidence)
