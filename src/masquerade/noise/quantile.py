"""The half-normal quantile as a table of polynomials, with an error that is proved.

For devices whose own erfinv comes without a bound. It takes sums and products only, so the same
bound holds wherever float64 rounds as IEEE 754 says, with or without fused multiply-add.

m(T) is the magnitude whose tail is T = 2 Phi(-m). Every power of two of T is cut into 32 rows,
and m is a polynomial of degree 7 in s on each, s from -1 to 1 across the row. Its derivatives are

    m^(k)(T) = (-1)^k Q_k(m) g^k,  g = 1 / (2 phi(m)),  Q_1 = 1,  Q_(k+1) = Q_k' + k m Q_k,

because dm/dT = -g and dg/dm = m g. The Q_k have no negative coefficient, so |m^(k)| grows with m
and is largest at a row's small end: Taylor's remainder is bounded by a number that can be computed.

    A row is the Taylor polynomial of degree 11 about its middle, cut to degree 7 in Chebyshev's
    basis. Truncation is at most the coefficients cut off plus the remainder. Rounding: Horner's
    rule returns the sum of c_k s^k (1 + t_k) with |t_k| <= (2k+1) u / (1 - (2k+1) u), u = 2^-53;
    a fused step rounds once where two are allowed for. T = J 2^-53 and s are exact.
    Together |error of m| <= u (2.25 m + 0.25) at every J. A test adds the parts up for all rows
    from the very doubles of the table, in mpmath; it trusts mpmath, as `noise.cells` does.
"""

from __future__ import annotations

from functools import cache
from math import factorial
from typing import Any

import mpmath
import numpy as np
from numpy.polynomial import Polynomial, chebyshev
from scipy.special import ndtri

ROW_BITS = 5  # 2^5 rows for each power of two
TERMS = 8
TAYLOR_TERMS = 12
UNIT = 2.0**-53
ERROR_PER_MAGNITUDE, ERROR_AT_ZERO = 2.25, 0.25  # in units of u


@cache
def table() -> np.ndarray:
    """Coefficients (rows, 8), lowest power first; the last row is T = 1, where m is zero.

    The first two need more than double precision while they are made: they come from mpmath.
    """
    mp = mpmath.MPContext()
    mp.prec = 120
    middle, half = middles()
    taylor = np.zeros((len(middle), TAYLOR_TERMS))
    rest = np.zeros(len(middle))  # what the first coefficient lost to rounding
    for row, (at, width) in enumerate(zip(middle.tolist(), half.tolist(), strict=True)):
        taylor[row, 0], rest[row], taylor[row, 1] = _value_and_slope(mp, at, width)
    for k in range(2, TAYLOR_TERMS):
        taylor[:, k] = numerators()[k](taylor[:, 0]) * taylor[:, 1] ** k / factorial(k)
    cut = taylor @ economy()
    cut[:, 0] = taylor[:, 0] + (rest + (taylor[:, TERMS:] @ economy()[TERMS:, 0]))
    return np.concatenate([cut, np.zeros((1, TERMS))])


def middles() -> tuple[np.ndarray, np.ndarray]:
    """The middle of each row but the last, and half its length: both exact."""
    exponent, row = np.divmod(np.arange(53 << ROW_BITS), 1 << ROW_BITS)
    start = np.ldexp(1.0, exponent - 53)
    return start * (1 + (row + 0.5) / (1 << ROW_BITS)), start * 2.0 ** -(ROW_BITS + 1)


def numerators() -> dict[int, Polynomial]:
    """Q_1 to Q_12 of the derivatives."""
    found = {1: Polynomial([1.0])}
    for k in range(1, TAYLOR_TERMS):
        found[k + 1] = found[k].deriv() + k * Polynomial([0.0, 1.0]) * found[k]
    return found


def economy() -> np.ndarray:
    """The matrix that cuts 12 coefficients to 8 in Chebyshev's basis."""
    rows = []
    for k in range(TAYLOR_TERMS):
        power = np.zeros(TAYLOR_TERMS)
        power[k] = 1.0
        short = chebyshev.cheb2poly(chebyshev.poly2cheb(power)[:TERMS])
        rows.append(np.pad(short, (0, TERMS - len(short))))
    return np.array(rows)


def _value_and_slope(mp: Any, middle: float, half: float) -> tuple[float, float, float]:
    """m in two doubles, and dm/ds: one Newton step in mpmath from the double-precision value."""
    near = mp.mpf(float(-ndtri(middle / 2)))
    density = mp.sqrt(2 / mp.pi) * mp.exp(-(near**2) / 2)
    step = (mp.erfc(near / mp.sqrt(2)) - middle) / density
    value = near + step + near * step**2 / 2
    slope = -half / (density * (1 - near * step))
    return float(value), float(value - float(value)), float(slope)
