r"""The privacy losses of simple events: their dominating pairs.

Sampled Gaussians are mixtures on a line: sum_j w_j N(s_j, z^2) against N(0, z^2), or against the
mirrored mixture for replace_one, and the loss grows with x. The masses of a cell are subtracted
before weights multiply them, so that a tiny sampling probability costs no digits.

What an event is made of: the simple events inside it, and how often each is run.

The privacy loss of one event on a grid, never smaller than it is.

For a dominating pair (P, Q) the loss is log dP/dQ under P. Every cell between two grid points has a
mass under P and one under Q; putting both on the cell's two ends, so that each end has its own
likelihood ratio, gives a pair that dominates the true one and has the same delta at every grid
point [doroshenko2022]. What is beyond the last point counts as lost: an infinite loss.

Rounding, in masses and in where cells end, is bounded, and moved to the upper end of each cell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from masquerade import events
from masquerade._optional import special
from masquerade.events import (
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    MixtureOfGaussiansDpEvent,
    PoissonSampledDpEvent,
    RevealedSampledDpEvent,
)
from masquerade.guarantee import Relation


class UnsupportedEvent(ValueError):
    """No accountant here can read the event under that relation."""


def split_event(event: DpEvent) -> list[tuple[DpEvent, int]]:
    """The simple events, checked; sampling with probability one is no sampling."""
    events.check_event(event)
    return list(_flatten_event(event, 1))


def find_distance(relation: Relation) -> float:
    """How far two neighbours may be apart, in units of the zero-out bound."""
    return 2.0 if relation is Relation.REPLACE_ONE else 1.0


def _flatten_event(event: DpEvent, count: int) -> Iterator[tuple[DpEvent, int]]:
    if isinstance(event, events.SelfComposedDpEvent):
        yield from _flatten_event(event.event, count * event.count)
    elif isinstance(event, events.ComposedDpEvent):
        for part in event.events:
            yield from _flatten_event(part, count)
    elif (
        isinstance(event, events.PoissonSampledDpEvent | events.RevealedSampledDpEvent)
        and event.sampling_probability == 1
    ):
        yield from _flatten_event(event.event, count)
    else:
        yield event, count


MAX_CELLS = 2**22
ROUNDING = 8 * 2.0**-53  # of a short chain of operations, relative


class TooFine(Exception):
    """The grid would have more points than fit."""


@dataclass(frozen=True)
class LossLaw:
    """A loss on a grid.

    Args:
        first: index of the lowest grid point.
        chances: of the grid points from there, under P.
        lost: chance of an infinite loss.
    """

    first: int
    chances: np.ndarray
    lost: float

    def add_mass(self, place: int, mass: float, *, lost: float = 0.0) -> LossLaw:
        """The law with some more mass, at a grid point and lost."""
        first = min(self.first, place)
        last = max(self.first + len(self.chances), place + 1)
        chances = np.zeros(last - first)
        chances[self.first - first : self.first - first + len(self.chances)] = self.chances
        chances[place - first] += mass
        return LossLaw(first, chances, self.lost + float(lost))

    def dilute_law(self, chance: float) -> LossLaw:
        """With that chance the law, and no loss at all otherwise."""
        return LossLaw(self.first, self.chances * chance, self.lost * chance).add_mass(
            0, 1 - chance
        )


@dataclass(frozen=True)
class LossCells:
    """What lies between grid points.

    Args:
        ends: indices of the grid points, rising.
        mass: of each cell under P.
        other: under Q.
        gain: the first less the second, computed before it could cancel.
        blur: what the rounding of that difference is measured by.
        too_low: by how much the loss may be below each end.
        too_high: by how much above.
    """

    ends: np.ndarray
    mass: np.ndarray
    other: np.ndarray
    gain: np.ndarray
    blur: np.ndarray
    too_low: np.ndarray
    too_high: np.ndarray

    def swap_sides(self) -> LossCells:
        """The same with P and Q exchanged."""
        return LossCells(
            ends=-self.ends[::-1],
            mass=self.other[::-1],
            other=self.mass[::-1],
            gain=-self.gain[::-1],
            blur=self.blur[::-1],
            too_low=self.too_high[::-1],
            too_high=self.too_low[::-1],
        )

    def make_law(self, interval: float) -> LossLaw:
        """All masses on the ends of their cells."""
        least = self.ends[:-1] * interval
        with np.errstate(over="ignore", invalid="ignore"):
            lifted = self.other * np.expm1(np.minimum(least, 709.0))
            size = np.abs(lifted)
            unsure = ROUNDING * (self.blur + np.abs(self.gain) + size * (1 + np.abs(least)))
            unsure += 2 * (self.mass + self.other + size) * self.too_low[:-1]
            upper = (self.gain - lifted + unsure) / -np.expm1(-interval)
        upper = np.clip(np.nan_to_num(upper, nan=np.inf), 0.0, self.mass)
        share = np.expm1(-self.too_high[1:]) / np.expm1(-interval) * (1 + 1e-12)
        beyond = np.minimum(upper * share, upper)  # at an end that is a hair too low
        is_far = self.too_high[1:] > interval
        chances = np.zeros(len(self.ends) + 1)
        chances[:-2] += self.mass - upper
        chances[1:-1] += upper - beyond
        chances[2:] += np.where(is_far, 0.0, beyond)
        return LossLaw(int(self.ends[0]), chances, float(np.sum(beyond[is_far])))


_TABLE_POINTS = 2**14  # points from which the ends of cells are first guessed
_NEWTON_STEPS = 3
_NUM_HALVINGS = 50
_NEAR_EXPONENT = 30.0  # exponents up to which expm1 is used
MIN_TAIL = 1e-300


class PrivacyLoss(Protocol):
    """The loss of one run."""

    @property
    def loss_std(self) -> float:
        """About its standard deviation."""

    def find_max_loss(self, tail: float) -> float:
        """What is exceeded with at most that chance."""

    def make_laws(self, interval: float, tail: float) -> tuple[LossLaw, LossLaw]:
        """On a grid, in both directions; a tail may count as lost.

        Raises:
            TooFine: if the grid has too many points.
        """


def make_loss(event: DpEvent, count: int, relation: Relation) -> tuple[PrivacyLoss, int]:
    """The loss of a simple event, and how often it is run; plain Gaussians become one.

    Raises:
        UnsupportedEvent: if its loss is not known.
    """
    is_two_sided = relation is Relation.REPLACE_ONE
    match event:
        case GaussianDpEvent(noise_multiplier=z):
            return DominatingPair((1.0,), (1.0,), z / math.sqrt(count), is_two_sided), 1
        case RevealedSampledDpEvent(sampling_probability=q, event=GaussianDpEvent() as inner) if (
            relation is not Relation.ADD_REMOVE
        ):
            return SometimesLoss(
                q, DominatingPair((1.0,), (1.0,), inner.noise_multiplier, is_two_sided)
            ), count
        case LaplaceDpEvent(noise_multiplier=z):
            return LaplaceLoss(find_distance(relation) / z), count
    return make_pair(event, relation), count


def make_pair(event: DpEvent, relation: Relation) -> DominatingPair:
    """The dominating pair of a sampled Gaussian, or of a group of its units."""
    is_two_sided = relation is Relation.REPLACE_ONE
    match event:
        case PoissonSampledDpEvent(sampling_probability=q, event=GaussianDpEvent() as inner):
            return DominatingPair((q,), (1.0,), inner.noise_multiplier, is_two_sided)
        case MixtureOfGaussiansDpEvent(standard_deviation=z, sensitivities=s, sampling_probs=w):
            kept = [(a, b) for a, b in zip(w, s, strict=True) if a > 0 and b > 0]
            weights, shifts = zip(*kept, strict=True)
            return DominatingPair(weights, shifts, z, is_two_sided)
    raise UnsupportedEvent(
        f"Expected an event with a known privacy loss under {relation.value}, got {event}; "
        "no epsilon is claimed for it."
    )


@dataclass(frozen=True)
class DominatingPair:
    """A mixture of shifted Gaussians against the unshifted one, or against its mirror image.

    Args:
        weights: of the shifts above zero; the rest is not shifted.
        shifts: how far, all above zero.
        deviation: of every Gaussian.
        is_two_sided: whether the other side is the mirror image.
    """

    weights: tuple[float, ...]
    shifts: tuple[float, ...]
    deviation: float
    is_two_sided: bool

    @property
    def rest_weight(self) -> float:
        """The weight of what is not shifted."""
        return max(1 - math.fsum(self.weights), 0.0)

    @property
    def loss_std(self) -> float:
        """About the loss's standard deviation: the likelihood ratio's, where that is small."""
        pairs = list(zip(self.weights, self.shifts, strict=True))
        ratio = sum(
            w * v * math.expm1(min(s * t / self.deviation**2, 100.0))
            for w, s in pairs
            for v, t in pairs
        )
        most = max(self.shifts) / self.deviation
        return (2 if self.is_two_sided else 1) * min(math.sqrt(ratio), most)

    def find_max_loss(self, tail: float) -> float:
        """What is exceeded with at most that chance."""
        return float(self.compute_loss(np.array([self._find_ends(tail)[1]]))[0][0])

    def compute_loss(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The loss at each x, a bound on its rounding, and its slope."""
        value, error, slope = self._log_ratio(x)
        if self.is_two_sided:
            mirrored, error_there, slope_there = self._log_ratio(-x)
            return value - mirrored, error + error_there, slope + slope_there
        return value, error, slope

    def _log_ratio(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the mixture to the unshifted Gaussian: log(1 + sum w (e^y - 1)), the same loss."""
        z2 = self.deviation * self.deviation
        exponents = [(s * x - s * s / 2) / z2 for s in self.shifts]
        highest = np.max(exponents, axis=0)
        small = [np.minimum(y, _NEAR_EXPONENT) for y in exponents]
        grown = [np.expm1(y) for y in small]
        total = sum(w * g for w, g in zip(self.weights, grown, strict=True))
        moved = sum(
            w * (np.abs(g) + (s * np.abs(x) + s * s / 2) / z2 * (g + 1))
            for w, g, s in zip(self.weights, grown, self.shifts, strict=True)
        )
        total = np.maximum(total, -1 + 1e-12)
        value = np.log1p(total)
        error = ROUNDING * (moved / (1 + total) + np.abs(value))
        is_far = (highest >= _NEAR_EXPONENT) | (total < -0.5)
        if is_far.any():
            terms = [math.log(w) + y[is_far] for w, y in zip(self.weights, exponents, strict=True)]
            terms += (
                [np.full(int(is_far.sum()), math.log(self.rest_weight))]
                if self.rest_weight > 0
                else []
            )
            value[is_far] = np.logaddexp.reduce(terms)
            far = max(self.shifts)
            size = (far * np.abs(x[is_far]) + far * far / 2) / z2
            error[is_far] = ROUNDING * (1 + np.abs(value[is_far]) + size)
        with np.errstate(over="ignore"):
            slope = sum(
                w * s / z2 * np.exp(y - value)
                for w, s, y in zip(self.weights, self.shifts, exponents, strict=True)
            )
        return value, np.asarray(error), np.asarray(slope)

    def _find_ends(self, tail: float) -> tuple[float, float]:
        reach = -float(special.ndtri(max(tail, MIN_TAIL))) * self.deviation
        far = max(self.shifts)
        return -reach - (far if self.is_two_sided else 0.0), reach + far

    def make_laws(self, interval: float, tail: float) -> tuple[LossLaw, LossLaw]:
        """Of P against Q, and of Q against P."""
        ends, x, too_low, too_high = self._ends_of_cells(interval, tail)
        edges = np.concatenate([[-np.inf], x, [np.inf]])
        here, near = _compute_masses(edges, 0.0, self.deviation)
        mass, other = (
            self.rest_weight * here,
            self.rest_weight * here if self.is_two_sided else here,
        )
        gain, blur = np.zeros_like(here), np.zeros_like(here)
        for weight, shift in zip(self.weights, self.shifts, strict=True):
            ahead, ahead_near = _compute_masses(edges, shift, self.deviation)
            behind, behind_near = here, near
            if self.is_two_sided:
                behind, behind_near = _compute_masses(edges, -shift, self.deviation)
                other = other + weight * behind
            mass = mass + weight * ahead
            gain += weight * (ahead - behind)
            blur += weight * (ahead_near + behind_near)
        inner = slice(1, -1)
        cells = LossCells(
            ends, mass[inner], other[inner], gain[inner], blur[inner], too_low, too_high
        )
        up = cells.make_law(interval).add_mass(int(ends[1]), mass[0], lost=mass[-1])
        if self.is_two_sided:
            return up, up
        return up, cells.swap_sides().make_law(interval).add_mass(
            -int(ends[-2]), other[-1], lost=other[0]
        )

    def _ends_of_cells(self, interval: float, tail: float) -> tuple[np.ndarray, ...]:
        """Grid points, the x where the loss is about there, and how far it is below or above."""
        table = np.linspace(*self._find_ends(tail), _TABLE_POINTS)
        known = np.maximum.accumulate(self.compute_loss(table)[0])
        first, last = math.floor(known[0] / interval), math.ceil(known[-1] / interval)
        if last - first > MAX_CELLS:
            raise TooFine
        ends = np.arange(first, max(last, first + 1) + 1)
        aim = ends * interval
        x = np.interp(aim, known, table)
        for _ in range(_NEWTON_STEPS):
            value, _, slope = self.compute_loss(x)
            with np.errstate(over="ignore"):
                step = (value - aim) / np.maximum(slope, 1e-300)
            x = np.clip(x - step, table[0], table[-1])
        x = self._bisect_ends(x, aim, known, table, interval)
        x = np.maximum.accumulate(x)
        value, error, _ = self.compute_loss(x)
        error += ROUNDING * np.abs(aim)
        return ends, x, np.maximum(aim - value, 0) + error, np.maximum(value - aim, 0) + error

    def _bisect_ends(
        self, x: np.ndarray, aim: np.ndarray, known: np.ndarray, table: np.ndarray, interval: float
    ) -> np.ndarray:
        """Where Newton's steps have not arrived, halve instead."""
        is_inside = (aim > known[0]) & (aim < known[-1])
        lost = np.flatnonzero(
            is_inside & ~(np.abs(self.compute_loss(x)[0] - aim) < 1e-3 * interval)
        )
        if not len(lost):
            return x
        place = np.searchsorted(known, aim[lost])
        low, high = table[place - 1], table[place]
        for _ in range(_NUM_HALVINGS):
            middle = (low + high) / 2
            is_below = self.compute_loss(middle)[0] < aim[lost]
            low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
        x = x.copy()
        x[lost] = high
        return x


def _compute_masses(
    edges: np.ndarray, shift: float, deviation: float
) -> tuple[np.ndarray, np.ndarray]:
    """A Gaussian's mass between edges, and the tail that its rounding is measured by."""
    t = (edges - shift) / deviation
    below, above = special.ndtr(t), special.ndtr(-t)
    is_left = t[1:] <= 0
    mass = np.where(is_left, np.diff(below), -np.diff(above))
    square = np.minimum(np.square(np.where(is_left, t[1:], t[:-1])), 1e4)  # tails round the more
    return np.maximum(mass, 0.0), np.where(is_left, below[1:], above[:-1]) * (1 + square)


@dataclass(frozen=True)
class SometimesLoss:
    """A loss that is there with some chance, and it is known when."""

    chance: float
    loss: PrivacyLoss

    @property
    def loss_std(self) -> float:
        """About its standard deviation."""
        return self.loss.loss_std * math.sqrt(self.chance)

    def find_max_loss(self, tail: float) -> float:
        """What is exceeded with at most that chance."""
        return self.loss.find_max_loss(tail)

    def make_laws(self, interval: float, tail: float) -> tuple[LossLaw, LossLaw]:
        """On a grid, in both directions."""
        up, down = self.loss.make_laws(interval, tail)
        return up.dilute_law(self.chance), down.dilute_law(self.chance)


@dataclass(frozen=True)
class LaplaceLoss:
    """Laplace noise of scale one, shifted."""

    shift: float

    @property
    def loss_std(self) -> float:
        """About its standard deviation."""
        return self.shift

    def find_max_loss(self, tail: float) -> float:
        """What is exceeded with at most that chance."""
        return self.shift

    def make_laws(self, interval: float, tail: float) -> tuple[LossLaw, LossLaw]:
        """Losses of +-shift have a mass of their own; cells that reach beyond only add to them."""
        last = math.ceil(self.shift / interval)
        if 2 * last > MAX_CELLS:
            raise TooFine
        ends = np.arange(-last, last + 1)
        edges = np.clip(ends * interval, -self.shift, self.shift)
        low, high = edges[:-1], edges[1:]
        width = np.expm1((high - low) / 2) / 2
        mass = np.exp(-(self.shift - low) / 2) * width
        other = np.exp(-(self.shift + high) / 2) * width
        mass[[0, -1]] += math.exp(-self.shift) / 2, 0.5
        other[[0, -1]] += 0.5, math.exp(-self.shift) / 2
        error = np.full(len(ends), ROUNDING * self.shift)
        law = LossCells(ends, mass, other, mass - other, mass + other, error, error).make_law(
            interval
        )
        return law, law
