"""Shrink noisy cosine coefficients towards what a picture looks like: post-processing only.

Two steps. `shrink` scales a public prior spectrum to the noisy data, bin by bin (empirical Bayes),
and shrinks each coefficient accordingly. `local` then looks at small blocks: where the first result
shows no detail, the second shows less noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from masquerade.compute import cosine
from masquerade.compute.device import Array, clamp, counted, send, zeros
from masquerade.release.precision import Size

_BLOCK = 16
_SHIFTS = ((0, 0, 0), (8, 8, 0), (8, 0, 8), (0, 8, 8))
_PRIOR_WEIGHT = 1.5  # how many coefficients the public prior is worth in a bin


@dataclass(frozen=True, kw_only=True, eq=False)
class Shrunk:
    """Estimates of the coefficients of one component.

    Args:
        best: each coefficient, shrunk as the scaled prior says.
        faithful: the same, shrunk much less: what `local` starts from.
        faithful_gain: the factor that gave it.
    """

    best: Array
    faithful: Array
    faithful_gain: Array


@lru_cache(maxsize=16)
def bins(size: Size, band: tuple[int, int, int]) -> np.ndarray:
    """A number for each coefficient (F, G, K), flat: octaves in time, half octaves in space."""
    kt, kh, kw = (np.arange(n) for n in band)
    octave = np.where(kt == 0, 0, 1 + np.floor(np.log2(np.maximum(kt, 1))).astype(int))
    radius = np.hypot(kh[:, None] / size[1], kw / size[2]) * max(size[1:])
    ring = np.where(radius == 0, 0, 1 + np.floor(2 * np.log2(np.maximum(radius, 1.0))).astype(int))
    found = octave[:, None, None] * (ring.max() + 1) + ring
    flat = np.asarray(found, dtype=np.int64).reshape(-1)
    flat.setflags(write=False)
    return flat


def shrink(noisy: Array, prior: Array, variance: Array, bin_of: Array) -> Shrunk:
    """Scale the prior in each bin to what was seen, then shrink.

    Args:
        noisy: the released coefficients, as a vector.
        prior: their public prior variances.
        variance: of the noise on each, or on all.
        bin_of: the bin of each.
    """
    number = int(bin_of.max()) + 1 if len(bin_of) else 1
    trust = (prior / (prior + variance)) ** 2
    surplus = trust * (noisy**2 - variance) / prior
    weight = _PRIOR_WEIGHT + counted(bin_of, trust, number)
    found = (_PRIOR_WEIGHT + counted(bin_of, surplus, number)) / weight
    scaled = clamp(found, 0.02, 50.0)[bin_of] * prior
    faithful_gain = 8 * scaled / (8 * scaled + variance)
    return Shrunk(
        best=noisy * (scaled / (scaled + variance)),
        faithful=noisy * faithful_gain,
        faithful_gain=faithful_gain,
    )


def local(best: Array, faithful: Array, simulated: Array) -> Array:
    """Wiener filtering of (T, H, W) in blocks of 16 frames, rows and columns.

    ``simulated`` is fresh noise that went through what the noise in ``faithful`` went through; its
    spectrum in blocks is the noise to be expected. ``best`` says how much signal there is. Four
    shifted grids are averaged, each block with the weight of how little noise it keeps.
    """
    size = tuple(best.shape)
    transform = send(cosine.matrix(_BLOCK, _BLOCK).astype(np.float32))
    total, weights = zeros(size, np.float32), zeros(size, np.float32)
    expected = _spectrum(simulated, transform)
    for shift in _SHIFTS:
        places = [_padded(n, s) for n, s in zip(size, shift, strict=True)]
        gain = _blocks(_take(best, places), transform)
        gain *= gain
        gain /= gain + expected
        kept = (gain * gain * expected).sum((1, 3, 5))
        weight = (1 / (kept + 1e-6 * float(expected.sum())))[:, None, :, None, :, None]
        gain *= _blocks(_take(faithful, places), transform)
        gain *= weight
        inside = tuple(slice(s, s + n) for n, s in zip(size, shift, strict=True))
        total += _joined(_blocks(_joined(gain), transform.T))[inside]
        gain[...] = weight
        weights += _joined(gain)[inside]
    total /= weights
    return total


def _padded(length: int, shift: int) -> np.ndarray:
    """Which places to read so that whole blocks begin ``shift`` before the first: mirrored."""
    whole = math.ceil((length + shift) / _BLOCK) * _BLOCK
    place = np.arange(whole) - shift
    turn = place % (2 * length)
    return np.asarray(np.minimum(turn, 2 * length - 1 - turn))


def _take(block: Array, places: list[np.ndarray]) -> Array:
    for axis, place in enumerate(places):
        if len(place) != block.shape[axis] or place[0] != 0:
            index = send(place)
            block = (
                block[index]
                if axis == 0
                else (block[:, index] if axis == 1 else block[:, :, index])
            )
    return block


def _blocks(block: Array, transform: Array) -> Array:
    """Transform blocks along all three axes; (t, 16, h, 16, w, 16)."""
    frames, height, width = block.shape
    done = block.reshape(-1, _BLOCK) @ transform.T
    done = transform @ done.reshape(-1, _BLOCK, width)
    done = transform @ done.reshape(-1, _BLOCK, height * width)
    return done.reshape(frames // _BLOCK, _BLOCK, height // _BLOCK, _BLOCK, width // _BLOCK, _BLOCK)


def _joined(blocks: Array) -> Array:
    t, _, h, _, w, _ = blocks.shape
    return blocks.reshape(t * _BLOCK, h * _BLOCK, w * _BLOCK)


def _spectrum(simulated: Array, transform: Array) -> Array:
    """Mean energy of each coefficient of a block, (1, 16, 1, 16, 1, 16)."""
    places = [_padded(n, 0) for n in simulated.shape]
    energy = (_blocks(_take(simulated, places), transform) ** 2).mean((0, 2, 4))
    return energy[None, :, None, :, None, :] + 1e-12
