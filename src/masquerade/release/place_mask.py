"""Where a picture shows its place: a random field over logits, and how much noise goes where.

The equations are those of [ma2026]. All maps are (H, W) float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from masquerade import _check
from masquerade._optional import Later
from masquerade.errors import BadInput

cv2 = Later("cv2", extra="vision")

_TINY = 1e-6  # against division by zero, as in Eq. 3
_CONSTANT = 0.01  # a mask whose values spread less is the same everywhere


@dataclass(frozen=True, kw_only=True)
class Field:
    """The dynamic random field of Eq. 2.

    Args:
        iterations: of the mean field.
        spatial: weight of a pixel's neighbours.
        temporal: weight of the frame before.
    """

    iterations: int = 5
    spatial: float = 2.0
    temporal: float = 2.0

    def __post_init__(self) -> None:
        _check.not_negative(iterations=self.iterations, spatial=self.spatial)
        _check.not_negative(temporal=self.temporal)

    def refined(self, logits: np.ndarray, before: np.ndarray | None) -> np.ndarray:
        """Sensitivity from 0 to 1.

        Args:
            logits: of this frame, by itself.
            before: the refined map of the frame before, moved to where things are now; None at
                the beginning and after a cut.
        """
        now = _sigmoid(logits)
        temporal = self.temporal if before is not None else 0.0
        for _ in range(self.iterations):
            change = self.spatial * (cv2.blur(now, (3, 3)) - now)
            if before is not None:
                change += temporal * (before - now)
            now = _sigmoid(logits + change)
        return now


def control(sensitivity: np.ndarray, alpha: float) -> np.ndarray:
    """The normalised control penalty, Eq. 3: at most ``alpha``, where it matters most."""
    return np.asarray(alpha * sensitivity / (float(sensitivity.max()) + _TINY))


def weights_of(class_weights: Sequence[float]) -> Callable[[np.ndarray], np.ndarray]:
    """What turns classes (H, W) into weights of the control penalty, float32."""
    table = np.array(class_weights, np.float32)

    def weights(classes: np.ndarray) -> np.ndarray:
        if classes.min() < 0 or classes.max() >= len(table):
            raise BadInput(
                f"Expected classes from 0 to {len(table) - 1}, as there are class_weights, got "
                f"{classes.min()} to {classes.max()}."
            )
        return np.asarray(table[classes.astype(np.intp)])

    return weights


@dataclass(frozen=True, kw_only=True)
class MaskFacts:
    """What a mask is like. It is computed from private frames, so it stays in the house.

    Args:
        coverage: the mean sensitivity of the background.
        spread: its standard deviation.
        entropy: mean bits of a pixel's yes or no; 1 where nothing was decided.
    """

    coverage: float
    spread: float
    entropy: float

    @property
    def is_constant(self) -> bool:
        """Whether it selects nothing: the noise is the same everywhere."""
        return self.spread < _CONSTANT


def facts(sensitivity: np.ndarray, is_background: np.ndarray | None = None) -> MaskFacts:
    """Of one map, on the background alone where that is known."""
    values = sensitivity if is_background is None else sensitivity[is_background]
    if values.size == 0:
        return MaskFacts(coverage=0.0, spread=0.0, entropy=0.0)
    p = np.clip(values, 1e-6, 1 - 1e-6)
    bits = -(p * np.log2(p) + (1 - p) * np.log2(1 - p))
    return MaskFacts(
        coverage=float(values.mean()), spread=float(values.std()), entropy=float(bits.mean())
    )


def _sigmoid(values: np.ndarray) -> np.ndarray:
    return np.asarray(1.0 / (1.0 + cv2.exp(-values)), np.float32)
