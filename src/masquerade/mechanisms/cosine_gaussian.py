"""Cosine coefficients with noise that is shaped to how pictures look: the form we recommend."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from masquerade.guarantee import Unit, UnitName
from masquerade.io import device_graphs, devices
from masquerade.io.devices import Array
from masquerade.mechanism import Shape, as_video
from masquerade.mechanisms import expected_view as sight
from masquerade.mechanisms import gaussian_video, precision, prior
from masquerade.mechanisms.gaussian_video import Chunk, GaussianVideo, check_frames, even_chunks
from masquerade.mechanisms.precision import Band, Precision
from masquerade.mechanisms.prior import Size
from masquerade.noise import Noise
from masquerade.tradeoff import gaussian_mu
from masquerade.vision import transforms
from masquerade.vision.transforms import mix_planes, paint_frames

_MAX_CHUNK_FRAMES = 256
_MAX_POOLED_FRAMES = 128  # of frames that are pooled
_SLAB_FRAMES = (
    40  # frames that the local step holds at a time: little is mirrored to fill its blocks
)
_MAX_CHUNK_CELLS = 1 << 25  # of a chunk, so that large frames fit into memory
_MIN_POOLED_SITES = 1 << 17  # sites of a frame from which on it is pooled where that loses nothing
_WEAK_SHRINKAGE = 8  # times the signal that is expected
_CELL_SIDES = (16, 12, 10, 8, 6, 5, 4, 3, 2)  # of cells, in sites
_MAX_BAND_SHARE = 0.9  # of the cells' frequencies that the kept band may fill
_STRAY_SHARE = (
    0.2  # of the expected error: what lies above the band of outputs; of films there is more
)
_MAX_COMPONENT = 255 * math.sqrt(3) / 2  # of a colour component, about mid-grey
_WHOLE_UNITS = (UnitName.TUBE, UnitName.VIDEO, UnitName.RECORD, UnitName.SUBJECT)
_COLOUR_FACTORS = (3**-0.5, 2**-0.5, 6**-0.5)  # make (1,1,1), (1,0,-1) and (1,-2,1) orthonormal
_COLOURS = tuple(
    (_COLOUR_FACTORS[0], first * _COLOUR_FACTORS[1], second * _COLOUR_FACTORS[2], 127.5)
    for first, second in ((1, 1), (0, -2), (-1, 1))
)


@dataclass(frozen=True, kw_only=True)
class CosineGaussian(GaussianVideo):
    """Add noise to low cosine frequencies, less where a public prior expects more.

    At equal guarantee it keeps most of a picture: slow and large things stay, small and fast
    things go. What it does follows from shape, unit and budget alone. Large frames are pooled
    first, exactly, to cells that still hold every frequency it would keep.

    Guarantee:
        unit: as chosen: value, pixels, tube, frame, video, record or subject.
        relation: replace_one.
        bound: 255 sqrt(3 min(m^2 kappa / side^2, m lam)) in units of the noise,
            and the forms for free axes (`masquerade.mechanisms.precision`); analytic Gaussian
            [balle2018, Thm 8].
        numerics: float64 products, twice their error bound added; exact grid Gaussian, ChaCha20.

    Args:
        denoise: local (slower, a little sharper for the units value and pixels, the same as plain
            for others, where it gained nothing) or plain; both use the released numbers alone.
    """

    denoise: Literal["local", "plain"] = "local"

    @property
    def output_description(self) -> str:
        """What leaves the house."""
        return "low cosine frequencies of the video with noise, and frames rebuilt from them"

    def list_chunks(self, shape: Shape) -> list[Chunk]:
        """The whole video for one frame, which wants long averages; else 256 frames at most.

        Of large frames there are 128: measuring the next ones fits beside rebuilding these.
        """
        return self._split_chunks(shape, self.choose_cell_side(shape))

    def _split_chunks(self, shape: Shape, side: int) -> list[Chunk]:
        if self.privacy_unit.name is UnitName.FRAME:
            return [Chunk(0, shape[0], shape)]
        _, rows, columns = prior.in_cells((shape[0], shape[1], shape[2]), side)
        most = _MAX_CHUNK_FRAMES if side == 1 else min(_MAX_POOLED_FRAMES, _MAX_CHUNK_FRAMES)
        return even_chunks(shape, max(1, min(most, _MAX_CHUNK_CELLS // (rows * columns))))

    def choose_cell_side(self, shape: Shape) -> int:
        """Sites along a side of a cell, from shape, unit and budget alone; 1 is no pooling."""
        return _find_cell_side(self, as_video(shape))

    def plan_precision(self, chunk: Chunk) -> Precision:
        """Of each frequency of a chunk."""
        return precision.calibrate_precision(
            *self._build_target(chunk), self.choose_cell_side(chunk.shape)
        )

    def _build_target(self, chunk: Chunk) -> tuple[Size, UnitName, int, float]:
        """Size, unit, sites and budget; a unit that touches all chunks shares it among them."""
        unit = self.privacy_unit
        share = chunk.length / chunk.shape[0] if unit.name in _WHOLE_UNITS else 1.0
        squared_mu = gaussian_mu(self.epsilon, self.delta) ** 2 * share
        return chunk.size, unit.name, _count_unit_sites(unit, chunk.shape), squared_mu

    def compute_distance_bound(self, shape: Shape, unit: Unit) -> float:
        """Bound and four times the arithmetic's error, over the chunks that one unit can touch."""
        plans = [self.plan_precision(chunk) for chunk in self.list_chunks(shape)]
        squares = [
            plan.compute_squared_distance(unit.name, _count_unit_sites(unit, shape))
            for plan in plans
        ]
        errors = [_compute_rounding_bound(plan) for plan in plans]
        touched = self._count_touched_chunks(unit, len(plans))
        # m sites spread over chunks are never further apart than the bound for one chunk
        apart = sum(squares) if unit.name in _WHOLE_UNITS else max(squares)
        return math.sqrt(apart) + 4 * math.sqrt(touched) * max(errors)

    def coordinates(self, shape: Shape, unit: Unit) -> int:
        """All that is released of the chunks that one unit can touch."""
        plans = [self.plan_precision(chunk) for chunk in self.list_chunks(shape)]
        released = [sum(len(band.places) for band in plan.output_bands) for plan in plans]
        return max(1, self._count_touched_chunks(unit, len(plans)) * max(released))

    def _count_touched_chunks(self, unit: Unit, number: int) -> int:
        if unit.name in _WHOLE_UNITS:
            return number
        return min(unit.sites or 1, number) if unit.name is UnitName.PIXELS else 1

    def predict_quality(self, shape: Shape) -> tuple[float, float]:
        """Root mean square error of a pixel's channel, and the variation that a best guess keeps.

        Both are those of a video that is as the prior expects.
        """
        error = share = 0.0
        for chunk in self.list_chunks(shape):
            made = self.plan_precision(chunk)
            band = made.output_bands[0]
            is_picture = band.places % math.prod(band.shape[1:]) > 0  # the first is brightness
            error += made.predict_squared_error()
            share += chunk.length * sight.compute_denoised_share(
                chunk.size, band.spectrum * is_picture, band.clarity**2
            )
        return math.sqrt(error / math.prod(shape)), share / shape[0]

    def is_appearance_released(
        self, frames: Sequence[np.ndarray], shape: Shape, public_seeds: tuple[int, ...]
    ) -> bool:
        """Whether little lies above the kept band; the local step and dark corners leave some."""
        plan = self.plan_precision(self.list_chunks(shape)[0])
        sides = zip(shape[1:3], plan.size[1:], plan.output_bands[0].shape[1:], strict=True)
        bases = [
            transforms.enlarging_matrix(places, plan.side, "cubic")
            @ transforms.cosine_matrix(cells, kept).T
            for places, cells, kept in sides
        ]
        most = max(sight.ENCODING_ERROR, _STRAY_SHARE * self.predict_quality(shape)[0])
        return sight.measure_stray_detail(frames, *bases) <= most

    def measure_chunk(self, frames: Iterator[Array], chunk: Chunk) -> Array:
        """The coefficients that are released, each in units of its noise."""
        plan = self.plan_precision(chunk)
        rows = [_list_cosine_matrices(plan.size, band, np.float64) for band in plan.output_bands]
        sums: list[Array] = [0.0] * len(rows)
        steps = (1, plan.side, plan.side)
        counts = devices.send_constant(
            gaussian_video.count_sites_inside((1, *chunk.size[1:]), steps)
        )[..., 0]
        together = devices.batch_frames(*chunk.size[1:])
        for start in range(0, chunk.length, together):
            taken = list(itertools.islice(frames, together))
            check_frames(taken, chunk, start=start, count=together)
            when = range(start, start + len(taken))
            for c, plane in enumerate(
                _split_colours(gaussian_video.sum_pools(taken, steps), counts)
            ):
                time, high, wide = rows[c]
                plane *= plan.components[c].slice_window(when, plan.size)
                sums[c] += transforms.forward(plane, time[:, when.start : when.stop], high, wide)
        vectors = [
            total.reshape(-1)[devices.send_constant(band.places)]
            * (devices.send_constant(band.weights) * (factor / plan.side))
            for total, band, factor in zip(sums, plan.output_bands, _COLOUR_FACTORS, strict=True)
        ]
        return devices.concat(vectors)

    def _is_local(self) -> bool:
        return self.denoise == "local" and self.privacy_unit.name in (
            UnitName.VALUE,
            UnitName.PIXELS,
        )

    def rebuild_frames(
        self, measured: Array, chunk: Chunk, sigma: float, noise: Noise
    ) -> Iterator[Array]:
        """Shrink, transform back, undo the window."""
        plan = self.plan_precision(chunk)
        wanted = (0,) if self._is_local() else ()  # chroma gains nothing that one sees
        vector, estimates = devices.send_array(measured), []
        for c, band in enumerate(plan.output_bands):
            own, vector = vector[: len(band.places)], vector[len(band.places) :]
            simulating = noise if c in wanted else None
            boxes = _estimate_boxes(own, plan.size, band, sigma, simulating)
            estimates.append([_expand_box(box, plan.size, band) for box in boxes])
        whole = (chunk.length, *plan.size[1:], 3)
        most = _SLAB_FRAMES if self._is_local() else devices.batch_frames(*chunk.size[1:])
        for slab in even_chunks(whole, most):
            when = range(slab.start, slab.start + slab.length)
            planes = []
            for component, band, boxes in zip(
                plan.components, plan.output_bands, estimates, strict=True
            ):
                time = _list_cosine_matrices(plan.size, band, np.float32)[0][
                    :, when.start : when.stop
                ]
                with devices.allow_coarse_products():
                    blocks = [transforms.transform_along_time(box, time) for box in boxes]
                    plane = prior.filter_locally(*blocks) if len(blocks) > 1 else blocks[0]
                plane /= devices.cast(component.slice_window(when, plan.size), np.float32)
                planes.append(plane)
            yield from _merge_planes(planes, chunk, plan.side)


