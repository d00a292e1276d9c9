"""What every sound release of a video shares: measure, add one Gaussian, rebuild.

A release measures each chunk of a video as a vector, rounds it to a grid, adds noise of one
standard deviation, and rebuilds frames from the noisy vector alone. Only the measuring sees the
video; rebuilding is post-processing. What it costs is the distance of two neighbours' vectors.

Sums over blocks of a video: whole numbers, so exact, and quick.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from abc import abstractmethod
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np

from masquerade import _check
from masquerade.accounting.compose import compute_epsilon
from masquerade.errors import BadInput
from masquerade.events import DpEvent, GaussianDpEvent
from masquerade.guarantee import (
    Accountant,
    Guarantee,
    GuaranteeKind,
    Relation,
    Unit,
    UnitName,
    make_unit,
)
from masquerade.io import devices
from masquerade.io.device_graphs import replay_work
from masquerade.io.devices import Array, batch_frames, fetch_array, gather, is_cpu
from masquerade.io.streams import read_ahead
from masquerade.mechanism import Frames, Plan, Shape, Shapes, VideoMechanism, as_video, first_unit
from masquerade.mechanisms.prior import Size
from masquerade.noise import Noise, Scale, compute_rounded_bound, find_scale
from masquerade.tradeoff import gaussian_mu
from masquerade.wording import delta_caveat


def count_blocks(size: Sequence[int], steps: Size) -> Size:
    """Blocks along time, height and width; those at the far ends may be short."""
    t, h, w = (math.ceil(n / step) for n, step in zip(size[:3], steps, strict=True))
    return t, h, w


@lru_cache(maxsize=16)
def count_sites_inside(size: Size, steps: Size, times: int = 1) -> np.ndarray:
    """How many sites of each block lie inside the video, (t, h, w, 1), times a number."""
    t, h, w = (
        np.minimum(step, extent - step * np.arange(math.ceil(extent / step)))
        for extent, step in zip(size, steps, strict=True)
    )
    return np.asarray((t[:, None, None] * h[:, None] * w)[..., None] * times)


def sum_blocks(frames: Array, steps: Size, *, most: int = 255) -> Array:
    """Sums over blocks of (T, H, W, 3), in whole numbers; short ones at the far ends.

    Args:
        frames: numbers from 0 to ``most``.
        steps: sides of a block along time, height and width.
        most: the largest of the numbers.
    """
    total = frames
    for axis, step in enumerate(steps):
        reach = min(step, total.shape[axis])
        if reach == 1:
            continue
        most *= reach
        total = _sum_along_axis(total, axis, step, reach, _choose_integer_type(most))
    return total


def sum_pools(frames: list[Array], steps: Size) -> Array:
    """The same of uint8 frames (H, W, 3) that came one by one."""
    if not devices.is_cpu():
        return sum_blocks(devices.gather(frames), steps)
    small = np.stack([sum_blocks(frame[None], (1, *steps[1:]))[0] for frame in frames])
    return sum_blocks(small, (steps[0], 1, 1), most=255 * steps[1] * steps[2])


def _sum_along_axis(wide: Array, axis: int, step: int, reach: int, kind: type[np.integer]) -> Array:
    """Along one axis; ``reach`` is the longest block."""
    if not isinstance(wide, np.ndarray):
        return devices.block_sums(wide, axis, step, kind)
    before = (slice(None),) * axis
    total = devices.cast(wide[(*before, slice(0, None, step))], kind)
    if total.dtype == wide.dtype:
        total = total + 0  # a view otherwise
    for offset in range(1, reach):
        part = wide[(*before, slice(offset, None, step))]
        total[(*before, slice(part.shape[axis]))] += part
    return total


def _choose_integer_type(most: int) -> type[np.integer]:
    """The narrowest numbers that hold sums up to ``most``: they are the quick ones."""
    narrow = np.int16 if most < 1 << 15 else np.int32
    return narrow if most < 1 << 31 else np.int64


_MAX_FRAMES_AHEAD, _MAX_BYTES_AHEAD = (
    32,
    1 << 27,
)  # rebuilt frames that may wait: they come in bursts
_UNITS = tuple(name for name in UnitName if name is not UnitName.SHARD)


@dataclass(frozen=True)
class Chunk:
    """Frames ``start`` to ``start + length`` of a video of a public shape.

    ``seed`` is of the public randomness that a mechanism with ``DRAWS`` uses.
    """

    start: int
    length: int
    shape: Shape
    seed: int = 0

    @property
    def size(self) -> tuple[int, int, int]:
        """T, H, W of the chunk."""
        return self.length, self.shape[1], self.shape[2]


def even_chunks(shape: Shape, most: int) -> list[Chunk]:
    """As few chunks of at most ``most`` frames as it takes, as even as can be.

    Example:
        >>> [chunk.length for chunk in even_chunks((10, 4, 4, 3), 4)]
        [4, 3, 3]
    """
    number = -(-shape[0] // most)
    edges = [-(-shape[0] * i // number) for i in range(number + 1)]
    return [Chunk(a, b - a, shape) for a, b in itertools.pairwise(edges)]


@dataclass(frozen=True, kw_only=True)
class GaussianVideo(VideoMechanism):
    """The fields and the accounting of a Gaussian release of a video.

    Args:
        epsilon: target of the guarantee.
        delta: target of the guarantee.
        unit: what one change may touch: value, pixels, tube, frame, video, record, subject.
        pixels: m, for the units pixels and tube.
    """

    DRAWS: ClassVar[bool] = False  # whether it uses public randomness

    epsilon: float
    delta: float
    unit: str | None = None
    pixels: int | None = None

    def __post_init__(self) -> None:
        _check.positive(epsilon=self.epsilon)
        _check.delta(delta=self.delta)
        _ = self.privacy_unit  # refused here, or right

    @cached_property
    def privacy_unit(self) -> Unit:
        """The unit, in 8-bit video."""
        return make_unit(self.unit, self.pixels, low=0.0, high=255.0, among=_UNITS)

    @abstractmethod
    def list_chunks(self, shape: Shape) -> list[Chunk]:
        """The pieces that are measured, each by itself."""

    @abstractmethod
    def compute_distance_bound(self, shape: Shape, unit: Unit) -> float:
        """A bound on the L2 distance of two neighbours' vectors, all chunks together.

        It is that of the numbers really computed: if the arithmetic can move a vector by e, then
        4 e is in it, so that half of it bounds the distance to a unit that is blank, too (of which
        the true part halves, and the error does not).
        """

    @abstractmethod
    def coordinates(self, shape: Shape, unit: Unit) -> int:
        """In how many numbers two neighbours' vectors can differ."""

    @abstractmethod
    def measure_chunk(self, frames: Iterator[Array], chunk: Chunk) -> Array:
        """The vector of one chunk, in float64, on the chosen device."""

    def measure_together(self, frames: Array, chunk: Chunk) -> Array:
        """The same of frames (T, H, W, 3) that are on the device already."""
        return self.measure_chunk(iter(frames), chunk)

    @abstractmethod
    def rebuild_frames(
        self, measured: Array, chunk: Chunk, sigma: float, noise: Noise
    ) -> Iterator[Array]:
        """Blocks of uint8 frames (B, H, W, 3) from the noisy vector.

        ``noise`` is for simulations; what was added to the vector is never drawn again.
        """

    @property
    @abstractmethod
    def output_description(self) -> str:
        """What leaves the house, in words."""

    @abstractmethod
    def predict_quality(self, shape: Shape) -> tuple[float, float]:
        """The plan's expected error and visible share, by the public prior."""

    @lru_cache(maxsize=64)  # noqa: B019
    def compute_scale(self, shape: Shape) -> Scale:
        """The noise that the target asks for, from half the distance: that to a blank unit."""
        unit = self.privacy_unit
        return find_scale(
            self.compute_distance_bound(shape, unit) / 2,
            mu=gaussian_mu(self.epsilon, self.delta) / 2,
            coordinates=self.coordinates(shape, unit),
        )

    def compute_blank_distance(self, shape: Shape, unit: Unit) -> float:
        """Distance of the rounded vectors to those of a blank unit; twice it between any two."""
        coordinates = self.coordinates(shape, unit)
        return compute_rounded_bound(
            self.compute_distance_bound(shape, unit) / 2,
            self.compute_scale(shape).grid,
            coordinates,
        )

    def add_grid_noise(self, exact: Array, shape: Shape, noise: Noise) -> Array:
        """The vector on the grid, with noise: the only thing that is ever made public."""
        return noise.add_gaussian(exact, self.compute_scale(shape))

    def stream(self, frames: Frames, shape: Shape, noise: Noise) -> Frames:
        """Measure, add noise, rebuild, chunk by chunk.

        While one chunk is rebuilt the next is measured, and frames are taken meanwhile.
        """
        if not is_cpu():
            yield from self._stream_on_gpu(frames, shape, noise)
            return
        room = max(2, min(_MAX_FRAMES_AHEAD, _MAX_BYTES_AHEAD // math.prod(shape[1:])))
        with (
            contextlib.closing(
                read_ahead(self._measure_chunks(frames, shape, noise), max_waiting=1)
            ) as measured,
            contextlib.closing(
                read_ahead(self._rebuild_chunks(measured, shape, noise), max_waiting=room)
            ) as rebuilt,
        ):
            yield from rebuilt

    def _rebuild_chunks(
        self, measured: Iterator[tuple[Chunk, Array]], shape: Shape, noise: Noise
    ) -> Generator[Array, None, None]:
        """Frames; noise is drawn here alone, so always in one order."""
        for chunk, exact in measured:
            made = self.add_grid_noise(exact, shape, noise)
            for block in self.rebuild_frames(made, chunk, self.compute_scale(shape).sigma, noise):
                yield from block

    def _measure_chunks(
        self, frames: Frames, shape: Shape, noise: Noise
    ) -> Generator[tuple[Chunk, Array], None, None]:
        for chunk in self._list_seeded_chunks(shape, noise):
            yield chunk, self.measure_chunk(itertools.islice(frames, chunk.length), chunk)

    def _stream_on_gpu(self, frames: Frames, shape: Shape, noise: Noise) -> Frames:
        for chunk in self._list_seeded_chunks(shape, noise):
            taken = itertools.islice(frames, chunk.length)
            if chunk.length <= batch_frames(*chunk.size[1:]):
                whole = gather_frames(list(taken), chunk, start=0, count=chunk.length)
                blocks = self.release_chunk(whole, chunk, noise)
            else:
                measured = self.add_grid_noise(self.measure_chunk(taken, chunk), shape, noise)
                blocks = self.rebuild_frames(
                    measured, chunk, self.compute_scale(shape).sigma, noise
                )
            for block in blocks:
                yield from fetch_array(block)

    def release_chunk(self, frames: Array, chunk: Chunk, noise: Noise) -> Iterator[Array]:
        """The same for a chunk (T, H, W, 3) on a GPU, whose steps are captured and replayed.

        So `measure_chunk` and `rebuild_frames` may not depend on where a chunk starts. A projection
        of its own for each video is too seldom the same to be captured.
        """
        sigma, alike = self.compute_scale(chunk.shape).sigma, replace(chunk, start=0)
        if self.DRAWS:
            measured = self.add_grid_noise(self.measure_together(frames, alike), chunk.shape, noise)
            return self.rebuild_frames(measured, alike, sigma, noise)
        [exact] = replay_work(
            ("measure", self, alike),
            lambda given, _: [self.measure_together(given, alike)],
            frames,
            noise,
        )
        return iter(
            replay_work(
                ("rebuild", self, alike),
                lambda given, fresh: list(self.rebuild_frames(given, alike, sigma, fresh)),
                self.add_grid_noise(exact, chunk.shape, noise),
                noise,
            )
        )

    def _list_seeded_chunks(self, shape: Shape, noise: Noise) -> list[Chunk]:
        if not self.DRAWS:
            return self.list_chunks(shape)
        seed = noise.draw_public_seed()
        return [replace(chunk, seed=seed) for chunk in self.list_chunks(shape)]

    def play(
        self, worlds: tuple[np.ndarray, np.ndarray], truth: int, trials: int, noise: Noise
    ) -> np.ndarray:
        """What the best attacker makes of some releases, for an audit: log-likelihood ratios.

        The attacker sees the noisy numbers that frames are rebuilt from, which is at least as much
        as the frames, knows both worlds and all public randomness, and wonders which is true.
        """
        shape, found = worlds[0].shape, np.empty(trials)
        for trial in range(trials):
            if trial == 0 or self.DRAWS:
                chunks = self._list_seeded_chunks(shape, noise)
                exact = [
                    self._measure_exactly(world, chunks)
                    for world in self.worlds_given(worlds, chunks)
                ]
                apart, middle = exact[1] - exact[0], (exact[0] + exact[1]) / 2
            found[trial] = (self.add_grid_noise(exact[truth], shape, noise) - middle) @ apart
        return found / self.compute_scale(shape).sigma ** 2

    def worlds_given(
        self, worlds: tuple[np.ndarray, np.ndarray], chunks: list[Chunk]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Worlds as easy to tell apart as any once public randomness is known; by default these."""
        return worlds

    def _measure_exactly(self, frames: np.ndarray, chunks: list[Chunk]) -> np.ndarray:
        stream = iter(frames)
        return np.concatenate(
            [
                fetch_array(self.measure_chunk(itertools.islice(stream, chunk.length), chunk))
                for chunk in chunks
            ]
        )

    def event_for(self, shape: Shape | Shapes, unit: Unit) -> DpEvent | None:
        """The same noise as another unit of the file feels it; a shard has no meaning here."""
        return None if unit.name is UnitName.SHARD else self._make_event(as_video(shape), unit)

    def _make_event(self, shape: Shape, unit: Unit) -> DpEvent:
        """One Gaussian, in multiples of a unit's bound."""
        multiplier = self.compute_scale(shape).sigma / self.compute_blank_distance(shape, unit)
        return GaussianDpEvent(math.nextafter(multiplier, 0.0))

    def plan(self, shape: Shape | Shapes) -> Plan:
        """The target, met up to rounding."""
        unit, shape = self.privacy_unit, as_video(shape)
        event = self._make_event(shape, unit)
        guarantee = Guarantee(
            kind=GuaranteeKind.FORMAL,
            unit=unit,
            relation=Relation.REPLACE_ONE,
            released=self.output_description,
            epsilon=compute_epsilon(event, delta=self.delta, relation=Relation.REPLACE_ONE),
            delta=self.delta,
            accountant=Accountant.ANALYTIC_GAUSSIAN,
            assumed_public=PUBLIC,
            not_protected=not_protected(unit),
            numerics=NUMERICS,
            composition="this release alone; every further release of the same footage adds to it",
            caveats=delta_caveat(self.delta, shape[0] if unit.name is UnitName.FRAME else 1),
        )
        error, share = self.predict_quality(shape)
        return Plan(guarantee=guarantee, event=event, expected_error=error, visible_share=share)

    def worst_case(self, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
        """A black video, and the same with one unit white."""
        value = np.zeros(as_video(shape), np.uint8)
        neighbour = value.copy()
        first_unit(neighbour, self.privacy_unit)[...] = 255
        return value, neighbour


PUBLIC = (
    "the number of frames, their size, their rate and the shape of a pixel",
    "the method and all its settings, chosen without looking at the video",
)
NUMERICS = (
    "8-bit pixels, products in float64 with their error bound in the sensitivity; Gaussian "
    "rounded to a grid, exactly sampled; ChaCha20, so computational"
)


def not_protected(unit: Unit) -> tuple[str, ...]:
    """What a reader might think is covered by a unit of a video, and is not."""
    match unit.name:
        case UnitName.FRAME:
            return (
                "someone seen in many frames: a motionless face comes out sharply once the video "
                "is long; it is the visible blur, not epsilon, that hides a person here",
            )
        case UnitName.VALUE | UnitName.PIXELS:
            return (
                f"a person: {_in_words(unit)} of the millions in a video are not a face, which "
                "covers thousands of sites in every frame; it is the visible blur, not epsilon, "
                "that hides a person here",
            )
        case UnitName.TUBE:
            return (f"a person who covers more than {unit.sites} sites of a frame",)
        case _:
            return ("other recordings of the same people, unless they are composed",)


def _in_words(unit: Unit) -> str:
    if unit.name is UnitName.VALUE:
        return "single numbers"
    return "single sites" if unit.sites == 1 else f"{unit.sites} sites"


def check_frames(frames: list[Array], chunk: Chunk, *, start: int, count: int) -> None:
    """Refuse a stream that ended early or changed its size.

    Args:
        frames: that came.
        chunk: that they are of.
        start: how many of it came before.
        count: how many were asked for; fewer are left at its end.
    """
    for frame in frames:
        if tuple(frame.shape) != chunk.shape[1:]:
            raise BadInput(
                f"Expected frames of shape {chunk.shape[1:]}, got {frame.shape}; cut the video "
                "where its size changes."
            )
    if len(frames) < min(count, chunk.length - start):
        raise BadInput(
            f"Expected {chunk.shape[0]} frames, got {chunk.start + start + len(frames)}; the file "
            "changed while it was read."
        )


def gather_frames(frames: list[Array], chunk: Chunk, *, start: int, count: int) -> Array:
    """The same frames along a new first axis, on the chosen device."""
    check_frames(frames, chunk, start=start, count=count)
    return gather(frames)
