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

Among such L the one that a Gaussian prior P asks for is reverse water-filling, L = (1/theta -
1/P)_+, and along free axes the L with sum P^2 / (1 + P L)^2 = const. The prior is a fixed public
spectrum; only the usefulness of the result depends on it, never the guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from scipy.optimize import brentq

from masquerade.compute import cosine
from masquerade.compute.device import Array, constant
from masquerade.guarantee import UnitName

Size = tuple[int, int, int]  # T, H, W

COLOURS = (1.0, 0.05, 0.03)  # the prior's share of luma and of the two chroma components
PEAK = 3 * 255.0**2  # largest squared change of one site
MOST_FREQUENCIES = 512  # along height and width
MOST_TEMPORAL = 128  # along time
_SLACK = 1 + 1e-9  # for the rounding of kappa itself
_LEAST = 1e-3  # coefficients with less signal than this, in units of their noise, are left out
_RADII = 512
_RATES = np.logspace(-12, 3, 240)


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

    def windows(self, frames: range, size: Size) -> Array:
        """The window of some frames, (T, H, W) or broadcastable to it, on the chosen device."""
        wanted = constant(self.window)
        for axis, length in enumerate(size):
            if self.window.shape[axis] > 1:
                places = frames if axis == 0 else range(length)
                index = constant(_mirrored(places.start, places.stop, length))
                wanted = wanted[(slice(None),) * axis + (index,)]
        return wanted


