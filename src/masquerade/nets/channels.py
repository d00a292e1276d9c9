"""Channels of worn sensors on one scale, without torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def normalisation(values: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and scale of each channel over arrays whose last axis is channels."""
    flat = np.concatenate([each.reshape(-1, each.shape[-1]) for each in values])
    scale = flat.std(axis=0)
    return flat.mean(axis=0), np.where(scale > 0, scale, 1.0).astype(np.float32)