@lru_cache(maxsize=64)
def _find_cell_side(mechanism: CosineGaussian, shape: Shape) -> int:
    """The largest cells whose frequencies hold the band with room to spare.

    Beyond the band there must be room, because pooling folds what lies above the cells' highest
    frequency back onto what lies below it.
    """
    if shape[1] * shape[2] < _MIN_POOLED_SITES:
        return 1
    for side in _CELL_SIDES:
        chunk = mechanism._split_chunks(shape, side)[0]
        if (
            max(precision.estimate_band_share(*mechanism._build_target(chunk), side))
            <= _MAX_BAND_SHARE
        ):
            return side
    return 1


def _estimate_boxes(
    vector: Array, size: Size, band: Band, sigma: float, noise: Noise | None
) -> list[Array]:
    """Boxes (F, G, K) of the best estimate and, where there is ``noise``, of two more."""
    places, clarity = devices.send_constant(band.places), devices.send_constant(band.clarity)
    bins = prior.assign_bins(size, band.shape)
    kinds, number = devices.send_constant(bins)[places], int(bins[-1]) + 1
    variance, spectrum = (sigma / clarity) ** 2, devices.send_constant(band.spectrum)
    noisy = vector / clarity
    signal = prior.fit_prior(noisy, spectrum, variance, kinds, number)
    wanted = [noisy * prior.compute_wiener_gain(signal, variance)]
    if noise is not None:  # `wiener.filter_locally` starts from what is shrunk much less
        fresh = device_graphs.sample_device_gaussian(noise, sigma, len(vector)) / clarity
        little = prior.compute_wiener_gain(_WEAK_SHRINKAGE * signal, variance)
        wanted += [noisy * little, fresh * little]
    boxes = []
    for values in wanted:
        box = devices.zeros((math.prod(band.shape),), np.float32)
        box[places] = devices.cast(values, np.float32)
        boxes.append(box.reshape(band.shape))
    return boxes


