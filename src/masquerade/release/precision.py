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

Which of these L are chosen, `masquerade.release.filling` tells, from the public prior alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from scipy.optimize import brentq

from masquerade.compute import cosine
from masquerade.compute.device import Array, constant
from masquerade.guarantee import UnitName
from masquerade.release import prior
from masquerade.release.filling import filling
from masquerade.release.prior import Size

PEAK = 3 * 255.0**2  # largest squared change of one site
_SLACK = 1 + 1e-9  # for the rounding of kappa itself
_LEAST = 1e-3  # coefficients with less signal than this, in units of their noise, are left out


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

    def squared_distance(self, unit: UnitName, sites: int) -> float:
        """The largest ||B d||^2 of one unit inside this chunk.

        For pixels it also bounds the sum over chunks that share the m sites: with m_k of them in
        chunk k, min(m_k^2 kappa, m_k lam) <= (m_k / m) min(m^2 kappa, m lam).
        """
        return max(self.apart(c.kappa, c.lam, unit, sites) for c in self.components)

    def apart(self, kappa: float, lam: float, unit: UnitName, sites: int) -> float:
        """The same for one component, of which only kappa and lam count."""
        frames, area = self.video[0], self.video[1] * self.video[2]

        def bound(m: float) -> float:
            return min(m**2 * kappa / self.side**2, m * lam)

        match unit:
            case UnitName.VALUE:
                found = PEAK / 3 * kappa / self.side**2
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
        whole = prior.kept(self.size)
        box = tuple(
            most if is_free else count
            for most, is_free, count in zip(
                whole, self.free, component.precision.shape, strict=True
            )
        )
        expected = prior.spectrum(self.video, (box[0], box[1], box[2]), self.side) * component.share
        left = _left(self.size[1], box[1], self.side)[:, None]
        left = left * _left(self.size[2], box[2], self.side)
        precision = np.broadcast_to(component.precision, expected.shape)
        where = np.nonzero(precision * expected * left**2 > _LEAST)
        corner = tuple(int(axis.max()) + 1 if len(axis) else 1 for axis in where)
        weights = np.sqrt(precision[where])
        return Band(
            shape=(corner[0], corner[1], corner[2]),
            places=np.ravel_multi_index(where, corner),
            weights=weights,
            clarity=weights * left[where[1:]],
            spectrum=expected[where],
        )

    def expected_error(self) -> float:
        """Squared error summed over the chunk, if the video is as the prior expects."""
        total = prior.energy(self.video)[0] * sum(c.share for c in self.components)
        for band in self.bands:
            gain = band.spectrum * band.clarity**2
            total -= float(np.sum(band.spectrum * gain / (1 + gain)))
        return max(total, 0.0)


def _left(cells: int, count: int, side: int) -> np.ndarray:
    """What averaging over ``side`` sites leaves of each frequency along an axis."""
    half = np.maximum(np.arange(count), 1e-9) * (math.pi / (2 * cells * side))
    return np.asarray(np.sin(half * side) / (side * np.sin(half)))


@lru_cache(maxsize=8)
def plan(size: Size, unit: UnitName, sites: int, squared_mu: float, side: int = 1) -> Precision:
    """The precision of a chunk in which one unit is exactly sqrt(``squared_mu``) apart."""
    time_free = unit not in (UnitName.VALUE, UnitName.PIXELS, UnitName.FRAME)
    space_free = unit not in (UnitName.VALUE, UnitName.PIXELS, UnitName.TUBE)
    water = filling(size, side, time_free=time_free, space_free=space_free)
    empty = Precision(
        video=size, side=side, components=(), is_time_free=time_free, is_space_free=space_free
    )
    axes = zip(empty.size, empty.free, strict=True)
    places = math.prod(n for n, is_free in axes if not is_free)
    highest = float(prior.spectrum(size, (1, 1, 1), side)[0, 0, 0])

    def calibrated(share: float) -> Component:
        def excess(log_level: float) -> float:
            """As if every cell carried the mean energy, which costs nothing to compute."""
            total, most = water.rough(math.exp(log_level), share)
            return math.log(
                max(empty.apart(total / places, most, unit, sites), 1e-300) / squared_mu
            )

        high = math.log(highest * share) - 1e-6
        low = high - 1.0
        while excess(low) < 0 and low > -600:  # what is left is made up by the factor below
            low, high = low - 2.0, low
        level = brentq(excess, low, high, xtol=1e-9) if excess(low) * excess(high) < 0 else high
        first = _component(water.fill(math.exp(level), share), empty, share)
        factor = squared_mu / empty.apart(first.kappa, first.lam, unit, sites)
        return replace(
            first,
            precision=first.precision * factor,
            kappa=first.kappa * factor,
            lam=first.lam * factor,
        )

    return replace(empty, components=tuple(calibrated(share) for share in prior.COLOURS))


def _component(precision: np.ndarray, of: Precision, share: float) -> Component:
    """K on the first half of each axis, exactly, and the window that evens it out."""
    held = precision
    for axis, (length, count) in enumerate(zip(of.size, precision.shape, strict=True)):
        if not of.free[axis]:
            squares = cosine.matrix(length, count)[:, : (length + 1) // 2] ** 2
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
