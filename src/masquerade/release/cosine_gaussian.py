"""Cosine coefficients with noise that is shaped to how pictures look: the form we recommend."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from masquerade.compute import cosine, device
from masquerade.compute.device import Array
from masquerade.guarantee import Unit, UnitName
from masquerade.mechanism import Shape, Shapes, as_video
from masquerade.noise import Noise
from masquerade.release import precision, wiener
from masquerade.release import visible as sight
from masquerade.release.gaussian_video import Chunk, GaussianVideo, even_chunks, gathered
from masquerade.release.precision import Band, Precision, Size
from masquerade.tradeoff import gaussian_mu

_MOST_FRAMES = 256
_SLAB = 64  # frames that the local step holds at a time
_MOST_SITES = 1 << 25  # of a chunk, so that large frames fit into memory
_LARGEST = 255 * math.sqrt(3) / 2  # of a colour component, about mid-grey
_WHOLE = (UnitName.TUBE, UnitName.VIDEO, UnitName.RECORD, UnitName.SUBJECT)
_FACTORS = (3**-0.5, 2**-0.5, 6**-0.5)  # make (1,1,1), (1,0,-1) and (1,-2,1) orthonormal


@dataclass(frozen=True, kw_only=True)
class CosineGaussian(GaussianVideo):
    """Add noise to low cosine frequencies, less where a public prior expects more.

    At equal guarantee it keeps most of a picture: slow and large things stay, small and fast
    things go. What it does follows from shape, unit and budget alone.

    Guarantee:
        unit: as chosen: value, pixels, tube, frame, video, record or subject.
        relation: replace_one.
        bound: 255 sqrt(3 min(m^2 kappa, m lam)) in units of the noise, and the forms for free axes
            (`masquerade.release.precision`); analytic Gaussian [balle2018, Thm 8].
        numerics: float64 products, twice their error bound added; exact grid Gaussian, ChaCha20.

    Args:
        epsilon: target of the guarantee.
        delta: target of the guarantee.
        unit: what one change may touch: value, pixels, tube, frame, video, record, subject.
        pixels: m, for the units pixels and tube.
        denoise: local (slower, a little sharper for the units value and pixels, the same as plain
            for others, where it gained nothing) or plain; both use the released numbers alone.
    """

    denoise: Literal["local", "plain"] = "local"

    @property
    def released(self) -> str:
        """What leaves the house."""
        return "low cosine frequencies of the video with noise, and frames rebuilt from them"

    def chunks(self, shape: Shape) -> list[Chunk]:
        """The whole video for one frame, which wants long averages; else at most 256 frames."""
        if self.as_unit().name is UnitName.FRAME:
            return [Chunk(0, shape[0], shape)]
        most = max(1, min(_MOST_FRAMES, _MOST_SITES // (shape[1] * shape[2])))
        return even_chunks(shape, most)

    def plan(self, chunk: Chunk) -> Precision:
        """The precision of a chunk; a unit that touches all chunks shares the budget among them."""
        unit = self.as_unit()
        share = chunk.length / chunk.shape[0] if unit.name in _WHOLE else 1.0
        squared_mu = gaussian_mu(self.epsilon, self.delta) ** 2 * share
        return precision.plan(chunk.size, unit.name, _sites(unit, chunk.shape), squared_mu)

    def distance(self, shape: Shape, unit: Unit) -> float:
        """Bound and four times the arithmetic's error, over the chunks that one unit can touch."""
        plans = [self.plan(chunk) for chunk in self.chunks(shape)]
        squares = [plan.squared_distance(unit.name, _sites(unit, shape)) for plan in plans]
        errors = [_error(plan) for plan in plans]
        touched = self._touched(unit, len(plans))
        # m sites spread over chunks are never further apart than the bound for one chunk
        apart = sum(squares) if unit.name in _WHOLE else max(squares)
        return math.sqrt(apart) + 4 * math.sqrt(touched) * max(errors)

    def coordinates(self, shape: Shape, unit: Unit) -> int:
        """All that is released of the chunks that one unit can touch."""
        plans = [self.plan(chunk) for chunk in self.chunks(shape)]
        released = [sum(len(band.places) for band in plan.bands) for plan in plans]
        return max(1, self._touched(unit, len(plans)) * max(released))

    def _touched(self, unit: Unit, number: int) -> int:
        if unit.name in _WHOLE:
            return number
        return min(unit.sites or 1, number) if unit.name is UnitName.PIXELS else 1

    def expected_error(self, shape: Shape | Shapes) -> float:
        """Root mean square error of a pixel's channel, if the video is as the prior expects."""
        chunks = self.chunks(as_video(shape))
        total = sum(self.plan(chunk).expected_error() for chunk in chunks)
        return math.sqrt(total / math.prod(as_video(shape)))

    def visible(self, shape: Shape | Shapes) -> float:
        """Share of the variation within frames that the best guess keeps, by the prior."""
        chunks, total = self.chunks(as_video(shape)), 0.0
        for chunk in chunks:
            band = self.plan(chunk).bands[0]
            is_picture = band.places % math.prod(band.shape[1:]) > 0  # the first is brightness
            total += chunk.length * sight.denoised(
                chunk.size, band.spectrum * is_picture, band.weights**2
            )
        return total / as_video(shape)[0]

    def measure(self, frames: Iterator[Array], chunk: Chunk) -> Array:
        """The coefficients that are released, each in units of its noise."""
        plan = self.plan(chunk)
        rows = [_matrices(plan.size, band, np.float64) for band in plan.bands]
        sums: list[Array] = [0.0] * len(rows)
        together = device.batch_frames(*chunk.size[1:])
        for start in range(0, chunk.length, together):
            taken = list(itertools.islice(frames, together))
            batch = gathered(taken, chunk, start=start, count=together)
            when = range(start, start + len(batch))
            for c, plane in enumerate(_planes(batch)):
                time, high, wide = rows[c]
                plane *= plan.components[c].windows(when, plan.size)
                sums[c] += cosine.forward(plane, time[:, when.start : when.stop], high, wide)
        vectors = [
            total.reshape(-1)[device.constant(band.places)]
            * (device.constant(band.weights) * factor)
            for total, band, factor in zip(sums, plan.bands, _FACTORS, strict=True)
        ]
        return device.concat(vectors)

    def _is_local(self) -> bool:
        return self.denoise == "local" and self.as_unit().name in (UnitName.VALUE, UnitName.PIXELS)

    def rebuild(self, measured: Array, chunk: Chunk, sigma: float, noise: Noise) -> Iterator[Array]:
        """Shrink, transform back, undo the window."""
        plan = self.plan(chunk)
        wanted = (0,) if self._is_local() else ()  # chroma gains nothing that one sees
        vector, estimates = device.send(measured), []
        for c, band in enumerate(plan.bands):
            own, vector = vector[: len(band.places)], vector[len(band.places) :]
            simulating = noise if c in wanted else None
            estimates.append(_estimates(own, plan.size, band, sigma, simulating))
        whole = (chunk.length, *chunk.shape[1:])
        most = _SLAB if self._is_local() else device.batch_frames(*chunk.size[1:])
        for slab in even_chunks(whole, most):
            when = range(slab.start, slab.start + slab.length)
            planes = []
            for component, band, boxes in zip(plan.components, plan.bands, estimates, strict=True):
                time, high, wide = _matrices(plan.size, band, np.float32)
                time = time[:, when.start : when.stop]
                with device.coarse():
                    blocks = [cosine.backward(box, time, high, wide) for box in boxes]
                    plane = wiener.local(*blocks) if len(blocks) > 1 else blocks[0]
                plane /= device.cast(component.windows(when, plan.size), np.float32)
                planes.append(plane)
            yield from _frames(planes)


