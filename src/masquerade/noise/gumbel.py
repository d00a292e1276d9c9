r"""Whose score plus Gumbel noise is largest, decided exactly.

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

from itertools import accumulate

import numpy as np

from masquerade.noise.cells import EXTRA_BITS, _context, extra_bits

MOST_CLASSES = 1 << 20  # the bounds above leave out squares of K u
MOST_SCORE = 1 << 52
_ROUNDING = 2.0**-50  # 8 u, for each class


def winners(
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
    close = nearest <= (len(borders) + 5) * _ROUNDING * total
    for i in np.flatnonzero(close):
        won[i] = _refined(scores[i].tolist(), scale, int(words[i]) >> 11, key, first + int(i))
    return won


def _refined(scores: list[int], scale: float, j: int, key: bytes, index: int) -> int:
    """The winner of one row, decided with as many further bits as it takes."""
    bits, turn = 53, 0
    while True:
        j = j << EXTRA_BITS | extra_bits(key, index, turn)
        bits, turn = bits + EXTRA_BITS, turn + 1
        winner = decided_winner(scores, scale, j, bits)
        if winner is not None:
            return winner


def decided_winner(scores: list[int], scale: float, j: int, bits: int) -> int | None:
    """The class in which the whole interval [j, j+1) 2^-bits of U lies, or None."""
    mp, top = _context(), max(scores)
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
