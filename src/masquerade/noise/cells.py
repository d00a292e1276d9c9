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
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
from scipy.special import ndtri

from masquerade.noise.keystream import EXTRA_BITS, extra_bits

_RELATIVE_ERROR = 2.0**-43
_TAIL_SLOPE = 1.26  # |dm/dT| <= 1.26 / T for both laws
_THREAD = threading.local()


@dataclass(frozen=True)
class Law:
    """A magnitude: its quantile from the tail probability, and the exact tail."""

    magnitude: Callable[[np.ndarray], np.ndarray]
    tail: Callable[[Any, Any], Any]  # of an mpmath context and one of its numbers


HALF_NORMAL = Law(magnitude=lambda t: -ndtri(t / 2), tail=lambda mp, x: mp.erfc(x / mp.sqrt(2)))
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
