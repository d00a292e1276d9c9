r"""Which cell of a grid a random real number falls into, decided exactly.

One sign bit and a 53-bit integer j name an interval of the tail probability T of the magnitude: T
is uniform in (j 2^-53, (j+1) 2^-53]. The magnitude is a decreasing function m(T), so the interval
maps to [m((j+1) 2^-53), m(j 2^-53)).

    The lower end is computed in double precision with a relative error below 2^-43 (SciPy's
    ndtri, Cephes' algorithm, is within 2.9e-14; then one product and one sum). The length is at
    most c / j, because |dm/dT| <= c / T with c = 1 for -log T, and c = sqrt(2 pi)/2 < 1.26 for
    the half-normal: T = 2 Phi(-m) <= exp(-m^2/2) gives density 2 phi(m) >= 2 T / sqrt(2 pi).
    If the interval, widened by both, lies in one cell of the grid, every real number in it rounds
    to that cell: the cell is decided, and would be the same in exact arithmetic.
    Otherwise 128 more bits of T are drawn and the interval is compared with the cell's borders in
    mpmath at 64 bits more than were drawn; this is repeated until it is decided.

Each draw is therefore the cell in which one exactly uniform T falls: the law is exact, and the
borders' own probability is zero. About 3 numbers in 10 million are undecided at first. The extra
bits stand at a keystream address fixed by the number's index, so another implementation with
another error bound (a GPU) refines other numbers and still returns the same noise.

The ChaCha20 keystream [rfc8439], addressed: the same key and place always give the same bits.

The half-normal quantile as a table of polynomials, with an error that is proved.

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

Whose score plus Gumbel noise is largest, decided exactly.

Law. With w_i = exp(s_i / b), the class with the largest s_i + b G_i, G_i independent standard
Gumbel, is i with probability w_i / (w_1 + ... + w_K): e^-G_i is exponential, so this is the class
with the least of K independent exponential times of rates w_i. That is the exponential mechanism
[mcsherry2007]. So no Gumbel number need be drawn, let alone rounded (a rounded one would have
another winner): one exactly uniform real U decides. With C_k = w_1 + ... + w_k and W = C_K, the
winner is the k with C_{k-1} <= U W < C_k.

Decision. 53 bits j say that U lies in [j, j+1) 2^-53. Weights are taken relative to the largest, so
that W >= 1, and scores are whole numbers of at most 2^52, so that differences d are exact. With
u = 2^-53:

    d / b is right to u relatively, which moves exp(-d/b) by at most u x e^-x < u; exp itself is
    right to four units in the last place, 8 u relatively (2^-1022 absolutely where it underflows);
    the sum of K terms adds K u W. So each C_k is known to (2K + 8) u W, and U W, taken in the
    middle of its interval, to (2K + 10) u W.

Where U W is further than (8K + 40) u W, twice that and more, from every border, the winner is that
of exact arithmetic. Otherwise 128 more bits of U are drawn, and the borders are computed with
mpmath at 64 bits more than were drawn; this is repeated until the interval lies between two
borders. A border is hit with probability zero, so this ends, and the law is exact. With ten classes
fewer than one in a million million is undecided at first.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import accumulate
from math import factorial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.polynomial import Polynomial, chebyshev

from masquerade._optional import lazy_module, mpmath, special

if TYPE_CHECKING:
    from cryptography.hazmat.primitives import ciphers
else:
    ciphers = lazy_module("cryptography.hazmat.primitives.ciphers")


CHUNK = 1 << 15  # words at a time: the work on them fits the cache
EXTRA_BITS = 128
_ZEROS = bytes(8 * CHUNK)


def make_keystream(key: bytes, *, lane: bytes, block: int, num_bytes: int) -> bytes:
    """ChaCha20 keystream bytes from ``block`` on; ``lane`` is the 96-bit nonce."""
    chacha = ciphers.algorithms.ChaCha20(key, block.to_bytes(4, "little") + lane)
    zeros = _ZEROS if num_bytes == len(_ZEROS) else bytes(num_bytes)
    return ciphers.Cipher(chacha, mode=None).encryptor().update(zeros)


def draw_extra_bits(key: bytes, index: int, turn: int) -> int:
    """The ``turn``-th 128 further bits of number ``index``: lane 1, addressed by the index."""
    lane = (1).to_bytes(4, "little") + index.to_bytes(8, "little")
    return int.from_bytes(make_keystream(key, lane=lane, block=turn, num_bytes=16), "little")


ROW_BITS = 5  # 2^5 rows for each power of two
TERMS = 8
TAYLOR_TERMS = 12
UNIT = 2.0**-53
ERROR_PER_MAGNITUDE, ERROR_AT_ZERO = 2.25, 0.25  # in units of u


@cache
def fit_quantile_table() -> np.ndarray:
    """Coefficients (rows, 8), lowest power first; the last row is T = 1, where m is zero.

    The first two need more than double precision while they are made: they come from mpmath.
    """
    mp = mpmath.MPContext()
    mp.prec = 120
    middle, half = list_row_middles()
    taylor = np.zeros((len(middle), TAYLOR_TERMS))
    rest = np.zeros(len(middle))  # what the first coefficient lost to rounding
    for row, (at, width) in enumerate(zip(middle.tolist(), half.tolist(), strict=True)):
        taylor[row, 0], rest[row], taylor[row, 1] = _value_and_slope(mp, at, width)
    for k in range(2, TAYLOR_TERMS):
        taylor[:, k] = derive_numerators()[k](taylor[:, 0]) * taylor[:, 1] ** k / factorial(k)
    cut = taylor @ make_economy_matrix()
    cut[:, 0] = taylor[:, 0] + (rest + (taylor[:, TERMS:] @ make_economy_matrix()[TERMS:, 0]))
    return np.concatenate([cut, np.zeros((1, TERMS))])


def list_row_middles() -> tuple[np.ndarray, np.ndarray]:
    """The middle of each row but the last, and half its length: both exact."""
    exponent, row = np.divmod(np.arange(53 << ROW_BITS), 1 << ROW_BITS)
    start = np.ldexp(1.0, exponent - 53)
    return start * (1 + (row + 0.5) / (1 << ROW_BITS)), start * 2.0 ** -(ROW_BITS + 1)


def derive_numerators() -> dict[int, Polynomial]:
    """Q_1 to Q_12 of the derivatives."""
    found = {1: Polynomial([1.0])}
    for k in range(1, TAYLOR_TERMS):
        found[k + 1] = found[k].deriv() + k * Polynomial([0.0, 1.0]) * found[k]
    return found


def make_economy_matrix() -> np.ndarray:
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
    near = mp.mpf(float(-special.ndtri(middle / 2)))
    density = mp.sqrt(2 / mp.pi) * mp.exp(-(near**2) / 2)
    step = (mp.erfc(near / mp.sqrt(2)) - middle) / density
    value = near + step + near * step**2 / 2
    slope = -half / (density * (1 - near * step))
    return float(value), float(value - float(value)), float(slope)


_RELATIVE_ERROR = 2.0**-43
_TAIL_SLOPE = 1.26  # |dm/dT| <= 1.26 / T for both laws
_THREAD = threading.local()


@dataclass(frozen=True)
class Law:
    """A magnitude: its quantile from the tail probability, and the exact tail."""

    magnitude: Callable[[np.ndarray], np.ndarray]
    tail: Callable[[Any, Any], Any]  # of an mpmath context and one of its numbers


HALF_NORMAL = Law(
    magnitude=lambda t: -special.ndtri(t / 2), tail=lambda mp, x: mp.erfc(x / mp.sqrt(2))
)
EXPONENTIAL = Law(magnitude=lambda t: -np.log(t), tail=lambda mp, x: mp.exp(-x))


def sample_cells(law: Law, ratio: float, words: np.ndarray, key: bytes, first: int) -> np.ndarray:
    """Signed cell numbers of a law whose scale is ``ratio`` cells wide, one for each word."""
    low = (words >> np.uint64(11)).astype(np.float64)  # j: exact, 53 bits
    position = law.magnitude((low + 1.0) * 2.0**-53)  # at the interval's near end
    position *= ratio
    with np.errstate(divide="ignore"):  # j = 0 reaches to infinity: never decided here
        margin = (_TAIL_SLOPE * ratio) / low
    margin += position * _RELATIVE_ERROR
    position += 0.5
    cells: np.ndarray = np.floor(position)
    position -= cells  # now the place inside the cell
    for i in np.flatnonzero((position < margin) | (position + margin >= 1.0)):
        cells[i] = _refine_cell(law, ratio, int(words[i]) >> 11, key, first + int(i))
    cells.view(np.uint64)[:] |= words << np.uint64(63)  # the sign bit
    cells += 0.0  # minus zero becomes zero
    return cells


def _refine_cell(law: Law, ratio: float, j: int, key: bytes, index: int) -> int:
    """The cell of one number, decided with as many further bits as it takes."""
    bits, turn = 53, 0
    while True:
        j = j << EXTRA_BITS | draw_extra_bits(key, index, turn)
        bits, turn = bits + EXTRA_BITS, turn + 1
        cell = decide_cell(law, ratio, j, bits)
        if cell is not None:
            return cell


def decide_cell(law: Law, ratio: float, j: int, bits: int) -> int | None:
    """The cell that holds the whole interval (j, j+1] 2^-bits of the tail, or None.

    Borders are compared as tail probabilities, which mpmath gives to full relative precision far
    out; inverting would not. The double-precision guess is right to within one cell.
    """
    middle = float(Fraction(2 * j + 1, 1 << (bits + 1)))
    guess = math.floor(float(law.magnitude(np.asarray([middle]))[0]) * ratio + 0.5)
    mp = _make_context()
    mp.prec = bits + 64
    slack = mp.ldexp(1, -bits - 40)  # relative; far above mpmath's error
    low, high = mp.ldexp(j, -bits), mp.ldexp(j + 1, -bits)
    for cell in (guess, guess - 1, guess + 1):
        if cell < 0:
            continue
        far = law.tail(mp, (mp.mpf(cell) + 0.5) / mp.mpf(ratio))
        if far * (1 + slack) > low:
            continue
        if cell == 0 or law.tail(mp, (mp.mpf(cell) - 0.5) / mp.mpf(ratio)) * (1 - slack) >= high:
            return cell
    return None


def _make_context() -> Any:
    """mpmath with a precision of this thread's own; the module's is shared by all."""
    if not hasattr(_THREAD, "mp"):
        _THREAD.mp = mpmath.MPContext()
    return _THREAD.mp


MAX_CLASSES = 1 << 20  # the bounds above leave out squares of K u
MAX_SCORE = 1 << 52
_ROUNDING_PER_CLASS = 2.0**-50  # 8 u, for each class


def sample_winners(
    scores: np.ndarray, scale: float, words: np.ndarray, key: bytes, first: int
) -> np.ndarray:
    """The winner of each row of whole-number ``scores`` (Q, K), one word a row."""
    gaps = scores.T.astype(np.float64, order="C")  # (K, Q): whole rows are added below
    np.subtract(gaps, gaps.max(axis=0), out=gaps)
    with np.errstate(over="ignore", under="ignore"):  # a weight of zero is within the bound
        gaps /= scale
        weights = np.exp(gaps, out=gaps)
    borders = np.cumsum(weights, axis=0, out=weights)
    total = borders[-1]
    point = (words >> np.uint64(11)).astype(np.float64)
    point += 0.5
    point *= 2.0**-53
    point *= total
    won = np.zeros(len(words), dtype=np.int64)
    nearest = np.full(len(words), np.inf)
    for border in borders[:-1]:
        won += border <= point
        np.minimum(nearest, np.abs(border - point), out=nearest)
    close = nearest <= (len(borders) + 5) * _ROUNDING_PER_CLASS * total
    for i in np.flatnonzero(close):
        won[i] = _refine_winner(scores[i].tolist(), scale, int(words[i]) >> 11, key, first + int(i))
    return won


def _refine_winner(scores: list[int], scale: float, j: int, key: bytes, index: int) -> int:
    """The winner of one row, decided with as many further bits as it takes."""
    bits, turn = 53, 0
    while True:
        j = j << EXTRA_BITS | draw_extra_bits(key, index, turn)
        bits, turn = bits + EXTRA_BITS, turn + 1
        winner = decide_winner(scores, scale, j, bits)
        if winner is not None:
            return winner


def decide_winner(scores: list[int], scale: float, j: int, bits: int) -> int | None:
    """The class in which the whole interval [j, j+1) 2^-bits of U lies, or None."""
    mp, top = _make_context(), max(scores)
    mp.prec = bits + 64
    borders = list(accumulate(mp.exp(mp.mpf(score - top) / mp.mpf(scale)) for score in scores))
    total = borders.pop()
    slack = mp.ldexp(total, -bits - 40)  # far above the rounding of 2^20 terms
    low = mp.ldexp(j, -bits) * total - slack
    high = mp.ldexp(j + 1, -bits) * total + slack
    winner: int = sum(border <= low for border in borders)
    if winner < len(borders) and borders[winner] < high:
        return None
    return winner
