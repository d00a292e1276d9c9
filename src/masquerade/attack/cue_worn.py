"""How somebody moves, as worn sensors feel it: spectra of short windows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from masquerade.attack.case import Recording
from masquerade.errors import BadInput
from masquerade.recordings import Signal

_WINDOW_S = 4.0
_BANDS_HZ = np.array([0.3, 0.7, 1.1, 1.6, 2.2, 3.0, 4.0, 5.5, 7.5, 10.0, 14.0, 20.0])
_LEAST_SAMPLES = 16
_FAINT = 1e-6  # of a power, added before its logarithm


class WornCue:
    """Windows of a signal as rows: means, spreads and powers in bands of each channel."""

    def __call__(self, recording: Recording) -> np.ndarray:
        """(K, D): one row a window; windows overlap by half."""
        if not isinstance(recording, Signal):
            raise BadInput(
                f"Expected signals where by=worn, got a {type(recording).__name__.lower()}; choose "
                "the data set's signals (--kind signals)."
            )
        values = recording.values.astype(float)
        if len(values) < _LEAST_SAMPLES:
            raise BadInput(
                f"Expected signals of at least {_LEAST_SAMPLES} samples, got one of {len(values)}."
            )
        size = min(len(values), max(_LEAST_SAMPLES, round(_WINDOW_S * recording.rate_hz)))
        starts = range(0, len(values) - size + 1, max(1, size // 2))
        return np.stack([_row(values[at : at + size], recording.rate_hz) for at in starts])


def _row(window: np.ndarray, rate_hz: float) -> np.ndarray:
    """What one window (T, C) is like."""
    triples = window[:, : window.shape[1] // 3 * 3].reshape(len(window), -1, 3)
    strength = np.linalg.norm(triples, axis=2)  # whichever way the sensor sits on the limb
    every = np.concatenate([window, strength], axis=1)
    moved = every - every.mean(axis=0)
    power = np.abs(np.fft.rfft(moved * np.hanning(len(moved))[:, None], axis=0)) ** 2
    at_hz = np.fft.rfftfreq(len(moved), 1 / rate_hz)
    edges = _BANDS_HZ[_BANDS_HZ < rate_hz / 2]
    bands = [
        power[(at_hz >= low) & (at_hz < high)].sum(axis=0) / len(moved)
        for low, high in pairwise(edges)
    ]
    shares = np.log(np.array(bands) + _FAINT) if bands else np.zeros((0, every.shape[1]))
    spread = moved.std(axis=0)
    unit = moved / np.maximum(spread, _FAINT)
    together = (unit.T @ unit / len(unit))[np.triu_indices(unit.shape[1], 1)]
    return np.concatenate([every.mean(axis=0), spread, shares.ravel(), together])
