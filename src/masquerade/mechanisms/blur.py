"""Gaussian blur of frames, whole or inside given masks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade import _check
from masquerade._optional import Later
from masquerade.mechanism import Frames, Shape
from masquerade.mechanisms.given_masks import InsideMasks
from masquerade.noise import Noise

cv2 = Later("cv2", extra="vision")


_WIDEST = 4095  # pixels: more than a frame of a film is wide
_NARROWEST = 0.5
_UNCHANGED = "Below, the video would come out as it went in."


@dataclass(frozen=True, kw_only=True)
class Blur(InsideMasks):
    """Blur every frame with a Gaussian.

    The defaults are those that [nken2025, Sec. 4.2] gives the boxes of faces; there the Gaussian is
    cut off at one sigma, so that the kernel is nearly a box. Borders are mirrored. With a sigma of
    a million it is the plain average, as in [ma2026], whose kernels are 5, 11, 21 and 31.

    Guarantee:
        none: a blur is a known linear filter without noise; sharpening undoes much of it, and
            networks recognise faces in blurred frames after training on such.

    Args:
        kernel: width and height of the filter, in pixels; odd, 3 to 4095.
        sigma: standard deviation of the Gaussian, in pixels; at least 0.5.
    """

    kernel: int = 21
    sigma: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.count(kernel=self.kernel)
        _check.at_least(3, _UNCHANGED, kernel=self.kernel)
        _check.at_most(_WIDEST, kernel=self.kernel)
        if self.kernel % 2 == 0:
            raise ValueError(
                f"Expected kernel to be odd, so that it has a middle, got kernel={self.kernel}; "
                f"use {self.kernel - 1} or {self.kernel + 1}."
            )
        _check.positive(sigma=self.sigma)
        _check.at_least(_NARROWEST, _UNCHANGED, sigma=self.sigma)
        _check.at_most(1e6, sigma=self.sigma)

    @property
    def hides(self) -> str:
        """Fine detail."""
        return f"detail finer than about {self.kernel} pixels, such as faces and writing"

    def weights(self) -> np.ndarray:
        """The filter along one axis, (kernel,) float64; it sums to 1.

        Example:
            >>> Blur(kernel=3, sigma=1.0).weights().round(3).tolist()
            [0.274, 0.452, 0.274]
        """
        away = np.arange(self.kernel) - self.kernel // 2
        bell = np.exp(-0.5 * np.square(away / self.sigma))
        return np.asarray(bell / bell.sum())

    def changed(self, frames: Frames, shape: Shape, noise: Noise) -> Frames:
        """The blurred frames."""
        line = self.weights().astype(np.float32)
        for frame in frames:
            # Right to half a level; cv2.GaussianBlur rounds its weights and is off by up to four.
            yield cv2.sepFilter2D(np.ascontiguousarray(frame), cv2.CV_8U, line, line)
