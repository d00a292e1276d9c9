"""Video-DPRP: a random projection of a video plus noise [nken2025]."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from masquerade import _check
from masquerade._formatting import up_decimals, up_significant
from masquerade._optional import optimize, stats
from masquerade.accounting import sensitivity
from masquerade.accounting.calibrate import gaussian_sigma
from masquerade.accounting.verdict import PublishedClaim, Verdict
from masquerade.guarantee import Unit, UnitName
from masquerade.tradeoff import gaussian_delta


@dataclass(frozen=True, kw_only=True)
class VideoDprpClaim(PublishedClaim):
    """Video-DPRP with a split of the budget between the projection and its covariance.

    Args:
        epsilon: claimed for one frame.
        delta: claimed for one frame.
        columns: k, of the projection.
        split: b, share of the budget for the projection.
        height: of a frame.
        width: of a frame.
    """

    epsilon: float = 8.0
    delta: float = 1e-4
    columns: int = 3072
    split: float = 0.8
    height: int = 240
    width: int = 320

    def __post_init__(self) -> None:
        _check.positive(epsilon=self.epsilon)
        _check.delta(delta=self.delta, split=self.split)
        _check.count(columns=self.columns, height=self.height, width=self.width)
        for share in (self.split, 1 - self.split):
            if not self.delta * share < 0.5:
                raise ValueError(f"Expected shares of delta below 1/2, got delta={self.delta}.")

    def sigma_1(self) -> float:
        """Noise on the projected video, as printed [nken2025, Thm 3]."""
        # k columns, (e, d) the projection's share, s = 1/sqrt k, theta = 255/sqrt k
        k, e, d = self.columns, self.epsilon * self.split, self.delta * self.split
        s, theta = 1 / math.sqrt(k), 255 / math.sqrt(k)
        norm = s * math.sqrt(k + 2 * math.sqrt(k * math.log(2 / d)) + 2 * math.log(2 / d))
        return theta * norm * math.sqrt(2 * (math.log(1 / (2 * d)) + e)) / e

    def sigma_2(self) -> float:
        """Noise on the covariance, as printed, log(1.25)/delta and all [nken2025, Thm 4]."""
        e, d = self.epsilon * (1 - self.split), self.delta * (1 - self.split)
        return 255 / math.sqrt(self.columns) * math.sqrt(math.sqrt(2 * math.log(1.25) / d) / e)

    def true_epsilon(self, distance: float, *, rounding_tail: float | None = None) -> float:
        """Epsilon of the noisy projection for frames ``distance`` apart, R fresh and public.

        The projection stretches the distance by c with c^2 k ~ chi^2_k, so delta is the mean of
        the Gaussian's delta over c. The covariance Q is not included, which can only add to it: the
        release as published, which computes Q, states a larger one.

        With ``rounding_tail`` it is that of an R rounded to a grid of 2^-14, which stretches a
        little more; that much of delta goes to it.
        """
        k, mu = self.columns, distance / self.sigma_1()
        more = (
            0.0
            if rounding_tail is None
            else sensitivity.grid_stretch(k, rounding_tail=rounding_tail)
        )
        delta = self.delta - (rounding_tail or 0.0)
        low, high = (float(stats.chi.ppf(1e-18, k)), float(stats.chi.isf(1e-18, k)))
        stretch = np.linspace(low, high, 200_001)
        weight = stats.chi.pdf(stretch, k)
        weight /= weight.sum()

        def excess(epsilon: float) -> float:
            stretched = mu * (stretch / math.sqrt(k) + more)
            return float(weight @ gaussian_delta(epsilon, stretched)) - delta

        if excess(0.0) <= 0:
            return 0.0
        top = mu * mu * (high / math.sqrt(k) + more) ** 2 + 20 * mu
        return float(optimize.brentq(excess, 0.0, top, rtol=1e-10)) * (1 + 1e-6)

    def verdict(self) -> Verdict:
        """Judge the claim: the noise is tens of thousands of times too small."""
        frame = (1, self.height, self.width, 3)
        units = (
            Unit(name=UnitName.VALUE),
            Unit(name=UnitName.PIXELS, sites=16),
            Unit(name=UnitName.FRAME),
        )
        distances = {str(unit): sensitivity.of_array(unit, frame) for unit in units}
        true = {name: up_significant(self.true_epsilon(d), 4) for name, d in distances.items()}
        whole, theta = distances["frame"], 255 / math.sqrt(self.columns)
        sound = gaussian_sigma(self.epsilon, delta=self.delta, sensitivity=whole)
        dims = self.height * self.width * 3
        return Verdict(
            paper="video_dprp",
            title="Video-DPRP: differentially private random projection of a video",
            claimed=self.epsilon,
            claimed_delta=self.delta,
            claimed_unit="frame",
            valid=true["frame"] <= self.epsilon,
            why=(
                "The noise is calibrated to 255/sqrt(k), but changing one frame moves the "
                "projected video by about 255 sqrt(d)."
            ),
            true_epsilon=dict(true),
            bound="exact for the noisy projection alone, to which the covariance can only add",
            ships=(
                "video_dprp with noise for the true sensitivity of the unit you choose, by an "
                "orthonormal projection or a Gaussian one whose stretch is counted; "
                "cosine_gaussian, which shows more at the same epsilon."
            ),
            arithmetic=(
                f"theta = 255/sqrt(k) = 255/sqrt({self.columns}) = {theta:.4f} is used as the "
                "sensitivity of one frame",
                f"the sensitivity of one frame is 255 sqrt(d) = 255 sqrt({dims}) = {whole:.0f}, "
                f"{whole / theta:.0f} times as much",
                f"sigma_1 = {self.sigma_1():.4f} as printed; {sound:.0f} would be needed for one "
                f"frame at ({self.epsilon:g}, {self.delta:g}) with an orthonormal projection",
                f"sigma_2 = {self.sigma_2():.4f} as printed: log(1.25)/delta stands where "
                "log(1.25/delta) was meant, and the covariance is quadratic in the video",
                *(
                    f"one {name}: mu is about {d:.1f}/{self.sigma_1():.4f} = "
                    f"{d / self.sigma_1():.1f}, epsilon {true[name]:.4g} at delta {self.delta:g}"
                    for name, d in distances.items()
                ),
            ),
            figures={
                "sigma_1": up_decimals(self.sigma_1()),
                "sigma_2": up_decimals(self.sigma_2()),
                "sound_sigma_frame": up_significant(sound),
            },
        )