def _estimates(
    vector: Array, size: Size, band: Band, sigma: float, noise: Noise | None
) -> list[Array]:
    """Boxes (F, G, K) of the best estimate and, where there is ``noise``, of two more."""
    places, weights = device.constant(band.places), device.constant(band.weights)
    bins = wiener.bins(size, band.shape)
    kinds, number = device.constant(bins)[places], int(bins[-1]) + 1
    variance, spectrum = (sigma / weights) ** 2, device.constant(band.spectrum)
    shrunk = wiener.shrink(vector / weights, spectrum, variance, kinds, number)
    wanted = [shrunk.best]
    if noise is not None:
        fresh = device.send(noise.gaussian(sigma, len(vector))) / weights
        wanted += [shrunk.faithful, fresh * shrunk.faithful_gain]
    boxes = []
    for values in wanted:
        box = device.zeros((math.prod(band.shape),), np.float32)
        box[places] = device.cast(values, np.float32)
        boxes.append(box.reshape(band.shape))
    return boxes


def _sites(unit: Unit, shape: Shape) -> int:
    return min(unit.sites or 1, math.prod(shape[:3]))


def _matrices(size: Size, band: Band, kind: Any) -> list[Array]:
    return [
        device.constant(cosine.matrix(length, kept, kind))
        for length, kept in zip(size, band.shape, strict=True)
    ]


def _planes(batch: Array) -> Iterator[Array]:
    """Luma and two chroma of (T, H, W, 3), about zero: whole or half numbers, so exact."""
    red, green, blue = (device.cast(batch[..., c], np.int16) for c in range(3))
    for mix, middle in ((red + green + blue, 382.5), (red - blue, 0), (red - 2 * green + blue, 0)):
        yield device.cast(mix, np.float64) - middle


def _frames(planes: list[Array]) -> Iterator[Array]:
    """Blocks of uint8 RGB frames from luma and chroma about zero, (T, H, W) each."""
    luma, first, second = planes
    for plane, factor in zip(planes, _FACTORS, strict=True):
        plane *= factor
    luma += 127.5
    together = device.batch_frames(luma.shape[1], luma.shape[2])
    for start in range(0, len(luma), together):
        now = slice(start, start + together)
        warm = luma[now] + second[now]
        channels = [warm + first[now], luma[now] - 2 * second[now], warm - first[now]]
        yield device.to_bytes(device.stack(channels))


def _error(plan: Precision) -> float:
    """How far rounding can move a chunk's measured vector."""
    energy = sum(float(np.sum(band.weights**2)) for band in plan.bands)
    return _LARGEST * cosine.error_bound(plan.size) * math.sqrt(energy)


EXAMPLE = CosineGaussian(epsilon=8.0, delta=1e-4, unit="pixels", pixels=4)
