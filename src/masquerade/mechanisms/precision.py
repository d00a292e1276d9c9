r"""How precisely each cosine coefficient of a video is released, from public knowledge alone.

The release is linear: coefficient f of colour component c, windowed by w, gets Gaussian noise of
variance 1/L_f. Two neighbours d apart are then ||B d|| apart in units of the noise, with
B = diag(sqrt L) Phi diag(w). With K_ii = sum_f phi_f(i)^2 L_f, kappa = max_i w_i^2 K_ii and
lam = max_f L_f (Phi is orthonormal and w <= 1), m changed sites are at most

    ||B d||^2 <= 3 255^2 min(m^2 kappa, m lam)

apart: ||B d|| <= sqrt(kappa) sum |d_i|, then Cauchy-Schwarz; or the operator norm. In each of the
three orthonormal colour components either bound reads b_c sum_i d_c(i)^2 / m, and these sums add up
to at most 3 255^2 m, so the largest b_c counts. Where L does not depend on the frequency along an
axis, Parseval holds along it: that axis is *free*, and changes at different places of it are
orthogonal.

Large frames are pooled first: a cell is the sum of side x side sites over side, an orthonormal
average, and everything above happens to cells. A site then enters one cell with weight 1/side, so
m sites move the cells by at most sum |d_i| / side in sum and by ||d|| in length, and

    ||B d||^2 <= 3 255^2 min(m^2 kappa / side^2, m lam),

while along free axes and for whole videos the length alone counts, as before. Cosine k of the cells
is cosine k of the sites times sin(pi k side / 2n) / (side sin(pi k / 2n)) along each axis, and what
lies far above the kept band.

Which of these L are chosen, `masquerade.mechanisms.precision` tells, from the public prior alone.

How precision is spread over frequencies: reverse water-filling against the prior.

Among all L of one sum the one that a Gaussian prior P asks for is L = (1/theta - 1/P)_+, and along
free axes the L with sum P^2 / (1 + P L)^2 = const.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np

from masquerade._optional import optimize
from masquerade.guarantee import UnitName
from masquerade.io.devices import Array, send_constant
from masquerade.mechanisms import prior
from masquerade.mechanisms.prior import Size
from masquerade.vision import transforms

_NUM_RADII = 512
_RATE_GRID = np.logspace(-12, 3, 240)


class Filling(Protocol):
    """L as a function of the water level, for a component with a share of the prior."""

    def estimate_totals(self, level: float, share: float) -> tuple[float, float]:
        """The sum and the largest of L, nearly."""

    def fill_band(self, level: float, share: float) -> np.ndarray:
        """L on the band where it is not zero."""

    def measure_band(self, level: float, share: float) -> Size:
        """How many frequencies along each axis that is."""


def make_filling(size: Size, side: int, *, time_free: bool, space_free: bool) -> Filling:
    """For a video in cells of some sites a side, with axes that are free or not."""
    if time_free and space_free:
        return _FlatFilling()
    if time_free or space_free:
        return _AxisFilling(size, side, time_free=time_free)
    return _FullFilling(size, side)


class _WholeFilling:
    """Where L is small enough to look at all of it."""

    def estimate_totals(self, level: float, share: float) -> tuple[float, float]:
        """Exactly."""
        found = self.fill_band(level, share)
        return float(found.sum()), float(found.max())

    def fill_band(self, level: float, share: float) -> np.ndarray:
        """L on the band where it is not zero."""
        raise NotImplementedError

    def measure_band(self, level: float, share: float) -> Size:
        """How many frequencies along each axis that is."""
        t, h, w = self.fill_band(level, share).shape
        return t, h, w


class _FlatFilling(_WholeFilling):
    """All axes are free."""

    def fill_band(self, level: float, share: float) -> np.ndarray:
        """One number."""
        return np.full((1, 1, 1), 1 / level)


class _FullFilling:
    """No axis is free: L = (1/level - 1/P)_+.

    P depends on the place in the plane through its radius alone, so a few hundred radii tell the
    sum. That is exact for small frames and close for large ones; what is found is calibrated
    exactly either way.
    """

    def __init__(self, size: Size, side: int) -> None:
        self._size, self._side = size, side
        self._most = prior.count_frequencies(prior.in_cells(size, side))
        plane = prior.plane_of(size, self._most[1:], side)
        times = prior.times_of(size, self._most[0])
        radii, self._counts = prior.radii_of(plane, _NUM_RADII)
        self._table = prior.evaluate_prior(radii[:, None], times, size)
        still = times[:1]
        self._profiles = (
            prior.evaluate_prior(plane[0, 0], times, size),
            prior.evaluate_prior(plane[:, 0], still, size),
            prior.evaluate_prior(plane[0], still, size),
        )

    def estimate_totals(self, level: float, share: float) -> tuple[float, float]:
        """By radii."""
        found = np.maximum(1 / level - 1 / (self._table * share), 0.0)
        return float(self._counts @ found.sum(axis=1)), float(found.max())

    def measure_band(self, level: float, share: float) -> Size:
        """By the profiles along the axes, where P is largest."""
        t, h, w = (_count_above(profile * share, level) for profile in self._profiles)
        return t, h, w

    def fill_band(self, level: float, share: float) -> np.ndarray:
        """Everywhere."""
        box = prior.compute_spectrum(self._size, self.measure_band(level, share), self._side)
        return np.maximum(1 / level - 1 / (box * share), 0.0)


class _AxisFilling(_WholeFilling):
    """One r along the free axes, with sum P^2 / (1 + P r)^2 = level^2 along them.

    Solved at a few hundred radii, as above.
    """

    def __init__(self, size: Size, side: int, *, time_free: bool) -> None:
        most = prior.count_frequencies(prior.in_cells(size, side))
        self._time_free, self._plane = time_free, prior.plane_of(size, most[1:], side)
        self._radii, counts = prior.radii_of(self._plane, _NUM_RADII)
        table = prior.evaluate_prior(
            self._radii[:, None], prior.times_of(size, most[0]), size
        )  # (radii, F)

        def compute_rate_gain(rate: float) -> np.ndarray:
            held = (table / (1 + table * rate)) ** 2
            return np.asarray(held.sum(axis=1) if time_free else counts @ held)

        self._gains = np.log(
            np.stack([compute_rate_gain(rate) for rate in _RATE_GRID])
        )  # falling with the rate

    def fill_band(self, level: float, share: float) -> np.ndarray:
        """Of the axes that are not free."""
        # share enters as sum (sP)^2/(1 + sP r)^2 = s^2 gain(s r)
        goal, logs = 2 * math.log(level / share), np.log(_RATE_GRID)
        rates = np.array(
            [
                np.interp(-goal, -column, logs, left=-np.inf, right=logs[-1])
                for column in self._gains.T
            ]
        )
        found = np.exp(rates) / share
        if not self._time_free:
            return np.asarray(found[: _count_above(found), None, None])
        smooth = np.interp(np.log(self._plane), np.log(self._radii), found)
        return np.asarray(smooth[None, : _count_above(smooth[:, 0]), : _count_above(smooth[0])])


def _count_above(falling: np.ndarray, level: float = 0.0) -> int:
    """How many lie above a level; at least one."""
    return max(int(np.sum(falling > level)), 1)


MAX_SQUARED_CHANGE = 3 * 255.0**2  # largest squared change of one site
_ROUNDING_FACTOR = 1 + 1e-9  # for the rounding of kappa itself
_MIN_SIGNAL_RATIO = (
    1e-3  # coefficients with less signal than this, in units of their noise, are left out
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Component:
    """Precision of one colour component of a chunk.

    Args:
        precision: L on the band of frequencies kept, (F, G, K); axes of 1 are free ones.
        window: w on the first half of each axis; it is symmetric. Axes of 1 are constant.
        kappa: max of w^2 K.
        lam: max of L.
        share: the component's share of the prior.
    """

    precision: np.ndarray
    window: np.ndarray
    kappa: float
    lam: float
    share: float

    def slice_window(self, frames: range, size: Size) -> Array:
        """The window of some frames, (T, H, W) or broadcastable to it, on the chosen device."""
        wanted = send_constant(self.window)
        for axis, length in enumerate(size):
            if self.window.shape[axis] > 1:
                places = frames if axis == 0 else range(length)
                index = send_constant(_mirror_places(places.start, places.stop, length))
                wanted = wanted[(slice(None),) * axis + (index,)]
        return wanted


@lru_cache(maxsize=64)
def _mirror_places(start: int, stop: int, length: int) -> np.ndarray:
    """Places of the first half of an axis that stand for those from ``start`` to ``stop``."""
    places = np.arange(start, stop)
    return np.asarray(np.minimum(places, length - 1 - places))


@dataclass(frozen=True, kw_only=True, eq=False)
class Band:
    """The coefficients of a component that are released, as a vector.

    Args:
        shape: F, G, K of the box of low frequencies that holds them.
        places: their places in that box, flat.
        weights: sqrt(L) of each: 1 over the standard deviation of its noise.
        clarity: the same, times what pooling left of each.
        spectrum: the prior's variance of each, before pooling.
    """

    shape: Size
    places: np.ndarray
    weights: np.ndarray
    clarity: np.ndarray
    spectrum: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class Precision:
    """Of one chunk of a video: three components, calibrated to the same bound.

    Args:
        video: T, H, W of the chunk.
        side: of a cell, in sites.
        components: luma and two chroma.
        is_time_free: whether L is the same at every temporal frequency.
        is_space_free: whether L is the same at every spatial frequency.
    """

    video: Size
    side: int
    components: tuple[Component, ...]
    is_time_free: bool
    is_space_free: bool

    @property
    def size(self) -> Size:
        """T, H, W of the chunk in cells."""
        return prior.in_cells(self.video, self.side)

    def compute_squared_distance(self, unit: UnitName, sites: int) -> float:
        """The largest ||B d||^2 of one unit inside this chunk.

        For pixels it also bounds the sum over chunks that share the m sites: with m_k of them in
        chunk k, min(m_k^2 kappa, m_k lam) <= (m_k / m) min(m^2 kappa, m lam).
        """
        return max(
            self.compute_component_bound(c.kappa, c.lam, unit, sites) for c in self.components
        )

    def compute_component_bound(
        self, kappa: float, lam: float, unit: UnitName, sites: int
    ) -> float:
        """The same for one component, of which only kappa and lam count."""
        frames, area = self.video[0], self.video[1] * self.video[2]

        def compute_site_bound(m: float) -> float:
            return min(m**2 * kappa / self.side**2, m * lam)

        match unit:
            case UnitName.VALUE:
                found = MAX_SQUARED_CHANGE / 3 * kappa / self.side**2
            case UnitName.PIXELS:  # not clamped: other sites may lie in other chunks
                found = MAX_SQUARED_CHANGE * compute_site_bound(sites)
            case UnitName.TUBE if self.is_time_free:
                found = MAX_SQUARED_CHANGE * frames * compute_site_bound(min(sites, area))
            case UnitName.TUBE:
                found = MAX_SQUARED_CHANGE * compute_site_bound(min(sites, area) * frames)
            case UnitName.FRAME if self.is_space_free:
                found = MAX_SQUARED_CHANGE * area * kappa
            case UnitName.FRAME:
                found = MAX_SQUARED_CHANGE * compute_site_bound(area)
            case _:
                found = MAX_SQUARED_CHANGE * frames * area * lam
        return found * _ROUNDING_FACTOR

    @property
    def free_axes(self) -> tuple[bool, bool, bool]:
        """Which of time, height and width are free."""
        return self.is_time_free, self.is_space_free, self.is_space_free

    @cached_property
    def output_bands(self) -> tuple[Band, ...]:
        """What is released of each component: where the signal may be worth its noise."""
        return tuple(self._find_band(component) for component in self.components)

    def _find_band(self, component: Component) -> Band:
        whole = prior.count_frequencies(self.size)
        box = tuple(
            most if is_free else count
            for most, is_free, count in zip(
                whole, self.free_axes, component.precision.shape, strict=True
            )
        )
        expected = (
            prior.compute_spectrum(self.video, (box[0], box[1], box[2]), self.side)
            * component.share
        )
        left = _compute_pooling_gain(self.size[1], box[1], self.side)[:, None]
        left = left * _compute_pooling_gain(self.size[2], box[2], self.side)
        precision = np.broadcast_to(component.precision, expected.shape)
        where = np.nonzero(precision * expected * left**2 > _MIN_SIGNAL_RATIO)
        corner = tuple(int(axis.max()) + 1 if len(axis) else 1 for axis in where)
        weights = np.sqrt(precision[where])
        return Band(
            shape=(corner[0], corner[1], corner[2]),
            places=np.ravel_multi_index(where, corner),
            weights=weights,
            clarity=weights * left[where[1:]],
            spectrum=expected[where],
        )

    def predict_squared_error(self) -> float:
        """Squared error summed over the chunk, if the video is as the prior expects."""
        total = prior.compute_prior_energy(self.video)[0] * sum(c.share for c in self.components)
        for band in self.output_bands:
            gain = band.spectrum * band.clarity**2
            total -= float(np.sum(band.spectrum * gain / (1 + gain)))
        return max(total, 0.0)


def _compute_pooling_gain(cells: int, count: int, side: int) -> np.ndarray:
    """What averaging over ``side`` sites leaves of each frequency along an axis."""
    half = np.maximum(np.arange(count), 1e-9) * (math.pi / (2 * cells * side))
    return np.asarray(np.sin(half * side) / (side * np.sin(half)))


@lru_cache(maxsize=4)
def calibrate_precision(
    size: Size, unit: UnitName, sites: int, squared_mu: float, side: int = 1
) -> Precision:
    """The precision of a chunk in which one unit is exactly sqrt(``squared_mu``) apart."""
    empty, water = _make_empty_precision(size, unit, side)

    def calibrate_component(share: float) -> Component:
        level = _solve_water_level(empty, water, unit, sites, squared_mu, share)
        first = _build_component(water.fill_band(level, share), empty, share)
        factor = squared_mu / empty.compute_component_bound(first.kappa, first.lam, unit, sites)
        return replace(
            first,
            precision=first.precision * factor,
            kappa=first.kappa * factor,
            lam=first.lam * factor,
        )

    return replace(
        empty, components=tuple(calibrate_component(share) for share in prior.COLOUR_SHARES)
    )


def estimate_band_share(
    size: Size, unit: UnitName, sites: int, squared_mu: float, side: int
) -> tuple[float, float]:
    """Which share of the cells' frequencies along height and width luma needs, nearly."""
    empty, water = _make_empty_precision(size, unit, side)
    level = _solve_water_level(empty, water, unit, sites, squared_mu, 1.0)
    _, rows, columns = water.measure_band(level, 1.0)
    if empty.is_space_free:  # then it ends where the prior does
        most = prior.count_frequencies(empty.size)
        _, most_precise = water.estimate_totals(level, 1.0)
        along_height = prior.compute_spectrum(size, (1, most[1], 1), side)[0, :, 0]
        along_width = prior.compute_spectrum(size, (1, 1, most[2]), side)[0, 0]
        rows = int(np.sum(along_height * most_precise > _MIN_SIGNAL_RATIO))
        columns = int(np.sum(along_width * most_precise > _MIN_SIGNAL_RATIO))
    return rows / empty.size[1], columns / empty.size[2]