@lru_cache(maxsize=64)
def _mirrored(start: int, stop: int, length: int) -> np.ndarray:
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
        spectrum: the prior's variance of each.
    """

    shape: Size
    places: np.ndarray
    weights: np.ndarray
    spectrum: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class Precision:
    """Of one chunk of a video: three components, calibrated to the same bound.

    Args:
        size: T, H, W of the chunk.
        components: luma and two chroma.
        is_time_free: whether L is the same at every temporal frequency.
        is_space_free: whether L is the same at every spatial frequency.
    """

    size: Size
    components: tuple[Component, ...]
    is_time_free: bool
    is_space_free: bool

    def squared_distance(self, unit: UnitName, sites: int) -> float:
        """The largest ||B d||^2 of one unit inside this chunk.

        For pixels it also bounds the sum over chunks that share the m sites: with m_k of them in
        chunk k, min(m_k^2 kappa, m_k lam) <= (m_k / m) min(m^2 kappa, m lam).
        """
        return max(self.apart(c.kappa, c.lam, unit, sites) for c in self.components)

    def apart(self, kappa: float, lam: float, unit: UnitName, sites: int) -> float:
        """The same for one component, of which only kappa and lam count."""
        frames, area = self.size[0], self.size[1] * self.size[2]

        def bound(m: float) -> float:
            return min(m**2 * kappa, m * lam)

        match unit:
            case UnitName.VALUE:
                found = PEAK / 3 * kappa
            case UnitName.PIXELS:  # not clamped: other sites may lie in other chunks
                found = PEAK * bound(sites)
            case UnitName.TUBE if self.is_time_free:
                found = PEAK * frames * bound(min(sites, area))
            case UnitName.TUBE:
                found = PEAK * bound(min(sites, area) * frames)
            case UnitName.FRAME if self.is_space_free:
                found = PEAK * area * kappa
            case UnitName.FRAME:
                found = PEAK * bound(area)
            case _:
                found = PEAK * frames * area * lam
        return found * _SLACK

    @property
    def free(self) -> tuple[bool, bool, bool]:
        """Which of time, height and width are free."""
        return self.is_time_free, self.is_space_free, self.is_space_free

    @cached_property
    def bands(self) -> tuple[Band, ...]:
        """What is released of each component: where the signal may be worth its noise."""
        return tuple(self._band(component) for component in self.components)

    def _band(self, component: Component) -> Band:
        kept = tuple(
            slice(None) if free else slice(count)
            for free, count in zip(self.free, component.precision.shape, strict=True)
        )
        spectrum = prior(self.size)[kept] * component.share
        precision = np.broadcast_to(component.precision, spectrum.shape)
        where = np.nonzero(precision * spectrum > _LEAST)
        box = tuple(int(axis.max()) + 1 if len(axis) else 1 for axis in where)
        return Band(
            shape=(box[0], box[1], box[2]),
            places=np.ravel_multi_index(where, box),
            weights=np.sqrt(precision[where]),
            spectrum=spectrum[where],
        )

    def expected_error(self) -> float:
        """Squared error summed over the chunk, if the video is as the prior expects."""
        total = float(prior(self.size).sum()) * sum(c.share for c in self.components)
        for band in self.bands:
            gain = band.spectrum * band.weights**2
            total -= float(np.sum(band.spectrum * gain / (1 + gain)))
        return max(total, 0.0)


@lru_cache(maxsize=4)
def prior(size: Size) -> np.ndarray:
    """The public spectrum P of luma, (F, G, K): what moves, and what stands still.

    Its few constants were chosen by hand on three real clips of 64 frames; docs/quality.md has the
    figures on others.
    """
    spectrum = _spectrum(_plane(size), _times(size)[:, None, None], size)
    spectrum.setflags(write=False)
    return spectrum


def _times(size: Size) -> np.ndarray:
    """Every temporal frequency, (F,)."""
    return np.asarray(np.arange(min(size[0], MOST_TEMPORAL)) / (2 * size[0]))


def _plane(size: Size) -> np.ndarray:
    """F^2 + (s fs)^2 at every spatial frequency, (G, K)."""
    _, height, width = size
    fh = np.arange(min(height, MOST_FREQUENCIES)) / (2 * height)
    fw = np.arange(min(width, MOST_FREQUENCIES)) / (2 * width)
    return np.asarray(0.012**2 + height * width / 230**2 * (fh[:, None] ** 2 + fw**2))


def _spectrum(plane: np.ndarray, ft: np.ndarray, size: Size) -> np.ndarray:
    moving = 16 * (plane + (0.45 * ft) ** 2) ** -1.5
    still = np.where(ft == 0, size[0] * plane**-1.75, 0.0)
    return np.asarray((moving + still) * (size[1] * size[2] / 230**2))


@lru_cache(maxsize=8)
def plan(size: Size, unit: UnitName, sites: int, squared_mu: float) -> Precision:
    """The precision of a chunk in which one unit is exactly sqrt(``squared_mu``) apart."""
    time_free = unit not in (UnitName.VALUE, UnitName.PIXELS, UnitName.FRAME)
    space_free = unit not in (UnitName.VALUE, UnitName.PIXELS, UnitName.TUBE)
    fill = _filling(size, time_free=time_free, space_free=space_free)
    empty = Precision(size=size, components=(), is_time_free=time_free, is_space_free=space_free)
    places = math.prod(n for n, is_free in zip(size, empty.free, strict=True) if not is_free)

    def calibrated(share: float) -> Component:
        def excess(log_level: float) -> float:
            """As if every site carried the mean energy, which costs nothing to compute."""
            rough = fill(math.exp(log_level), share)
            mean, most = float(rough.sum()) / places, float(rough.max())
            return math.log(max(empty.apart(mean, most, unit, sites), 1e-300) / squared_mu)

        high = math.log(float(prior(size).max()) * share) - 1e-6
        low = high - 1.0
        while excess(low) < 0 and low > -600:  # what is left is made up by the factor below
            low, high = low - 2.0, low
        level = brentq(excess, low, high, xtol=1e-9) if excess(low) * excess(high) < 0 else high
        first = _component(fill(math.exp(level), share), size, empty.free, share)
        apart = empty.apart(first.kappa, first.lam, unit, sites)
        return _component(first.precision * (squared_mu / apart), size, empty.free, share)

    return replace(empty, components=tuple(calibrated(share) for share in COLOURS))


def _component(
    precision: np.ndarray, size: Size, free: tuple[bool, bool, bool], share: float
) -> Component:
    """K on the first half of each axis, exactly, and the window that evens it out."""
    energy = precision
    for axis, (length, kept) in enumerate(zip(size, precision.shape, strict=True)):
        if not free[axis]:
            squares = cosine.matrix(length, kept)[:, : (length + 1) // 2] ** 2
            energy = np.moveaxis(np.tensordot(squares, energy, axes=(0, axis)), 0, axis)
        # along a free axis sum_f phi_f(i)^2 = 1: nothing changes
    window = np.minimum(1.0, np.sqrt(np.median(energy) / energy))
    return Component(
        precision=precision,
        window=window,
        kappa=float(np.max(window**2 * energy)),
        lam=float(precision.max()),
        share=share,
    )


Filling = Callable[[float, float], np.ndarray]  # (level, share) -> L


def _filling(size: Size, *, time_free: bool, space_free: bool) -> Filling:
    """L as a function of the water level, for a component with a share of the prior."""
    if time_free and space_free:
        return lambda level, share: np.full((1, 1, 1), 1 / level)
    if time_free or space_free:
        return _filled_along(size, time_free=time_free)
    inverse = 1 / prior(size)

    def fill(level: float, share: float) -> np.ndarray:
        spectrum = prior(size)
        kept = tuple(
            _above(profile * share, level)
            for profile in (spectrum[:, 0, 0], spectrum[0, :, 0], spectrum[0, 0])
        )
        return np.maximum(1 / level - inverse[: kept[0], : kept[1], : kept[2]] / share, 0.0)

    return fill


def _filled_along(size: Size, *, time_free: bool) -> Filling:
    """One r along the free axes, with sum P^2 / (1 + P r)^2 = level^2 along them.

    The spectrum depends on the place in the plane through its radius alone, so the equation is
    solved at a few hundred radii. That is exact for small frames and close for large ones; what it
    finds is calibrated exactly either way.
    """
    plane = _plane(size)
    radii, counts = _radii(plane)
    table = _spectrum(radii[:, None], _times(size), size)  # (radii, F)

    def gain(rate: float) -> np.ndarray:
        energy = (table / (1 + table * rate)) ** 2
        return np.asarray(energy.sum(axis=1) if time_free else counts @ energy)

    gains = np.log(np.stack([gain(rate) for rate in _RATES]))  # falling with the rate
    logs = np.log(_RATES)

    def fill(level: float, share: float) -> np.ndarray:
        # share enters as sum (sP)^2/(1 + sP r)^2 = s^2 gain(s r)
        goal = 2 * math.log(level / share)
        rates = np.array(
            [np.interp(-goal, -column, logs, left=-np.inf, right=logs[-1]) for column in gains.T]
        )
        found = np.exp(rates) / share
        if not time_free:
            return np.asarray(found[: _above(found), None, None])
        smooth = np.interp(np.log(plane), np.log(radii), found)
        return np.asarray(smooth[None, : _above(smooth[:, 0]), : _above(smooth[0])])

    return fill


def _above(falling: np.ndarray, level: float = 0.0) -> int:
    """How many lie above a level; at least one."""
    return max(int(np.sum(falling > level)), 1)


def _radii(plane: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A few radii that stand for all of a plane, and how many places each stands for."""
    values, counts = np.unique(plane, return_counts=True)
    if len(values) <= _RADII:
        return values, counts
    edges = np.geomspace(values[0], values[-1] * (1 + 1e-9), _RADII + 1)
    bins = np.searchsorted(edges, plane.ravel(), side="right") - 1
    counts = np.bincount(bins, minlength=_RADII)
    means = np.bincount(bins, weights=plane.ravel(), minlength=_RADII)
    held = counts > 0
    return means[held] / counts[held], counts[held]
