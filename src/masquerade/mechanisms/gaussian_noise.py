"""Gaussian noise on every number of an array, a signal or a video."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from masquerade import _check
from masquerade.accounting import sensitivity
from masquerade.accounting.compose import compute_epsilon
from masquerade.errors import BadInput
from masquerade.events import DpEvent, GaussianDpEvent
from masquerade.guarantee import (
    WHOLE_FILE,
    Accountant,
    Guarantee,
    GuaranteeKind,
    Relation,
    Unit,
    UnitName,
    make_unit,
)
from masquerade.mechanism import (
    Frames,
    Mechanism,
    Plan,
    Shape,
    Shapes,
    Value,
    arrays_of,
    as_shapes,
    first_unit,
    shapes_of,
)
from masquerade.mechanisms import expected_view as sight
from masquerade.noise import Noise, Scale, compute_rounded_bound, find_scale, round_to_grid
from masquerade.recordings import Signal, Video
from masquerade.tradeoff import gaussian_mu
from masquerade.wording import NOISY_NUMBERS, delta_caveat

_UNITS = tuple(name for name in UnitName if name is not UnitName.SHARD)


@dataclass(frozen=True, kw_only=True)
class GaussianNoise(Mechanism):
    """Clamp to a public range, round to the grid, add Gaussian noise to every number.

    Simple, and right for any unit; the noise on each number is the same, so it suits signals and
    small arrays. Labels of a `Signal` or `Video` (subject, activity, masks, joints) are dropped.

    Guarantee:
        unit: as chosen: value, pixels, tube, frame, video, record or subject.
        relation: replace_one, or zero_out to the middle of the range.
        bound: L2 sensitivity r sqrt(n), n numbers touched, plus the rounding; analytic Gaussian
            [balle2018, Thm 8].
        numerics: exact grid Gaussian, ChaCha20.

    Args:
        epsilon: target of the guarantee.
        delta: target of the guarantee.
        unit: what one change may touch: value, pixels, tube, frame, video, record, subject.
        pixels: m, for the units pixels and tube.
        relation: replace_one or zero_out.
        low: lower end of the public value range; may be left out for 8-bit data.
        high: upper end of the public value range; may be left out for 8-bit data.
    """

    epsilon: float
    delta: float
    unit: str | None = None
    pixels: int | None = None
    relation: str = "replace_one"
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        _check.positive(epsilon=self.epsilon)
        _check.delta(delta=self.delta)
        _ = self.privacy_unit  # refused here, or right
        sensitivity.refuse_add_remove(_check.parse_choice(Relation, relation=self.relation))

    @cached_property
    def privacy_unit(self) -> Unit:
        """The unit, with the range that values are clamped to."""
        low, high = self.low, self.high
        if low is None and high is None:
            low, high = 0.0, 255.0
        if low is None or high is None:
            raise ValueError("Expected both ends of the value range or neither; give low and high.")
        return make_unit(self.unit, self.pixels, low=low, high=high, among=_UNITS)

    @lru_cache(maxsize=64)  # noqa: B019
    def compute_scale(self, shape: Shape | Shapes) -> Scale:
        """The noise, from the zero-out bound of one unit: half the range in n numbers."""
        unit, shapes = self.privacy_unit, as_shapes(shape)
        touched = sensitivity.count_changed_coordinates(unit, shapes)
        distance = 2.0 if Relation(self.relation) is Relation.REPLACE_ONE else 1.0
        mu = gaussian_mu(self.epsilon, self.delta) / distance
        scale = find_scale(self._zero_out(touched), mu=mu, coordinates=touched)
        if max(abs(unit.low or 0.0), abs(unit.high or 0.0)) >= scale.grid * 2.0**51:
            raise ValueError(
                f"Expected a range near zero, got {unit.low:g} to {unit.high:g} with noise of "
                f"{scale.sigma:g}; subtract a public offset first."
            )
        return scale

    def _zero_out(self, touched: int) -> float:
        """How far numbers can be from the middle of the range, as many together."""
        unit = self.privacy_unit
        return ((unit.high or 0.0) - (unit.low or 0.0)) / 2 * math.sqrt(touched)

    def event_for(self, shape: Shape | Shapes, unit: Unit) -> DpEvent | None:
        """The same noise as another unit of the file feels it; a shard has no meaning here."""
        return None if unit.name is UnitName.SHARD else self._make_event(as_shapes(shape), unit)

    def _make_event(self, shapes: Shapes, unit: Unit) -> DpEvent:
        """One Gaussian, in multiples of a unit's bound."""
        scale, touched = (
            self.compute_scale(shapes),
            sensitivity.count_changed_coordinates(unit, shapes),
        )
        bound = compute_rounded_bound(self._zero_out(touched), scale.grid, touched)
        return GaussianDpEvent(math.nextafter(scale.sigma / bound, 0.0))

    def plan(self, shape: Shape | Shapes) -> Plan:
        """The target, met exactly up to rounding; the noise is the same on every number."""
        unit, shapes = self.privacy_unit, as_shapes(shape)
        sigma, event = self.compute_scale(shapes).sigma, self._make_event(shapes, unit)
        frames = max(one[0] for one in shapes) if unit.name is UnitName.FRAME else 1
        is_video = len(shapes) == 1 and len(shapes[0]) == 4 and shapes[0][-1] == 3
        guarantee = Guarantee(
            kind=GuaranteeKind.FORMAL,
            unit=unit,
            relation=Relation(self.relation),
            released=NOISY_NUMBERS,
            epsilon=compute_epsilon(event, delta=self.delta, relation=self.relation),
            delta=self.delta,
            accountant=Accountant.ANALYTIC_GAUSSIAN,
            assumed_public=(
                "the shape and the rate of the data, and the names of its columns or arrays",
                f"the range {unit.low:g} to {unit.high:g} that values are clamped to",
            ),
            not_protected=_not_protected(unit),
            numerics="Gaussian rounded to a grid, exactly sampled; ChaCha20, so computational",
            composition="this release alone; every further release of the same data adds to it",
            caveats=delta_caveat(self.delta, frames),
        )
        share = sight.compute_raw_share(sigma**2) if is_video else None
        return Plan(guarantee=guarantee, event=event, expected_error=sigma, visible_share=share)

    def check(self, value: Value) -> None:
        """Numbers, finite ones, and 8-bit ones where no range is given."""
        for array in arrays_of(value):
            if array.dtype.kind not in "uif":
                raise BadInput(f"Expected numbers, got an array of dtype {array.dtype}.")
            if self.low is None and array.dtype != np.uint8:
                raise ValueError(
                    f"Expected low and high for data of dtype {array.dtype}: the range that "
                    "values are clamped to is public and must be chosen without looking at the "
                    "data."
                )
            if not np.all(np.isfinite(array)):
                raise BadInput(
                    "Expected numbers without NaN or infinity; fill them by a public rule."
                )

    def apply(self, value: Value, noise: Noise) -> Value:
        """The noisy value: arrays as float64, a `Signal` as float32, a `Video` as uint8."""
        self.check(value)
        scale = self.compute_scale(shapes_of(value))
        noisy = tuple(self._add_noise(array, scale, noise) for array in arrays_of(value))
        if isinstance(value, Signal):
            return Signal(values=noisy[0].astype(np.float32), rate_hz=value.rate_hz)
        if isinstance(value, Video):
            frames = np.clip(np.rint(noisy[0]), 0, 255).astype(np.uint8)
            return Video(frames=frames, rate_hz=value.rate_hz)
        return noisy if isinstance(value, tuple) else noisy[0]

    def stream(self, frames: Frames, shape: Shape, noise: Noise) -> Frames:
        """The same for a video, frame by frame: rounded and clipped to 8 bits afterwards."""
        scale = self.compute_scale((shape,))
        for frame in frames:
            noisy = self._add_noise(frame, scale, noise)
            yield np.clip(np.rint(noisy), 0, 255).astype(np.uint8)

    def _add_noise(self, array: np.ndarray, scale: Scale, noise: Noise) -> np.ndarray:
        unit = self.privacy_unit
        clamped = np.clip(array.astype(np.float64), unit.low, unit.high)
        noisy = round_to_grid(clamped, scale.grid)
        noisy += noise.sample_gaussian(scale.sigma, array.shape, grid=scale.grid)
        return noisy

    def worst_case(self, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
        """One unit at the top of the range, against the bottom (or the middle, for zero_out)."""
        unit = self.privacy_unit
        low, high = unit.low or 0.0, unit.high or 0.0
        start = low if Relation(self.relation) is Relation.REPLACE_ONE else (low + high) / 2
        value = np.full(shape, start)
        neighbour = value.copy()
        first_unit(neighbour, unit)[...] = high
        return value, neighbour

    def statistic(self, output: np.ndarray) -> float:
        """The optimal test between the worst case's two inputs: the sum over the unit."""
        return float(np.sum(first_unit(np.asarray(output, dtype=np.float64), self.privacy_unit)))


def _not_protected(unit: Unit) -> tuple[str, ...]:
    if unit.name in WHOLE_FILE:
        return ("other recordings of the same people, unless they are composed",)
    return (
        f"what reaches beyond one {unit}: a person seen for longer, a habit, a place",
        "that the recording exists, and how long it is",
    )