def _make_empty_precision(size: Size, unit: UnitName, side: int) -> tuple[Precision, Filling]:
    """A plan without components, and what fills them."""
    time_free = unit not in (UnitName.VALUE, UnitName.PIXELS, UnitName.FRAME)
    space_free = unit not in (UnitName.VALUE, UnitName.PIXELS, UnitName.TUBE)
    empty = Precision(
        video=size, side=side, components=(), is_time_free=time_free, is_space_free=space_free
    )
    return empty, make_filling(size, side, time_free=time_free, space_free=space_free)


def _solve_water_level(
    empty: Precision, water: Filling, unit: UnitName, sites: int, squared_mu: float, share: float
) -> float:
    """The water level of a component at which one unit is nearly sqrt(``squared_mu``) apart."""
    axes = zip(empty.size, empty.free_axes, strict=True)
    places = math.prod(n for n, is_free in axes if not is_free)
    highest = float(prior.compute_spectrum(empty.video, (1, 1, 1), empty.side)[0, 0, 0])

    def measure_excess(log_level: float) -> float:
        """As if every cell carried the mean energy, which costs nothing to compute."""
        total, most = water.estimate_totals(math.exp(log_level), share)
        return math.log(
            max(empty.compute_component_bound(total / places, most, unit, sites), 1e-300)
            / squared_mu
        )

    high = math.log(highest * share) - 1e-6
    low = high - 1.0
    while measure_excess(low) < 0 and low > -600:  # what is left is made up by a factor
        low, high = low - 2.0, low
    is_between = measure_excess(low) * measure_excess(high) < 0
    return math.exp(optimize.brentq(measure_excess, low, high, xtol=1e-9) if is_between else high)


def _build_component(precision: np.ndarray, of: Precision, share: float) -> Component:
    """K on the first half of each axis, exactly, and the window that evens it out."""
    held = precision
    for axis, (length, count) in enumerate(zip(of.size, precision.shape, strict=True)):
        if not of.free_axes[axis]:
            squares = transforms.cosine_matrix(length, count)[:, : (length + 1) // 2] ** 2
            held = np.moveaxis(np.tensordot(squares, held, axes=(0, axis)), 0, axis)
        # along a free axis sum_f phi_f(i)^2 = 1: nothing changes
    window = np.minimum(1.0, np.sqrt(np.median(held) / held))
    return Component(
        precision=precision,
        window=window,
        kappa=float(np.max(window**2 * held)),
        lam=float(precision.max()),
        share=share,
    )
