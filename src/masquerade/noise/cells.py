"""Which cell of a grid a random real number falls into, decided exactly.

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
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import factorial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.polynomial import Polynomial, chebyshev

from masquerade._optional import Later, mpmath, special

if TYPE_CHECKING:
    from cryptography.hazmat.primitives import ciphers
else:
    ciphers = Later("cryptography.hazmat.primitives.ciphers")


CHUNK = 1 << 15  # words at a time: the work on them fits the cache
EXTRA_BITS = 128
_ZEROS = bytes(8 * CHUNK)


def keystream(key: bytes, *, lane: bytes, block: int, num_bytes: int) -> bytes:
    """ChaCha20 keystream bytes from ``block`` on; ``lane`` is the 96-bit nonce."""
    chacha = ciphers.algorithms.ChaCha20(key, block.to_bytes(4, "little") + lane)
    zeros = _ZEROS if num_bytes == len(_ZEROS) else bytes(num_bytes)
    return ciphers.Cipher(chacha, mode=None).encryptor().update(zeros)


def extra_bits(key: bytes, index: int, turn: int) -> int:
    """The ``turn``-th 128 further bits of number ``index``: lane 1, addressed by the index."""
    lane = (1).to_bytes(4, "little") + index.to_bytes(8, "little")
    return int.from_bytes(keystream(key, lane=lane, block=turn, num_bytes=16), "little")


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


def cells_of(law: Law, ratio: float, words: np.ndarray, key: bytes, first: int) -> np.ndarray:
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
        cells[i] = _refined_cell(law, ratio, int(words[i]) >> 11, key, first + int(i))
    cells.view(np.uint64)[:] |= words << np.uint64(63)  # the sign bit
    cells += 0.0  # minus zero becomes zero
    return cells


def _refined_cell(law: Law, ratio: float, j: int, key: bytes, index: int) -> int:
    """The cell of one number, decided with as many further bits as it takes."""
    bits, turn = 53, 0
    while True:
        j = j << EXTRA_BITS | extra_bits(key, index, turn)
        bits, turn = bits + EXTRA_BITS, turn + 1
        cell = decided_cell(law, ratio, j, bits)
        if cell is not None:
            return cell


def decided_cell(law: Law, ratio: float, j: int, bits: int) -> int | None:
    """The cell that holds the whole interval (j, j+1] 2^-bits of the tail, or None.

    Borders are compared as tail probabilities, which mpmath gives to full relative precision far
    out; inverting would not. The double-precision guess is right to within one cell.
    """
    middle = float(Fraction(2 * j + 1, 1 << (bits + 1)))
    guess = math.floor(float(law.magnitude(np.asarray([middle]))[0]) * ratio + 0.5)
    mp = _context()
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


def _context() -> Any:
    """mpmath with a precision of this thread's own; the module's is shared by all."""
    if not hasattr(_THREAD, "mp"):
        _THREAD.mp = mpmath.MPContext()
    return _THREAD.mp
