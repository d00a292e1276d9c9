"""The only source of privacy randomness: noise, and secret batch sampling.

Bits. A 256-bit key from the operating system is expanded by ChaCha20 [rfc8439]; the key is
replaced after 2^31 blocks and in every forked child. So the guarantee is computational: it holds
against anyone who cannot tell ChaCha20 from random bits.

Law. Gaussian (and Laplace) noise is the real-valued law rounded to a grid g, a power of two, and
it is sampled *exactly*: a draw is the cell of the grid in which one exactly uniform real number
falls, decided with as many random bits as it takes (the proof is in `noise.cells`). The law has
no approximation error, so delta does not grow with the number of draws.

Releases. With x on the same grid, x + round(Z) = round(x + Z): what is released is the ideal
Gaussian mechanism followed by rounding, which is post-processing. The released number is a
multiple of g whatever x was, so its low bits say nothing [mironov2012].
"""

from masquerade.noise.grid import (
    GRID_BITS,
    Scale,
    compute_rounded_bound,
    find_grid,
    find_scale,
    round_to_grid,
)
from masquerade.noise.source import Noise, make_file_seed

__all__ = [
    "GRID_BITS",
    "Noise",
    "Scale",
    "compute_rounded_bound",
    "find_grid",
    "find_scale",
    "make_file_seed",
    "round_to_grid",
]
