"""PPEDCRF: noise on the background regions that give a place away [ma2026]."""

from __future__ import annotations

import math
from dataclasses import dataclass

from masquerade import _check
from masquerade._formatting import shown, up_significant
from masquerade.accounting.verdict import PublishedClaim, Verdict
from masquerade.tradeoff import gaussian_epsilon


@dataclass(frozen=True, kw_only=True)
class PpedcrfClaim(PublishedClaim):
    """PPEDCRF's anchor point.

    Args:
        noise_std: sigma_0, on the scale 0..255.
        delta: claimed with it.
        printed: epsilon as printed for that point.
    """

    noise_std: float = 8.0
    delta: float = 1e-5
    printed: float = 0.59

    def __post_init__(self) -> None:
        _check.positive(noise_std=self.noise_std, printed=self.printed)
        _check.delta(delta=self.delta)

    def verdict(self) -> Verdict:
        """Judge the claim: no finite epsilon, and the wrong units even for one value."""
        factor = math.sqrt(2 * math.log(1.25 / self.delta))
        value = gaussian_epsilon(255 / self.noise_std, self.delta)
        pixel = gaussian_epsilon(255 * math.sqrt(3) / self.noise_std, self.delta)
        half = gaussian_epsilon(2 * 255 / self.noise_std, self.delta)
        return Verdict(
            paper="ppedcrf",
            title="PPEDCRF: CRF-guided selective perturbation for location privacy",
            claimed=self.printed,
            claimed_delta=self.delta,
            claimed_unit="value (an anchor; the paper claims no guarantee for the output)",
            valid=False,
            why=(
                "The noise's size follows a mask computed from the private frame and vanishes "
                "where the mask does, so no epsilon is finite; the anchor also mixes noise on "
                "0..255 with a sensitivity of 1."
            ),
            true_epsilon={"value": None, "pixels(1)": None, "frame": None},
            ships=(
                "`ppedcrf`, a heuristic without an epsilon, in a form that selects and in the "
                "published one; `public_mask_gaussian` for what can be proved of noise in places."
            ),
            arithmetic=(
                f"sqrt(2 ln(1.25/delta)) = {factor:.4f}; the paper prints 4.73",
                f"with a sensitivity of 1 that gives {factor / self.noise_std:.4f} at sigma_0 = "
                f"{self.noise_std:g}; the paper prints {self.printed:g}",
                f"one channel value spans 255: even uniform noise of sigma {self.noise_std:g} has "
                f"epsilon {shown(value, 5)}, one RGB pixel {shown(pixel, 5)}",
                "the noise that is added has about half that sigma: epsilon "
                f"{shown(half, 5)} for one value",
                "N(x, s^2) against N(x, s'^2) with s a function of the frame: the privacy loss "
                "is unbounded, and where s = 0 the pixel is released as it is",
            ),
            figures={
                "uniform_noise_value": up_significant(value, 5),
                "uniform_noise_pixel": up_significant(pixel, 5),
                "half_noise_value": up_significant(half, 5),
            },
        )