def _count_unit_sites(unit: Unit, shape: Shape) -> int:
    return min(unit.sites or 1, math.prod(shape[:3]))


def _list_cosine_matrices(size: Size, band: Band, kind: Any) -> list[Array]:
    return [
        devices.send_constant(transforms.cosine_matrix(length, kept, kind))
        for length, kept in zip(size, band.shape, strict=True)
    ]


def _expand_box(box: Array, size: Size, band: Band) -> Array:
    """Coefficients (F, G, K) as pictures of each temporal frequency, (F, h, w)."""
    _, high, wide = _list_cosine_matrices(size, band, np.float32)
    with devices.allow_coarse_products():
        return transforms.transform_along_plane(box, high, wide)


def _split_colours(sums: Array, counts: Array) -> Iterator[Array]:
    """Luma and two chroma of (T, h, w, 3), about zero: whole or half numbers, so exact.

    Args:
        sums: over the sites of each cell.
        counts: of these sites.
    """
    red, green, blue = (devices.cast(sums[..., c], np.int32) for c in range(3))
    for mix, middle in ((red + green + blue, 382.5), (red - blue, 0), (red - 2 * green + blue, 0)):
        plane = devices.cast(mix, np.float64)
        if middle:
            plane = plane - middle * counts
        yield plane


def _merge_planes(planes: list[Array], chunk: Chunk, side: int) -> Iterator[Array]:
    """Blocks of uint8 RGB frames from luma and chroma of cells about zero, (T, h, w) each."""
    if side == 1:
        together = devices.batch_frames(*chunk.size[1:])
        for start in range(0, len(planes[0]), together):
            yield paint_frames([plane[start : start + together] for plane in planes], _COLOURS)
        return
    share = devices.send_constant(_compute_cell_share(chunk.size[1:], side))
    for plane in planes:
        plane *= share
    together = 1 if devices.is_cpu() else devices.batch_frames(*chunk.size[1:])
    for start in range(0, len(planes[0]), together):
        small = mix_planes([plane[start : start + together] for plane in planes], _COLOURS)
        yield transforms.enlarge_to_bytes(small, chunk.size[1:], side, "cubic")


@lru_cache(maxsize=16)
def _compute_cell_share(frame: tuple[int, ...], side: int) -> np.ndarray:
    """What makes a cell the mean of its sites, (1, h, w): short ones have fewer."""
    counts = gaussian_video.count_sites_inside((1, frame[0], frame[1]), (1, side, side))[..., 0]
    return (side / counts).astype(np.float32)


def _compute_rounding_bound(plan: Precision) -> float:
    """How far rounding can move a chunk's measured vector."""
    energy = sum(float(np.sum(band.weights**2)) for band in plan.output_bands)
    return _MAX_COMPONENT * plan.side * transforms.error_bound(plan.size) * math.sqrt(energy)
